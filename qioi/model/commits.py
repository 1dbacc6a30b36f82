"""Events that peers and orderers log, and the silence after the last of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct


class Commit(Struct, frozen=True):
    """One block that one peer committed: a commit line of its log.

    ``time`` is the peer's own time stamp of the commit, in seconds since the epoch, UTC;
    ``None`` where the line carries none. ``transactions`` counts invalid and configuration
    transactions too, as Fabric's line does.
    """

    channel: str
    block: int
    transactions: int
    time: float | None
    peer: str = ""


class LeaderChange(Struct, frozen=True):
    """A Raft leader change that one orderer logged; leader 0 means that there is none.

    ``channel`` is ``None`` where the line does not name one; ``time`` as in :class:`Commit`.
    """

    old: int
    new: int
    time: float | None
    channel: str | None = None
    orderer: str = ""


def counted_silence(times: Sequence[float], now: float) -> float:
    """Give the seconds since the last of two or more instants that count as silence: those beyond their longest gap."""
    longest_gap = max(later - earlier for earlier, later in pairwise(times))
    return max(0.0, now - times[-1] - longest_gap)
