"""Names: what a channel may be called, and how names are put into a line for people."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

#: A channel's name (Fabric: configtx.validateChannelID, and what older networks have).
CHANNEL = "[A-Za-z][A-Za-z0-9._-]{0,248}"
_CHANNEL = re.compile(CHANNEL)
#: The most channels that are known at once. Names come from logs and metrics pages, which are untrusted.
MAX_CHANNELS = 1000

#: The most names in a line; the others are counted.
FEW = 5


def is_channel(name: str) -> bool:
    """Whether a channel can be called so."""
    return _CHANNEL.fullmatch(name) is not None


def few(names: Iterable[str], most: int = FEW) -> str:
    """List the first names in order and count the others; empty for no names."""
    known = sorted(set(names))
    if len(known) <= most + 1:  # "and 1 more" would be no shorter
        return ", ".join(known)
    return f"{', '.join(known[:most])} and {len(known) - most:,} more"


def counted(number: int, thing: str) -> str:
    """Spell a number of things, with the plural's s."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def shortened(name: str, most: int) -> str:
    """Cut the middle out of a long name: that of a chaincode's container begins with its peer and ends with a hash."""
    if len(name) <= most:
        return name
    kept = max(2, most - 2)
    return f"{name[: (kept + 1) // 2]}..{name[len(name) - kept // 2 :]}"


def escaped(text: str) -> str:
    r"""Make text fit for UTF-8: a byte of a path that is none, 0xff for one, becomes ``\udcff``, as in JSON."""
    return text.encode(errors="backslashreplace").decode()


def printable(value: Any) -> Any:
    """Make a document fit for a terminal: control characters in keys and texts become spaces.

    A control group's name is its maker's, who may be any user, and the kernel takes escape sequences in it, and bytes
    that are no UTF-8; these are escaped.
    """
    match value:
        case str():
            return value if value.isprintable() else _without_controls(escaped(value))
        case dict():
            return {printable(key): printable(one) for key, one in value.items()}
        case list() | tuple():
            return [printable(one) for one in value]
        case _:
            return value


def in_one_line(words: str) -> str:
    """Make one line of untrusted text: replace control characters by spaces and truncate it to 200 characters."""
    return _without_controls(escaped(words[:200]))


def _without_controls(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text)
