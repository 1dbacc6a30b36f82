"""What the daemon knows after one period: the one value that status, metrics and tests look at."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from qioi.controller.findings.bottleneck import Bottleneck
from qioi.controller.findings.limits import Limit
from qioi.controller.guard.restore import Result
from qioi.controller.laws.learned import Evidence
from qioi.controller.levels.cap import Held
from qioi.controller.levels.placement import Placement
from qioi.controller.slicing import SliceState
from qioi.model import Foreigner, HostLoad, Working
from qioi.monitor.commits.sources import SourceState
from qioi.show.cluster import KubernetesState
from qioi.show.trouble import Trouble

NOT_LOOKED_AT = Bottleneck()
NO_SLICES = SliceState()


class ChannelState(Struct, frozen=True):
    """One channel. Rates in transactions per second, ``age`` in seconds since its last commit.

    ``source`` says who set the threshold, ``evidence`` what a learned one rests on;
    ``bottleneck`` what the channel waits for. ``leaders_lost`` counts Raft leaders lost since the present interference
    began; for that, orderers keep at least ``orderer_floor`` times their default.
    """

    name: str
    law: str
    threshold: float | None
    throughput: float | None = None
    age: float | None = None
    height: int | None = None
    source: str = "none"
    evidence: Evidence | None = None
    bottleneck: Bottleneck = NOT_LOOKED_AT
    leaders_lost: int = 0
    orderer_floor: float = 1.0


class ComponentState(Struct, frozen=True):
    """One component. Shares in v1 units, ``delay`` in seconds per time slice, ``cores`` is CPU it used.

    ``share`` is that at the level that counts, which ``placement`` tells; ``original`` is that of its own group.

    ``previous`` was in force when the decision was made, ``wanted`` is what it asks for: it differs
    from ``share`` in a dry run, and if a write failed or the share is somebody else's.
    ``problem`` is ``None`` while all is well. ``threads`` is how many are seen in its control group. ``taken`` are the
    groups it is acted at that somebody else has changed, so that they are left alone for good. ``limit`` is what a
    finding allows it beside its law, if one does. ``foreign_with_rivals`` is the part of the CPUs that its law
    takes for foreign work where others of the ledger keep it back, which count as such.
    """

    name: str
    role: str
    cgroup: str
    share: int | None = None
    original: int | None = None
    previous: int | None = None
    wanted: int | None = None
    delay: float | None = None
    waiting_share: float | None = None
    cores: float | None = None
    reason: str = "not looked at yet"
    channel: str | None = None
    error: float | None = None
    working: Working | None = None
    problem: str | None = None
    placement: Placement | None = None
    threads: int | None = None
    taken: tuple[str, ...] = ()
    limit: Limit | None = None
    foreign_with_rivals: float | None = None


class ConfigState(Struct, frozen=True):
    """The configuration in force. ``loaded`` is the wall clock's, ``problems`` are the last reload's."""

    file: str
    loaded: float
    reloads: int = 0
    refused: int = 0
    problems: tuple[str, ...] = ()
    at_next_start: tuple[str, ...] = ()  # keys that were changed, and take effect then


class Totals(Struct, frozen=True):
    """Running totals since the start."""

    periods: int = 0
    early: int = 0  # periods that were due before their turn
    late: int = 0  # periods that began more than 20 % of a period late, or were left out
    decisions: int = 0  # that asked for another share than the one in force
    writes: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(Result, 0))


class Snapshot(Struct, frozen=True):
    """After one period. ``time`` is the wall clock's, ``loop`` the seconds that the period's work took.

    ``lateness`` is how many seconds after it was due the period began, ``early`` why it was due before its turn.
    ``problems`` say, by what they are about, what could not be found or told; each is one line. ``snapshot_age`` is how
    many seconds ago the period had ended when the answer was made.
    """

    version: str
    pid: int
    time: float
    period: float
    dry_run: bool
    actuator: str
    cgroup_version: int
    channels: tuple[ChannelState, ...]
    components: tuple[ComponentState, ...]
    configuration: ConfigState
    sources: tuple[SourceState, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict)
    host: HostLoad | None = None
    foreigners: tuple[Foreigner, ...] = ()  # groups of no component that use the most CPU, the most first
    troubles: tuple[Trouble, ...] = ()  # that have lasted
    slices: SliceState = NO_SLICES
    idle_groups: tuple[str, ...] = ()  # best-effort neighbours that this daemon made idle
    boosts: Held | None = None  # only where there is a cap
    io_pressure: float | None = None  # part of the last period in which somebody on the host waited for I/O
    loop: float = 0.0
    lateness: float = 0.0
    early: str | None = None
    totals: Totals = Totals()
    kubernetes: KubernetesState | None = None
    snapshot_age: float = 0.0

    def document(self) -> dict[str, Any]:
        """Give the plain values that a client reads from its JSON."""
        document: dict[str, Any] = json.loads(encode(self))
        return document


def encode(value: object) -> bytes:
    """Give JSON. Bytes of a path that are no UTF-8 stand in it as Python's ``json`` writes them."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value)).encode()
