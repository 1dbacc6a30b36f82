"""The file of what has been enough for each component, so that a restart of the daemon does not forget it.

It holds no originals, and nothing is restored from it: who finds it damaged, or of another version, goes on without it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from qioi.controller.enough import ANY, Factors
from qioi.controller.guard.journal import write_file
from qioi.kernel.regular import read_own

log = logging.getLogger("qioi")

NAME, VERSION = "enough.json", 1
#: The most that is read, in bytes, and the largest factor that is believed.
MOST_BYTES, MOST = 4_000_000, 1024.0
#: A factor that has changed by this part is written anew.
NEWS = 0.1


class Document(msgspec.Struct, frozen=True):
    """The file: factors on found shares, by the component's name, and by the channel whose law had asked for them.

    ``factors`` are the largest. An earlier daemon has written these alone, and reads no others.
    """

    version: int
    factors: dict[str, float]
    channels: dict[str, dict[str, float]] = {}


class KnownShares:
    """The file in the state folder."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / NAME
        self._stored: dict[str, Factors] = {}
        self._failed = False

    def load(self) -> dict[str, Factors]:
        """Read it; without a file, or with one that is not ours, nothing is known."""
        try:
            document = msgspec.json.decode(read_own(self._file, MOST_BYTES), type=Document)
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            log.warning("%s: %s: what was enough before is not known", self._file, why)
            return {}
        if document.version != VERSION:
            log.warning("%s: version %d, accepted is %d", self._file, document.version, VERSION)
            return {}
        known = {name: believed(document.channels.get(name) or {ANY: one}) for name, one in document.factors.items()}
        self._stored = {name: factors for name, factors in known.items() if factors}
        return dict(self._stored)

    def store(self, known: Mapping[str, Factors]) -> None:
        """Replace it, if what is known has changed by much. A file that can't be written is said once."""
        if known.keys() == self._stored.keys() and all(is_near(one, self._stored[name]) for name, one in known.items()):
            return
        factors = {name: max(one.values()) for name, one in known.items()}
        channels = {name: dict(one) for name, one in known.items() if ANY not in one}
        temporary = self._file.with_name(f"{NAME}.new")
        try:
            write_file(temporary, msgspec.json.encode(Document(VERSION, factors, channels)), durable=False)
            temporary.replace(self._file)
            self._stored, self._failed = dict(known), False
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            if not self._failed:
                log.warning("%s: %s: a restart will not know what is enough now", self._file, error.strerror)
            self._failed = True


def believed(factors: Factors) -> Factors:
    """Leave out what cannot be."""
    return {channel: factor for channel, factor in factors.items() if math.isfinite(factor) and 1 < factor <= MOST}


def is_near(one: Factors, other: Factors) -> bool:
    """Whether nothing has changed by much."""
    return one == other or (
        one.keys() == other.keys() and all(abs(factor / other[channel] - 1) <= NEWS for channel, factor in one.items())
    )
