"""From readings to decisions: every channel's policy looks at every component that serves it.

Each pair of component and channel has a law of its own, with its own memory. A component that serves
several channels gets the most that any of them asks for: a tenant at or above its threshold asks for
no raise, and takes none away from another.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from qioi.controller.laws.adaptive import Adaptive
from qioi.controller.laws.law import Law, Seen, Verdict
from qioi.controller.laws.proportional import Proportional
from qioi.model import Bounds, ChannelReading, Component, Decision, DelayReading, HostLoad, Role

#: The paper raises orderers (with their brokers) and peers alike; chaincode keeps the default.
PROPORTIONAL_ROLES = frozenset({Role.PEER, Role.ORDERER, Role.BROKER})
#: Acting by each component's own need, ours may raise a chaincode too. A client is nobody's to raise.
ADAPTIVE_ROLES = PROPORTIONAL_ROLES | {Role.CHAINCODE}
NOTHING: Mapping[str, str] = MappingProxyType({})
NO_FLOORS: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Policy:
    """What one channel is owed, and by which law.

    ``default`` is S_default; ``None`` takes the share that the component was found with. So does ``floor``.
    ``auto`` says that the threshold is learned. Under a cap on all boosts the lowest ``priority`` goes without first.
    A ``dry_run`` is shown what it would do, and has no say about what another policy acts on.
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
        """Make the law for one component that was found with that share."""
        default, bounds = self._frame(found)
        if self.law == "proportional":
            return Proportional(bounds.clamp(default), self.k, default, bounds)
        return Adaptive.start(default, bounds)

    def resume(self, before: Law | None, found: int, share: float) -> Law:
        """Make the law go on from that share, with what another one remembers as far as it is of the same kind."""
        default, bounds = self._frame(found)
        if self.law == "proportional":
            return Proportional(bounds.clamp(share), self.k, default, bounds)
        law = before if isinstance(before, Adaptive) else Adaptive.start(default, bounds)
        memory = law.memory._replace(share=float(bounds.clamp(share)))
        return replace(law, default=default, bounds=bounds, memory=memory)

    def rest(self, found: int) -> int:
        """Give the share, in v1 units, of a component that was found with that one while it needs no more."""
        default, bounds = self._frame(found)
        return bounds.clamp(default)

    def _frame(self, found: int) -> tuple[int, Bounds]:
        """Give S_default and the bounds for a component that was found with that share."""
        default = self.default or found
        floor = self.floor or default
        return default, Bounds(floor, max(floor, self.ceiling))


class Controller:
    """All laws of all components, by name."""

    def __init__(self, policies: Mapping[str, Policy]) -> None:
        self._laws: dict[str, dict[str, Law]] = {}
        #: The policy and the share found that each law was made for, by component and channel, as the laws.
        self._made_for: dict[str, dict[str, tuple[Policy, int]]] = {}
        self.adopt(policies)

    def adopt(self, policies: Mapping[str, Policy]) -> None:
        """Go on with other policies; a law keeps its memory, and its share stays until a rule moves it."""
        #: Without thresholds: these are told to the laws in every period.
        self._policies = {channel: replace(policy, threshold=None) for channel, policy in policies.items()}
        self._owed = {channel: policy.threshold for channel, policy in policies.items()}
        self._serving: dict[str, tuple[Component, tuple[Policy, ...]]] = {}
        for component, laws in self._laws.items():
            for channel in [one for one in laws if one not in policies]:
                del laws[channel], self._made_for[component][channel]

    def policies_for(self, component: Component) -> tuple[Policy, ...]:
        """Policies, without thresholds, that may raise this component; one without channels serves all of them."""
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

    def owe(self, channel: str, threshold: float | None) -> None:
        """Change what a channel is owed."""
        self._owed[channel] = threshold

    def decide(
        self,
        now: float,
        component: Component,
        share: int,
        found: int,
        channels: Mapping[str, ChannelReading],
        delay: DelayReading | None,
        host: HostLoad | None,
        hopeless: Mapping[str, str] = NOTHING,
        floors: Mapping[str, float] = NO_FLOORS,
        presumed: Collection[str] = (),
    ) -> Decision | None:
        """Ask every policy, take the largest share; ``None`` where no policy may raise the component.

        ``share`` is the one in force now, ``found`` the one that the component was found with. ``hopeless`` says of
        channels that no share can help why: ``adaptive`` then takes no waiting for a reason, holds and lets go.
        ``floors`` are those of channels' orderers after lost leaders, in defaults. ``presumed`` are channels that made
        no commit yet, but are taken to be sent to. Algorithm 1 is asked to the letter.
        """
        laws = self._laws.setdefault(component.name, {})
        anew = not laws  # then what is in force was left by a daemon before this one, or for another policy
        best: Decision | None = None
        asks: tuple[tuple[int, int], ...] = ()
        for policy in self.policies_for(component):
            law = self._law(laws.get(policy.channel), component.name, policy, found, share if anew else found)
            reading = channels.get(policy.channel)
            seen = Seen(
                now=now,
                throughput=reading.throughput if reading else None,
                threshold=self._owed[policy.channel],
                commit_age=reading.age if reading else None,
                delay=delay,
                host=host,
                presumed=policy.channel in presumed,
            )
            why = hopeless.get(policy.channel) if isinstance(law, Adaptive) else None
            laws[policy.channel], verdict = law.step(seen if why is None else replace(seen, delay=None))
            if why is not None:
                verdict = in_vain(verdict, why)
            elif seen.presumed and isinstance(law, Adaptive):
                verdict = replace(verdict, reason=f"no commit was seen yet, but its channel works; {verdict.reason}")
            if component.role is Role.ORDERER and isinstance(law, Adaptive) and policy.channel in floors:
                verdict = at_least(verdict, law.bounds.clamp(law.rest * floors[policy.channel]))
            asks += ((policy.priority, verdict.shares),)
            if best is None or verdict.shares > best.shares:
                best = Decision(
                    component.name,
                    share,
                    verdict.shares,
                    verdict.reason,
                    verdict.error,
                    policy.channel,
                    verdict.working,
                    asks,
                )
        return best if best is None or best.asks is asks else replace(best, asks=asks)

    def rest(self, channel: str, found: int) -> int:
        """Give :meth:`Policy.rest` of a channel's policy."""
        return self._policies[channel].rest(found)

    def is_literal(self, channel: str | None) -> bool:
        """Whether a channel's law is the paper's, to be followed to the letter."""
        policy = self._policies.get(channel or "")
        return policy is not None and policy.law == "proportional"

    def limit(self, component: str, shares: int, before: int) -> None:
        """Tell a component's laws that no more than this was given: what is beyond must not wind up.

        ``before`` is what was in force. Where that is all, there was no raise whose effect is to be waited for.
        """
        laws = self._laws.get(component, {})
        for channel, law in laws.items():
            if isinstance(law, Adaptive) and law.memory.share > shares:
                raised_at = law.memory.raised_at if shares > before else -math.inf
                laws[channel] = replace(law, memory=law.memory._replace(share=float(shares), raised_at=raised_at))

    def _law(self, known: Law | None, component: str, policy: Policy, found: int, share: int) -> Law:
        """Find the law to ask: the one from before, unless its policy or the share found is another one by now.

        One that is new, or of a component that somebody else has set before we did, goes on from ``share``.
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
        """Drop what is remembered of a component that is gone, or was made anew."""
        self._laws.pop(component, None)
        self._made_for.pop(component, None)


def in_vain(verdict: Verdict, why: str) -> Verdict:
    """Give a verdict that was reached without a delay its true reason; what was done stands at the reason's end."""
    working = replace(verdict.working, rule="bottleneck") if verdict.working else None
    return replace(verdict, reason=f"{why}; {verdict.reason.rpartition(': ')[2]}", working=working)


def at_least(verdict: Verdict, floor: int) -> Verdict:
    """Put the floor that lost leaders have raised under a verdict."""
    working = replace(verdict.working, floor=floor) if verdict.working else None
    if verdict.shares >= floor:
        return replace(verdict, working=working)
    reason = f"{verdict.reason}; floor {floor}: a Raft leader was lost beside interference"
    return replace(verdict, shares=floor, reason=reason, working=working)
