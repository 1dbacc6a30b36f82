"""Turn readings into decisions: each channel's policy asks a law about each component that serves the channel.

Each pair of component and channel has a law of its own, with its own memory. A component that serves several channels
gets the largest share that any of them asks for: a tenant at or above its threshold asks for no raise, and takes none
away from another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from qioi.controller.findings.finder import Findings
from qioi.controller.laws.adaptive import Adaptive
from qioi.controller.laws.law import Law, Seen, Verdict
from qioi.controller.laws.proportional import Proportional
from qioi.controller.levels.cap import Held
from qioi.controller.levels.wants import Want
from qioi.controller.period import Period
from qioi.model import Bounds, Component, Decision, Role

#: The paper raises orderers (with their brokers) and peers alike; chaincode keeps the default.
PROPORTIONAL_ROLES = frozenset({Role.PEER, Role.ORDERER, Role.BROKER})
#: `adaptive` acts by each component's own need, so it also raises chaincodes and components that peers wait for.
#: A client is never raised.
ADAPTIVE_ROLES = PROPORTIONAL_ROLES | {Role.CHAINCODE, Role.SUPPORT}


@dataclass(frozen=True, slots=True)
class Policy:
    """The throughput that one channel is owed, and the law that pursues it.

    ``default`` is S_default and ``floor`` the smallest share; ``None`` takes the share that the component was found
    with. ``auto`` says that the threshold is learned. Under a cap on all boosts, the channel with the lowest
    ``priority`` loses its boost first. A ``dry_run`` policy only shows what it would do, and does not affect
    components that another policy acts on.
    """

    channel: str
    law: str
    threshold: float | None = None
    k: float = 4.0
    default: int | None = None
    floor: int | None = None
    ceiling: int = 16_384
    auto: bool = False
    priority: int = 0
    dry_run: bool = False

    @property
    def roles(self) -> frozenset[Role]:
        """Roles that this policy's law may raise."""
        return PROPORTIONAL_ROLES if self.law == "proportional" else ADAPTIVE_ROLES

    def start(self, found: int) -> Law:
        """Make the law for a component that was found with the share ``found``."""
        default, bounds = self._frame(found)
        if self.law == "proportional":
            return Proportional(bounds.clamp(default), self.k, default, bounds)
        return Adaptive.start(default, bounds)

    def resume(self, before: Law | None, found: int, share: float) -> Law:
        """Make a law that goes on from ``share``, with the memory of the law ``before`` if it is of the same kind."""
        law = self.start(found)
        if isinstance(before, Adaptive) and isinstance(law, Adaptive):
            law = before.framed(*self._frame(found))
        return law.at(share)

    def rest(self, found: int) -> int:
        """Give the share, in v1 units, of a component without need that was found with the share ``found``."""
        default, bounds = self._frame(found)
        return bounds.clamp(default)

    def _frame(self, found: int) -> tuple[int, Bounds]:
        """Give S_default and the bounds for a component that was found with the share ``found``."""
        default = self.default or found
        floor = self.floor or default
        return default, Bounds(floor, max(floor, self.ceiling))


@dataclass(frozen=True, slots=True)
class Decisions:
    """The result of a period's observations: findings, wanted shares, and what all boosts hold under a cap."""

    findings: Findings
    wants: tuple[Want, ...]
    held: Held | None = None


class Controller:
    """Holds the laws of all components, by component and channel."""

    def __init__(self, policies: Mapping[str, Policy]) -> None:
        self._laws: dict[str, dict[str, Law]] = {}
        #: The policy and the found share that each law was made for, by component and channel.
        self._made_for: dict[str, dict[str, tuple[Policy, int]]] = {}
        self.adopt(policies)

    def adopt(self, policies: Mapping[str, Policy]) -> None:
        """Go on with other policies; a law keeps its memory, and its share stays until a rule moves it."""
        self.policies: Mapping[str, Policy] = dict(policies)
        #: Policies without thresholds, because every period has its own.
        self._policies = {channel: dataclasses.replace(policy, threshold=None) for channel, policy in policies.items()}
        self._serving: dict[str, tuple[Component, tuple[Policy, ...]]] = {}
        for component, laws in self._laws.items():
            for channel in [one for one in laws if one not in policies]:
                del laws[channel], self._made_for[component][channel]

    def policies_for(self, component: Component) -> tuple[Policy, ...]:
        """Give the policies, without thresholds, that may raise a component; one without channels serves all."""
        known = self._serving.get(component.name)
        if known is not None and known[0] is component:
            return known[1]
        serving = tuple(
            policy
            for channel, policy in self._policies.items()
            if component.role in policy.roles and (not component.channels or channel in component.channels)
        )
        serving = tuple(policy for policy in serving if not policy.dry_run) or serving
        self._serving[component.name] = component, serving
        return serving

    def decide_all(self, period: Period, findings: Findings) -> tuple[Want, ...]:
        """Ask the laws about every component whose group exists; give the share that each wants, and where."""
        return tuple(
            Want(decision, one.cgroup, period.forces[one.name].placement)
            for one in period.components
            if one.name in period.forces and (decision := self.decide(period, findings, one)) is not None
        )

    def decide(self, period: Period, findings: Findings, component: Component) -> Decision | None:
        """Ask every policy and take the largest share; ``None`` where no policy may raise the component.

        In a channel that no share can help, ``adaptive`` ignores the scheduling delay, holds its share, and then lets
        it go. Algorithm 1 is followed to the letter.
        """
        force = period.forces[component.name]
        laws = self._laws.setdefault(component.name, {})
        anew = not laws  # then an earlier daemon, or another policy, set the share in force
        found = force.original
        best: Decision | None = None
        asks: tuple[tuple[int, int], ...] = ()
        for policy in self.policies_for(component):
            channel = policy.channel
            law = self._law(laws.get(channel), component.name, policy, found, force.share if anew else found)
            laws[channel], verdict = ask(law, component, see(period, findings, component, channel), findings, channel)
            asks += ((policy.priority, verdict.shares),)
            if best is None or verdict.shares > best.shares:
                best = Decision(
                    component.name,
                    force.share,
                    verdict.shares,
                    verdict.reason,
                    verdict.error,
                    channel,
                    verdict.working,
                    asks,
                )
        return best if best is None or best.asks is asks else replace(best, asks=asks)

    def rest(self, channel: str, found: int) -> int:
        """Give :meth:`Policy.rest` of a channel's policy."""
        return self.policies[channel].rest(found)

    def is_shown_only(self, channel: str | None) -> bool:
        """Whether a channel's policy is a dry run, which decides but changes nothing."""
        policy = self.policies.get(channel or "")
        return policy is not None and policy.dry_run

    def is_literal(self, channel: str | None) -> bool:
        """Whether a channel's law is Algorithm 1 of the paper, which is followed to the letter."""
        policy = self.policies.get(channel or "")
        return policy is not None and policy.law == "proportional"

    def limit_all(self, asked: Iterable[Want], given: Iterable[Want]) -> None:
        """Tell the laws which components were given less than they asked for."""
        for before, after in zip(asked, given, strict=True):
            one = after.decision
            if one.shares != before.decision.shares:
                self.limit(one.component, one.shares, one.previous)

    def limit(self, component: str, shares: int, before: int) -> None:
        """Tell a component's laws that it was given only ``shares``, so that their integral does not wind up.

        ``before`` was in force. If ``shares`` equals it, there was no raise, and no law waits for its effect.
        """
        laws = self._laws.get(component, {})
        for channel, law in laws.items():
            laws[channel] = law.limited(shares, before)

    def _law(self, known: Law | None, component: str, policy: Policy, found: int, share: int) -> Law:
        """Find the law to ask: the known one, unless its policy or the found share has changed.

        A new law, or one of a component whose share somebody else set before our first write, goes on from ``share``.
        """
        known_for = self._made_for.setdefault(component, {})
        made = known_for.get(policy.channel)
        if known is not None and made is not None and made[1] == found and (made[0] is policy or made[0] == policy):
            return known
        known_for[policy.channel] = policy, found
        if known is not None and made is not None and made[1] == found:
            return policy.resume(known, found, known.share)
        return policy.start(found) if known is None and share == found else policy.resume(known, found, share)

    def forget(self, component: str) -> None:
        """Drop the laws of a component that is gone or was recreated."""
        self._laws.pop(component, None)
        self._made_for.pop(component, None)


def see(period: Period, findings: Findings, component: Component, channel: str) -> Seen:
    """Give a law's view of one component and one of its channels."""
    reading = period.channels.get(channel)
    throughput = reading.throughput if reading else None
    return Seen(
        now=period.now,
        throughput=throughput,
        threshold=period.owed[channel].beside(throughput),
        commit_age=reading.silence if reading else None,
        delay=period.delays.get(component.name),
        host=period.host.of(component.name) if period.host else None,
        presumed=channel in findings.presumed,
    )


def ask(law: Law, component: Component, seen: Seen, findings: Findings, channel: str) -> tuple[Law, Verdict]:
    """Ask one law, and apply the findings about its channel."""
    if not isinstance(law, Adaptive):
        return law.step(seen)
    why = findings.hopeless.get(channel)
    after, verdict = law.step(seen if why is None else replace(seen, delay=None))
    if why is not None:
        verdict = in_vain(verdict, why)
    elif seen.presumed:
        verdict = replace(verdict, cause=f"no commit was seen yet, but its channel works; {verdict.cause}")
    if component.role is Role.ORDERER and channel in findings.floors:
        verdict = at_least(verdict, law.bounds.clamp(law.rest * findings.floors[channel]))
    return after, verdict


def in_vain(verdict: Verdict, why: str) -> Verdict:
    """Replace the cause of a verdict that was reached without a delay by the finding; its share stands."""
    working = replace(verdict.working, rule="bottleneck") if verdict.working else None
    return replace(verdict, cause=why, working=working)


def at_least(verdict: Verdict, floor: int) -> Verdict:
    """Raise a verdict to the floor that a lost leader of Raft set."""
    working = replace(verdict.working, floor=floor) if verdict.working else None
    if verdict.shares >= floor:
        return replace(verdict, working=working)
    added = f"; floor {floor}: a Raft leader was lost beside interference"
    return replace(verdict, shares=floor, added=added, working=working)
