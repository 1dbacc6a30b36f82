"""Troubles: which of them a snapshot shows, and which of those last. Pure; the text is made where it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from qioi.controller.findings.bottleneck import Kind
from qioi.controller.findings.limits import Reason
from qioi.model import Role
from qioi.show.snapshot import ChannelState, ComponentState, Snapshot
from qioi.show.trouble import Trouble, TroubleKind

#: CPUs from which on a component works: an idle peer's gossip takes less.
WORKS = 0.05
#: Part of its runnable time from which on the waiting of a component at its ceiling is a trouble.
WAITS = 0.25
#: Seconds that a trouble lasts before it is told: components come up, channels begin, and blocks may be 20 s apart.
LASTS = {kind: 30.0 for kind in TroubleKind} | {
    TroubleKind.NO_COMMIT_LINES: 60.0,
    TroubleKind.NEVER_COMMITS: 60.0,
    TroubleKind.OUT_OF_REACH: 45.0,  # said within a minute
}
#: A channel this far below its T, as a part of T, is below it.
BELOW = 0.05
#: What limits a component, and is a trouble.
LIMITS = {
    Reason.QUOTA: TroubleKind.QUOTA,
    Reason.BURNS: TroubleKind.BURNS,
    Reason.NO_EFFECT: TroubleKind.NO_EFFECT,
    Reason.OUTSIDE: TroubleKind.OUTSIDE,
}
#: Roles whose work makes commits.
COMMITTING = frozenset((Role.PEER.value, Role.ORDERER.value, Role.CHAINCODE.value))


def find(snapshot: Snapshot) -> tuple[Trouble, ...]:
    """Name what is not protected, in an order that does not change from one snapshot to the next."""
    return (
        *(Trouble(kind, one.name) for one in snapshot.components for kind in of_component(one)),
        *of_logs(snapshot),
        *(Trouble(TroubleKind.NEVER_COMMITS, one.name) for one in silent_channels(snapshot)),
        *(Trouble(TroubleKind.OUT_OF_REACH, one.name) for one in snapshot.channels if is_out_of_reach(one)),
        *(Trouble(TroubleKind.NOTHING_OURS, "") for _ in range(is_nothing_ours(snapshot.components))),
    )


def of_component(one: ComponentState) -> Iterator[TroubleKind]:
    """Say what keeps one component from being protected."""
    if one.threads == 0 and one.role != Role.CLIENT:  # a load need not run
        yield TroubleKind.NO_THREADS
    elif one.threads and one.delay is None and works(one):  # nothing was ever put on a CPU, and yet it has used one
        yield TroubleKind.NO_SCHEDULING
    if one.taken:
        yield TroubleKind.FOREIGN_SHARE
    if one.limit is not None and one.limit.reason in LIMITS:
        yield LIMITS[one.limit.reason]
    if is_at_ceiling(one):
        yield TroubleKind.AT_CEILING


def is_at_ceiling(one: ComponentState) -> bool:
    """Whether a component waits with all the shares that it may have, and its law asks for more."""
    working = one.working
    return (
        working is not None
        and one.share is not None
        and one.share >= working.ceiling
        and working.wanted >= working.ceiling
        and (one.waiting_share or 0.0) >= WAITS
    )


def is_out_of_reach(one: ChannelState) -> bool:
    """Whether a channel that commits is below its T for want of CPUs: its components wait, or fill the CPUs."""
    return (
        one.threshold is not None
        and one.throughput is not None
        and 0 < one.throughput < (1 - BELOW) * one.threshold
        and one.bottleneck.kind in (Kind.CPU, Kind.LEDGER)
    )


def of_logs(snapshot: Snapshot) -> Iterator[Trouble]:
    """Name the peers whose log is followed and tells of no commit, unless their metrics do."""
    metered = {one.component for one in snapshot.sources if one.kind == "metrics" and one.problem is None}
    mute = {
        one.component for one in snapshot.sources if one.kind == "log" and one.problem is None and not one.commits
    } - metered
    for one in snapshot.components:
        if one.name in mute and one.role == Role.PEER and works(one):
            yield Trouble(TroubleKind.NO_COMMIT_LINES, one.name)


def silent_channels(snapshot: Snapshot) -> Iterator[ChannelState]:
    """Give the channels of which no commit was ever seen while their components work.

    A component that commits on another channel works for that one.
    """
    heard = {one.component for one in snapshot.sources if one.commits}
    elsewhere = {one.channel for one in snapshot.components if one.name in heard}
    working = {one.channel for one in snapshot.components if one.role in COMMITTING and works(one)}
    silent = working - elsewhere
    for one in snapshot.channels:
        if one.age is None and one.name in silent:
            yield one


def works(one: ComponentState) -> bool:
    """Whether a component uses more CPU time than an idle one."""
    return one.cores is not None and one.cores >= WORKS


def is_nothing_ours(components: Iterable[ComponentState]) -> bool:
    """Whether somebody else has changed the shares of all components that a policy raises."""
    raised = [one for one in components if one.working is not None]
    return bool(raised) and all(one.taken for one in raised)


class Lasting(Struct, frozen=True):
    """Since when, in monotonic seconds, each trouble has been there without a break."""

    since: Mapping[Trouble, float] = field(default_factory=dict)

    def step(self, now: float, found: Iterable[Trouble]) -> tuple[Lasting, tuple[Trouble, ...]]:
        """Take one period in; give those that have lasted for :data:`LASTS`."""
        since = {one: self.since.get(one, now) for one in found}
        return Lasting(since), tuple(one for one, begun in since.items() if now - begun >= LASTS[one.kind])
