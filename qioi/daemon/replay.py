"""Replay recorded peer logs: what QiOi would have seen and, by a policy, decided. No control group is touched.

The logs are read at full speed. Their commits are merged by the lines' time, and go through the same windows and laws
that the daemon uses, one period after the other. Logs have no scheduling delay, so a replay has none either.
"""

from __future__ import annotations

import dataclasses
import gzip
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from msgspec.structs import replace

from qioi.controller.deciding import Controller
from qioi.controller.findings.finder import Findings
from qioi.controller.laws.thresholds import Threshold
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.controller.policy import Policy
from qioi.model import DEFAULT_SHARES, ChannelReading, Commit, Component, Decision, LeaderChange, Role
from qioi.monitor import Event, LineReader, Skip, SourceCounters, detect_format
from qioi.monitor.commits.agreement import AgreedThroughput
from qioi.monitor.logs.line_cutter import LineCutter

_CHUNK = 1024 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
#: The findings about channels of which only commits are known.
NOTHING_FOUND = Findings({}, {})
#: Seconds without a commit after which a replay skips ahead: a pause in the recording, or a wrong time stamp.
_PAUSE = 120.0
#: Seconds by which neighbouring lines may be out of order, because several threads write them.
_DISORDER = 1.0
_DOCKER_LOG = re.compile(r"([0-9a-f]{12})[0-9a-f]{52}-json\.log")


class ReplayError(Exception):
    """A log that cannot be replayed; the message is one line."""


@dataclass(frozen=True, slots=True)
class LogRead:
    """A summary of one file."""

    path: str
    peer: str
    log_format: str
    counters: SourceCounters
    #: Commits that cannot be placed in time, because neither their line nor any line before it has a time.
    untimed: int
    #: How often the peer's clock was set back.
    clock_steps: int
    seconds: float


@dataclass(slots=True)
class Span:
    """The blocks of one channel, as one peer reported them, or each counted once over all peers."""

    blocks: int = 0
    transactions: int = 0
    first_block: int | None = None
    last_block: int | None = None
    first_time: float | None = None
    last_time: float | None = None
    #: Transactions of the first block, which were committed before the span that throughput is taken over.
    opening: int = 0
    #: Repeated reports of a block by the same peer.
    repeated: int = 0
    #: Blocks missing between the lowest and the highest.
    missing: int = 0

    @property
    def seconds(self) -> float | None:
        """The time from the first commit to the last."""
        return None if self.first_time is None or self.last_time is None else self.last_time - self.first_time

    @property
    def throughput(self) -> float | None:
        """Transactions per second by the paper's equation, over the whole span."""
        return (self.transactions - self.opening) / self.seconds if self.seconds else None


@dataclass(frozen=True, slots=True)
class Point:
    """One period of the replay."""

    time: float
    #: Channel -> transactions per second, as far as it is known.
    throughput: Mapping[str, float | None]
    #: Component -> share in force after this period's decisions.
    shares: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TimedDecision:
    """A decision that would have changed a share."""

    time: float
    decision: Decision


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of a replay."""

    logs: tuple[LogRead, ...]
    period: float
    window: float
    channels: Mapping[str, Span]
    peers: Mapping[tuple[str, str], Span]
    #: Blocks that peers reported with different numbers of transactions, per channel.
    disagreements: Mapping[str, int]
    leader_changes: tuple[LeaderChange, ...]
    points: tuple[Point, ...]
    thresholds: Mapping[str, float]
    decisions: tuple[TimedDecision, ...]
    #: Component -> why its share is what it is in the end.
    reasons: Mapping[str, str]

    @property
    def lines(self) -> int:
        """Lines read in all files."""
        return sum(log.counters.lines for log in self.logs)


@dataclass(frozen=True, slots=True)
class Plan:
    """The components that the policies decide about; without policies nothing is decided.

    ``later`` makes the policy of a channel that the logs have, and ``policies`` have not; ``None``: there is none.
    """

    components: tuple[Component, ...] = ()
    policies: Mapping[str, Policy] = field(default_factory=dict)
    period: float = 1.0
    window: float = 6.0
    later: Callable[[str], Policy] | None = None


def name_peers(paths: Sequence[Path]) -> dict[Path, str]:
    """Name the peer of each file: the file's name without the suffixes of rotation and compression.

    ``peer0.log``, ``peer0.log.1`` and ``peer0.log.2.gz`` are one peer; ``a/peer.log`` and ``b/peer.log`` are two. Those
    of one name have as many folders before it as tell them apart.
    """
    stems = {path: stem(path) for path in paths}
    folders = {path: Path(os.path.normpath(path.absolute())).parent.parts[1:] for path in paths}
    alike: dict[str, set[tuple[str, ...]]] = {}
    for path, name in stems.items():
        alike.setdefault(name, set()).add(folders[path])
    needed = {name: _needed(found) for name, found in alike.items()}
    return {path: "/".join((*_last(folders[path], needed[name]), name)) for path, name in stems.items()}


def read_log(path: Path, peer: str, channels: Iterable[str] = ()) -> tuple[list[Event], LogRead]:
    """Read one recorded log, compressed or not, in any format. ReplayError."""
    counters = SourceCounters()
    events: list[Event] = []
    cutter = LineCutter(counters)
    reader: LineReader | None = None
    try:
        for data in _chunks(path):
            if reader is None:
                reader = LineReader(peer, detect_format(data), tuple(channels), counters)
                log_format = detect_format(data)
            counters.bytes += len(data)
            events += reader.feed(cutter.feed(data))
        if reader is not None:
            events += reader.feed(cutter.rest())
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ReplayError(f"{path}: broken gzip file: {error}") from None
    except OSError as error:
        raise ReplayError(f"{path}: {error.strerror or error}") from None
    if reader is None:
        raise ReplayError(f"{path}: empty: accepted is a peer's log")
    placed, steps = _with_times(events)
    times = [event.time for event in placed if event.time is not None]
    span = max(times) - min(times) if times else 0.0
    return placed, LogRead(str(path), peer, log_format.value, counters, len(events) - len(placed), steps, span)


def replay(
    paths: Sequence[Path], plan: Plan, names: Mapping[Path, str] | None = None, threshold: float | None = None
) -> Replay:
    """Read the logs and go through them, one period after the other. ReplayError.

    ``names`` gives the component that wrote each log. ``threshold`` replaces every channel's own; where the plan has no
    policies, Algorithm 1 decides about every peer that has a log here.
    """
    names = names or name_peers(paths)
    serving = {component.name: component.channels for component in plan.components}
    events: list[Event] = []
    logs: list[LogRead] = []
    for path in dict.fromkeys(paths):
        found, log = read_log(path, names[path], serving.get(names[path], ()))
        events += found
        logs.append(log)
    events.sort(key=_time)
    commits = [event for event in events if isinstance(event, Commit)]
    if not commits and not any(isinstance(event, LeaderChange) for event in events):
        raise ReplayError(
            f"{', '.join(map(str, paths))}: no commit line in {sum(log.counters.lines for log in logs)} lines: "
            f"accepted are the logs of Fabric peers with logger kvledger at level INFO"
        )
    channels, peers, disagreements = summarise(commits)
    if plan.later is not None:
        made = {name: plan.later(name) for name in channels if name not in plan.policies}
        plan = dataclasses.replace(plan, policies={**plan.policies, **made})
    if threshold is not None:
        plan = _with_threshold(plan, threshold, [log.peer for log in logs], channels)
    points, decisions, reasons = _go_through(commits, plan)
    return Replay(
        logs=tuple(logs),
        period=plan.period,
        window=plan.window,
        channels=channels,
        peers=peers,
        disagreements=disagreements,
        leader_changes=tuple(event for event in events if isinstance(event, LeaderChange)),
        points=points,
        thresholds={name: policy.threshold for name, policy in plan.policies.items() if policy.threshold is not None},
        decisions=decisions,
        reasons=reasons,
    )


def summarise(commits: Iterable[Commit]) -> tuple[dict[str, Span], dict[tuple[str, str], Span], dict[str, int]]:
    """Sum up per channel (each block once) and per channel and peer; count the blocks on which peers disagree."""
    by_channel: dict[str, dict[int, Commit]] = {}
    by_peer: dict[tuple[str, str], dict[int, Commit]] = {}
    repeated: Counter[tuple[str, str]] = Counter()
    disagreeing: dict[str, set[int]] = {}
    for commit in commits:
        key = commit.channel, commit.peer
        own = by_peer.setdefault(key, {})
        if commit.block in own:
            repeated[key] += 1
            continue
        own[commit.block] = commit
        first = by_channel.setdefault(commit.channel, {}).setdefault(commit.block, commit)
        if first.transactions != commit.transactions:
            disagreeing.setdefault(commit.channel, set()).add(commit.block)
    channels = {channel: _span(blocks.values()) for channel, blocks in by_channel.items()}
    peers = {key: _span(blocks.values(), repeated[key]) for key, blocks in by_peer.items()}
    return channels, peers, {channel: len(blocks) for channel, blocks in disagreeing.items()}


def total_skips(logs: Iterable[LogRead]) -> dict[Skip, int]:
    """Sum up what was skipped in all logs."""
    total: Counter[Skip] = Counter()
    for log in logs:
        total.update(log.counters.skipped)
    return dict(total)


def _with_threshold(plan: Plan, threshold: float, peers: Iterable[str], channels: Iterable[str]) -> Plan:
    if plan.policies:
        policies = {name: dataclasses.replace(policy, threshold=threshold) for name, policy in plan.policies.items()}
        return dataclasses.replace(plan, policies=policies)
    return dataclasses.replace(
        plan,
        components=tuple(Component(name, Role.PEER, name) for name in dict.fromkeys(peers)),
        policies={name: Policy(name, law="proportional", threshold=threshold) for name in channels},
    )


def _go_through(
    commits: Sequence[Commit], plan: Plan
) -> tuple[tuple[Point, ...], tuple[TimedDecision, ...], dict[str, str]]:
    throughput = AgreedThroughput(plan.window)
    known = {one.name: one.organisation or one.name for one in plan.components}
    throughput.organise({one: known.get(one, one) for one in {commit.peer for commit in commits}}, plan.policies)
    controller = Controller(plan.policies)
    owed = {channel: Threshold(one.threshold, "configuration") for channel, one in plan.policies.items()}
    shares = {one.name: DEFAULT_SHARES for one in plan.components if controller.policies_for(one)}
    points: list[Point] = []
    decisions: list[TimedDecision] = []
    reasons: dict[str, str] = {}
    position = 0
    now = last = _time(commits[0]) if commits else 0.0
    while position < len(commits):
        due = _time(commits[position])
        if now - last > _PAUSE and due > now:
            now += (due - now) // plan.period * plan.period
        now += plan.period
        while position < len(commits) and _time(commits[position]) <= now:
            last = _time(commits[position])
            throughput.observe(commits[position], last)
            position += 1
        readings = {name: throughput.reading(name, now) for name in throughput.channels}
        for one in plan.components:
            if one.name in shares:
                period = period_of(now, one, shares[one.name], readings, owed)
                decision = controller.decision_for(period, NOTHING_FOUND, one)
                if decision is not None:
                    reasons[one.name] = decision.reason
                if decision is not None and decision.changes:
                    decisions.append(TimedDecision(now, decision))
                    shares = {**shares, one.name: decision.shares}
        rates = {channel: reading.throughput for channel, reading in readings.items()}
        # A log of months has millions of periods: those that are alike have their values in common.
        if points and points[-1].throughput == rates:
            points.append(Point(now, points[-1].throughput, shares))
        else:
            points.append(Point(now, rates, shares))
    return tuple(points), tuple(decisions), reasons


def period_of(
    now: float,
    component: Component,
    share: int,
    readings: Mapping[str, ChannelReading],
    owed: Mapping[str, Threshold],
) -> Period:
    """Give a period of which only commits are known, for a component that was found with the default share."""
    force = InForce(share, DEFAULT_SHARES, Placement((component.cgroup,), "replayed"))
    return Period(now, (component,), readings, owed=owed, forces={component.name: force})


def _span(commits: Iterable[Commit], repeated: int = 0) -> Span:
    listed = list(commits)
    numbers = [commit.block for commit in listed]
    first = min(listed, key=_time)
    return Span(
        blocks=len(listed),
        transactions=sum(commit.transactions for commit in listed),
        first_block=min(numbers),
        last_block=max(numbers),
        first_time=_time(first),
        last_time=max(map(_time, listed)),
        opening=first.transactions,
        repeated=repeated,
        missing=max(numbers) - min(numbers) + 1 - len(numbers),
    )


def _with_times(events: Iterable[Event]) -> tuple[list[Event], int]:
    """Place every event in time; give how often the peer's clock was set back.

    A line without a time takes that of the line before it; lines before the first time are dropped. Where the clock was
    set back, later times are shifted forward, so that blocks stay in order.
    """
    placed: list[Event] = []
    last: float | None = None
    shift, steps = 0.0, 0
    for event in events:
        if event.time is None and last is None:
            continue
        time = last if event.time is None else event.time + shift
        if last is not None and time is not None and time < last:
            if last - time > _DISORDER:
                shift, steps = shift + last - time, steps + 1
            time = last
        placed.append(replace(event, time=time))
        last = time
    return placed, steps


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP_MAGIC
        file.seek(0)
        with gzip.GzipFile(fileobj=file) if packed else file as plain:
            while data := plain.read(_CHUNK):
                yield data


def stem(path: Path) -> str:
    """Give the name that all files of one log have in common: without suffixes, and an engine's without its words."""
    name = path.name.removesuffix(".gz")
    head, dot, number = name.rpartition(".")
    if dot and number.isdigit():
        name = head
    container = _DOCKER_LOG.fullmatch(name)
    return container[1] if container else name.removesuffix(".log")


def _needed(folders: Collection[tuple[str, ...]]) -> int:
    """Count the last parts by which different folders differ."""
    return next(parts for parts in count() if len({_last(one, parts) for one in folders}) == len(folders))


def _last(folder: tuple[str, ...], parts: int) -> tuple[str, ...]:
    return folder[max(0, len(folder) - parts) :]


def _time(event: Event) -> float:
    return event.time if event.time is not None else 0.0
