"""The logs of all components: commits per channel, leader changes, and how each log is doing."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

from qioi.model import ChannelReading, Commit, Component, LeaderChange, Role
from qioi.monitor.commits.agreement import AgreedThroughput
from qioi.monitor.commits.sources import SourceState
from qioi.monitor.logs.source import LogSource
from qioi.monitor.logs.work import Shares

#: Seconds by which a line may be older than the look before the one that finds it: it lay in its writer's buffers.
LINE_AGE = 5.0
#: Leader changes that are kept between two periods; a log may be forged, so there is a bound.
MAX_ELECTIONS = 256


def commit_instant(line_time: float | None, arrival: float, wall: float, max_age: float) -> float:
    """Place a live commit on the monotonic clock.

    ``arrival`` and ``wall`` are the monotonic and the wall clock when the line was read; it may be ``max_age`` seconds
    old then. The line's own stamp is finer than the period of reading; where its age is impossible (the clock was
    stepped, the line lay in a backlog, the stamp is forged or missing), the time of arrival stands in.
    """
    age = wall - line_time if line_time is not None else 0.0
    return arrival - age if 0.0 <= age <= max_age else arrival


class LogChannels:
    """Follows every component's log, from its end on."""

    def __init__(self, components: Iterable[Component], channels: Iterable[str]) -> None:
        self._channels: tuple[str, ...] = ()
        self._throughput = AgreedThroughput()
        self._elections: deque[LeaderChange] = deque(maxlen=MAX_ELECTIONS)
        self._read_at: float | None = None
        self._looks = 0
        self._sources: dict[tuple[str, str, str, tuple[str, ...], bool], LogSource] = {}
        self.watch(components, channels)

    def watch(self, components: Iterable[Component], channels: Iterable[str]) -> None:
        """Open the logs that are new, at their end, and close those that no component has."""
        self._channels = tuple(channels)
        components = [one for one in components if one.log]
        self._throughput.organise({one.name: one.organisation or one.name for one in components}, self._channels)
        wanted = dict.fromkeys(
            (one.name, one.log or "", one.log_format, one.channels, one.role is Role.ORDERER) for one in components
        )
        for key in [key for key in self._sources if key not in wanted]:
            self._sources.pop(key).close()
        for key in [key for key in wanted if key not in self._sources]:
            name, path, form, serves, orders = key
            self._sources[key] = LogSource(path, name, log_format=form, channels=serves, elections=orders)

    def read(self, now: float, shares: Shares | None = None) -> dict[str, ChannelReading]:
        """Read on in every log, then ask every channel's window. The work is shared with others that read logs."""
        shares = shares or Shares(self.logs)
        wall = time.time()
        oldest = LINE_AGE + (0.0 if self._read_at is None else max(0.0, now - self._read_at))
        self._read_at = now
        self._looks += 1
        turn = deque(self._sources.values())
        turn.rotate(self._looks)  # who comes first has the most work left over
        for source in turn:
            parts = source.parts(shares.next)
            shares.take(source.work)
            for gap, events in parts:
                if gap:
                    self._throughput.skipped(source.component, gap)
                for event in events:
                    if isinstance(event, Commit):
                        self._throughput.observe(event, commit_instant(event.time, now, wall, oldest))
                    else:
                        self._elections.append(event)
        self._throughput.prune(now)
        return {channel: self._throughput.reading(channel, now) for channel in self._channels}

    @property
    def logs(self) -> int:
        """How many logs are followed."""
        return len(self._sources)

    def elections(self) -> list[LeaderChange]:
        """Give the Raft leader changes that were logged since the call before."""
        elections = list(self._elections)
        self._elections.clear()
        return elections

    def seen(self) -> tuple[str, ...]:
        """Name the channels that commits were seen of, also those that have no policy."""
        return self._throughput.channels

    def heard(self, since: float) -> tuple[str, ...]:
        """Name the channels that a commit came of at that monotonic time or later."""
        return self._throughput.heard(since)

    def states(self) -> list[SourceState]:
        """Say how each log is doing."""
        return [
            SourceState(
                source.component,
                source.path,
                source.problem,
                source.counters.lines,
                source.counters.commits,
                source.counters.leader_changes,
                "log",
                {str(reason): count for reason, count in source.counters.skipped.items()},
                source.counters.rotations,
                source.counters.truncations,
                source.counters.lost_files,
                source.backlog,
                source.counters.skipped_bytes,
            )
            for source in self._sources.values()
        ]

    def close(self) -> None:
        """Close every log."""
        for source in self._sources.values():
            source.close()
