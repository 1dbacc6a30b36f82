"""The answer to ``GET /explain``: how one component's share was decided, from the inputs to the level where it counts.

The daemon sends it, the OpenAPI document describes it, and ``qioi explain`` reads it. Shares are in cgroup v1 units,
throughputs in transactions per second, times in seconds unless another unit is named. A field with a default was not
sent by every released daemon.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from qioi.controller.findings.bottleneck import Bottleneck
from qioi.controller.findings.limits import Limit
from qioi.controller.laws.learned import Evidence
from qioi.controller.levels.cap import Held


class ForeignWork(Struct, frozen=True, kw_only=True):
    """A control group of no component, the CPUs that it uses, and the programs in it that have used the most."""

    group: str
    cores: float
    processes: tuple[str, ...]


class Inputs(Struct, frozen=True, kw_only=True):
    """What the decision rests on, of the channel that asked for most.

    ``delay`` is that per time slice, ``waiting_share`` a part of the runnable time, ``cores`` are CPUs. Of the host's
    CPU time, ``host_idle`` is the idle part and ``host_foreign`` that of foreign work. ``pinned`` says that the
    component may not run on all CPUs, and that both are of those on which it may. ``foreign_with_rivals`` is what its
    law sees in place of ``host_foreign`` where others of the ledger (a burner, a tenant with more than it is owed) keep
    it back. ``io_pressure`` is the part of the period in which somebody on the host waited for I/O.
    """

    channel: str | None
    throughput: float | None
    threshold: float | None
    threshold_source: str | None
    evidence: Evidence | None
    commit_age: float | None
    delay: float | None
    waiting_share: float | None
    cores: float | None
    host_idle: float | None
    host_foreign: float | None
    pinned: bool = False
    foreign_with_rivals: float | None = None
    foreigners: tuple[ForeignWork, ...] = ()
    io_pressure: float | None


class Leadership(Struct, frozen=True, kw_only=True):
    """Raft leaders lost beside the present interference, and how many times their default orderers keep for that."""

    lost: int
    orderer_floor: float


class Clamp(Struct, frozen=True, kw_only=True):
    """The bounds put on what the rule asked for, and whether that was outside of them."""

    floor: int
    ceiling: int
    wanted: float
    bounded: bool


class ThreadSlice(Struct, frozen=True, kw_only=True):
    """What is done with slices, why, and the slice of the component's threads in nanoseconds."""

    mode: str
    text: str
    nanoseconds: int | None


class Move(Struct, frozen=True, kw_only=True):
    """The share in force before, the one decided on, the one in force now, and the one found."""

    previous: int | None
    decided: int | None
    in_force: int | None
    original: int | None
    dry_run: bool
    problem: str | None


class Standing(Struct, frozen=True, kw_only=True):
    """How a group stands among its siblings. Values are those of its ``file``, in the kernel's own unit.

    ``siblings`` are those with the largest values, and ``others`` counts the rest. ``part`` is what the group gets of
    its parent's CPU while every sibling is busy, ``foreign`` how many CPUs siblings used that are no components, and
    ``acted`` says whether the component is acted at it.
    """

    group: str
    file: str
    value: int
    siblings: Mapping[str, int]
    others: int
    part: float
    foreign: float | None
    acted: bool


class Explanation(Struct, frozen=True, kw_only=True):
    """The last decision about one component, and its ``levels`` from its own group up.

    ``time`` is the wall clock's, ``early`` says why the period began before its turn. ``snapshot_age`` is how many
    seconds ago the period had ended when the answer was made. ``error`` is (T - A) / T,
    ``step`` what the rule asked for beyond the share in force, before the clamp. ``actuator`` is the means by which a
    pod's shares are moved; ``None`` outside of a cluster.
    """

    component: str
    role: str
    time: float
    period: float
    early: str | None = None
    snapshot_age: float = 0.0
    inputs: Inputs
    bottleneck: Bottleneck | None
    limit: Limit | None = None
    leadership: Leadership | None
    law: str | None
    rule: str | None
    reason: str
    error: float | None
    step: float | None
    clamp: Clamp | None
    idle_groups: tuple[str, ...]
    slices: ThreadSlice
    boosts: Held | None
    result: Move
    acted_at: tuple[str, ...]
    actuator: str | None
    level_reason: str | None
    levels: tuple[Standing, ...]
