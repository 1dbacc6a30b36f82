"""Where the replicas of orderers stand of which some may lie, as their operations endpoints say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields

_SERIES = re.compile(r'^consensus_BFT_(\w+)\{channel="([^"]+)"\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Replica:
    """One orderer's replica of one channel.

    ``applied`` and ``stable`` are entries of the order, ``window`` the entries whose votes are kept, ``pending``
    transactions that wait, ``suspicions`` the views that it has given up because their leaders took too long.
    """

    view: int = 0
    active: int = 0
    applied: int = 0
    stable: int = 0
    window: int = 0
    pending: int = 0
    suspicions: int = 0

    def __str__(self) -> str:
        begun = "" if self.active else " (not begun)"
        return (
            f"view {self.view}{begun}, applied {self.applied}, stable {self.stable}, window {self.window}, "
            f"pending {self.pending}, suspicions {self.suspicions}"
        )


def replicas(page: str) -> Mapping[str, Replica]:
    """Read the replicas, by channel, out of an operations endpoint's page; other orderers have none."""
    known = {field.name for field in fields(Replica)}
    found: dict[str, dict[str, int]] = {}
    for name, channel, value in _SERIES.findall(page):
        if name in known:
            found.setdefault(channel, {})[name] = int(float(value))
    return {channel: Replica(**values) for channel, values in found.items()}
