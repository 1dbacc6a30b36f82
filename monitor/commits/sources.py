"""What every source of throughput gives: readings per channel, and how each log or endpoint is doing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec import Struct, field

from qioi.model import ChannelReading, Component, LeaderChange


class SourceState(Struct, frozen=True):
    """How one component's log, or its metrics endpoint, is doing. ``problem`` is ``None`` while it can be read.

    Of an endpoint, ``lines`` counts the pages and ``commits`` the valid transactions on the last one.
    ``skipped`` counts by reason the lines about commits that were refused; ``lost_files`` were rotated away
    faster than they are read; ``behind``: more was written than one look takes, so that the readings lag for a moment;
    where that is too much, ``skipped_bytes`` were passed over.
    """

    component: str
    path: str
    problem: str | None
    lines: int
    commits: int
    leader_changes: int
    kind: str = "log"  # or metrics
    skipped: Mapping[str, int] = field(default_factory=dict)
    rotations: int = 0
    truncations: int = 0
    lost_files: int = 0
    behind: bool = False
    skipped_bytes: int = 0


class Channels(Protocol):
    """Throughput per channel."""

    def read(self, now: float) -> dict[str, ChannelReading]:
        """Take in what happened since the last call; ``now`` is the monotonic time."""
        ...

    def states(self) -> list[SourceState]:
        """Say how each log is doing."""
        ...

    def elections(self) -> list[LeaderChange]:
        """Give the Raft leader changes that were logged since the call before."""
        ...

    def seen(self) -> tuple[str, ...]:
        """Name the channels that commits were seen of."""
        ...

    def heard(self, since: float) -> tuple[str, ...]:
        """Name the channels that a commit came of at that monotonic time or later."""
        ...

    def watch(self, components: Iterable[Component], channels: Iterable[str]) -> None:
        """Watch these components and channels from now on; those that stay keep their state."""
        ...

    def close(self) -> None:
        """Let go of files."""
        ...
