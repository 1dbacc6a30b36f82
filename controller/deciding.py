"""Turn readings into decisions: each channel's policy asks a law about each component that serves the channel.

Each pair of component and channel has a law of its own, with its own memory. A component that serves several channels
gets the largest share that any of them asks for: a tenant that has what it is owed takes nothing away from another.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from msgspec.structs import replace

from qioi.controller.bounding import Bounding, bound
from qioi.controller.component_laws import Asks, ComponentLaws
from qioi.controller.enough import Enough, Factors
from qioi.controller.findings.finder import Findings
from qioi.controller.laws.alike import View, Views, answer_all
from qioi.controller.laws.law import ChannelSeen, Effect, Law, Seen, Verdict, rest_of
from qioi.controller.laws.need import load_of
from qioi.controller.levels.cap import Held
from qioi.controller.levels.wants import Want
from qioi.controller.limiting import at_least, at_most
from qioi.controller.on_trial import OnTrial
from qioi.controller.period import Period
from qioi.controller.policy import Policy
from qioi.model import Component, Decision, Role


@dataclass(frozen=True, slots=True)
class Decisions:
    """The result of a period's observations: findings, wanted shares, and what all boosts hold under a cap."""

    findings: Findings
    wants: tuple[Want, ...]
    held: Held | None = None


class Controller:
    """Asks the laws of all components. It alone changes what is remembered of them."""

    def __init__(self, policies: Mapping[str, Policy], enough: Mapping[str, Factors] | None = None) -> None:
        """Begin; ``enough`` are factors that an earlier daemon has found enough, by component."""
        self._enough = Enough(enough or {})
        self._laws: dict[str, ComponentLaws] = {}
        self._viewed: tuple[Period, Mapping[str, View]] | None = None
        self._seen: tuple[Period, Findings, dict[str, ChannelSeen]] | None = None
        self._bounding = Bounding()
        self._on_trial = OnTrial()
        self.adopt(policies)

    def adopt(self, policies: Mapping[str, Policy]) -> None:
        """Go on with other policies; a law keeps its memory, and its share stays until a rule moves it."""
        self.policies: Mapping[str, Policy] = dict(policies)
        #: Policies without thresholds, because every period has its own.
        self._policies = {channel: dataclasses.replace(policy, threshold=None) for channel, policy in policies.items()}
        self._shown = frozenset(channel for channel, policy in policies.items() if policy.dry_run)
        self._serving: dict[str, tuple[Component, tuple[Policy, ...]]] = {}
        for laws in self._laws.values():
            laws.keep(policies.keys())

    @property
    def known(self) -> Mapping[str, Factors]:
        """The factors that were found enough, by component."""
        return self._enough.known

    def rename(self, names: Mapping[str, str]) -> None:
        """Go on with what was found enough under the names that components have now, by those that they had."""
        self._enough.rename(names)

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
        bounded = {name: policy for name, policy in self._policies.items() if policy.is_bounded}
        self._bounding.step(period, bounded, findings.outweighs)
        self._enough.step(period, lambda name: self._laws_of(name).asked_shares(), self._on_trial)
        again = self._on_trial.step(period, findings.limits, lambda name: self._laws_of(name).shares())
        for name, shares in again.items():
            self._laws_of(name).go_on_from(shares)
        for name in [name for name, force in period.forces.items() if force.taken_up]:
            self.forget(name)  # on cgroup v2 what was found is 1024 as ever, so its laws would not notice
        return tuple(
            Want(
                decision,
                one.cgroup,
                force.placement,
                shown=decision.channel in self._shown,
                request=force.original if force.by_request else None,
            )
            for one in period.components
            if (force := period.forces.get(one.name)) is not None
            and (decision := self.decision_for(period, findings, one)) is not None
        )

    def decision_for(self, period: Period, findings: Findings, component: Component) -> Decision | None:
        """Ask every policy and take the largest share; ``None`` where no policy may raise the component.

        A kind of law that takes limits keeps to those of the findings.
        """
        policies = self.policies_for(component)
        if not policies:
            return None
        force = period.forces[component.name]
        known = self._laws[component.name] = self._laws_of(component.name)
        channels = [one.channel for one in policies]
        laws = known.prepare(
            policies,
            force.original,
            findings.outweighs.get(component.name, 0),
            lambda channel: self._enough.begin(component.name, channel, channels, force),
        )
        factors = self._enough.factors(period, component, channels)

        def answer_of(channel: str) -> tuple[Law, Verdict]:
            return self._answer(laws[channel], factors.get(channel), period, findings, component, channel)

        if len(policies) == 1:
            (best,) = channels
            laws[best], verdict = answer_of(best)
            asks: Asks = ((policies[0].priority, verdict.shares),)
            in_full = asks
        else:
            views = self._views(period, findings)
            if factors and len(set(map(factors.get, channels))) > 1:  # channels differ in that, too
                views = {name: View((views[name].kind, factors.get(name)), views[name].error) for name in channels}
            answers = answer_all(channels, laws, views, answer_of)
            shares = {channel: verdict.shares for channel, (_, verdict) in answers.items()}
            asked = self._without_idle(shares, findings.sent_to)
            asks = tuple([(one.priority, asked[one.channel]) for one in policies])
            # What an idle channel is lowered to says nothing of what is enough for it.
            in_full = tuple(
                [(one, ask if ask == shares[name] else 0) for (one, ask), name in zip(asks, channels, strict=True)]
            )
            most = max(asked.values())
            best = next(channel for channel in channels if shares[channel] == most)
            verdict = answers[best][1]
            if verdict.error != views[best].error:
                verdict = answer_of(best)[1]
            laws |= {channel: law for channel, (law, _) in answers.items()}
        known.note(policies, in_full)
        return as_decision(component.name, force.share, verdict, best, asks)

    def _views(self, period: Period, findings: Findings) -> Mapping[str, View]:
        """Give every channel's view in this period."""
        if self._viewed is None or self._viewed[0] is not period:
            views = Views()
            self._viewed = (
                period,
                {
                    channel: views.view(
                        self._channel_seen(period, findings, channel),
                        self._bounding.factor(channel),
                        findings.floors.get(channel),
                    )
                    for channel in self._policies
                },
            )
        return self._viewed[1]

    def _without_idle(self, shares: dict[str, int], sent_to: Set[str]) -> Mapping[str, int]:
        """Give what channels ask for, where one that is sent to is bounded to its T: the others no more than those.

        What an idle channel's law holds for its next load would undo the bound. The law goes on holding it.
        """
        bounded = self._bounding.channels & shares.keys()
        if bounded.isdisjoint(sent_to):
            return shares
        most = max(share for channel, share in shares.items() if channel in sent_to)
        return {channel: share if channel in sent_to else min(share, most) for channel, share in shares.items()}

    def _channel_seen(self, period: Period, findings: Findings, channel: str) -> ChannelSeen:
        """Give a law's view of a channel in this period; its components have it in common."""
        if self._seen is None or self._seen[0] is not period or self._seen[1] is not findings:
            self._seen = period, findings, {}
        known = self._seen[2]
        if channel not in known:
            known[channel] = channel_seen(period, findings, channel)
        return known[channel]

    def _laws_of(self, component: str) -> ComponentLaws:
        """Give what is remembered of a component; of one that no law was asked about, that is nothing."""
        return self._laws.get(component) or ComponentLaws()

    def _answer(
        self, law: Law, factor: float | None, period: Period, findings: Findings, component: Component, channel: str
    ) -> tuple[Law, Verdict]:
        """Ask a component's law for one channel, and keep it within what the findings say.

        ``factor``, on the share found, was enough for the channel.
        """
        seen = seen_by_law(period, findings, component, self._channel_seen(period, findings, channel))
        if not self._policies[channel].kind.takes_limits:
            return law.step(seen)
        force = period.forces[component.name]
        if factor is not None:
            law = resumed(law, factor * force.original)
            seen = replace(seen, armed=True)
        law, verdict = law.step(seen)
        if seen.presumed:
            verdict = replace(verdict, cause=f"no commit is seen, but its channel works; {verdict.cause}")
        if (part := self._bounding.factor(channel)) is not None:
            verdict = bound(verdict, part, law.default, law.bounds, force.share)
            law = law.at(verdict.shares)
        elif (limit := findings.enough.get(component.name)) is not None:
            law, verdict = at_most(limit, law, verdict, force.share)
        if (limit := findings.limits.get(component.name)) is not None:
            law, verdict = at_most(limit, law, verdict, force.share)
        if component.role is Role.ORDERER and channel in findings.floors:
            verdict = at_least(verdict, law.bounds.clamp(rest_of(law) * findings.floors[channel]))
        return law, verdict

    def rest(self, channel: str, found: int) -> int:
        """Give :meth:`Policy.rest` of a channel's policy."""
        return self.policies[channel].rest(found)

    def acted_on(self, period: Period) -> Period:
        """Give the period without channels whose policies are dry runs, and components that no other policy is about.

        A dry run decides but changes nothing, so nothing is to be done for these by any other lever.
        """
        if not self._shown:
            return period
        components = tuple(one for one in period.components if not self._is_shown(one))
        channels = {name: one for name, one in period.channels.items() if name not in self._shown}
        return replace(period, components=components, channels=channels)

    def _is_shown(self, component: Component) -> bool:
        its = self.policies.keys() & component.channels if component.channels else self.policies.keys()
        return bool(its) and self._shown >= its

    def is_literal(self, channel: str | None) -> bool:
        """Whether a channel's law is Algorithm 1 of the paper, which is followed to the letter."""
        policy = self.policies.get(channel or "")
        return policy is not None and policy.kind.is_literal

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
        self._laws_of(component).limit(shares, before)

    def forget(self, component: str) -> None:
        """Drop the laws of a component that is gone or was recreated."""
        self._laws.pop(component, None)
        self._on_trial.forget(component)


def as_decision(component: str, force: int, verdict: Verdict, channel: str, asks: Asks) -> Decision:
    """Make a decision of a channel's verdict while ``force`` is in force. Fields go by place, which is faster."""
    if verdict.effect is Effect.HELD and verdict.shares > force:
        verdict = replace(verdict, effect=Effect.TAKEN_UP)
    return Decision(component, force, verdict.shares, verdict.reason, verdict.error, channel, verdict.working, asks)


def resumed(law: Law, share: float) -> Law:
    """Go on from what was enough, where a law is at its default: its component, or the daemon, was started anew."""
    return law.at(share) if law.share <= rest_of(law) < share else law


def seen_by_law(period: Period, findings: Findings, component: Component, channel: ChannelSeen) -> Seen:
    """Give a law's view of one component and one of its channels."""
    throughput, threshold, silence, presumed = channel
    delay = period.delays.get(component.name)
    host = findings.loads.get(component.name) or load_of(period.host, component.name)
    return Seen(period.now, throughput, threshold, silence, delay, host, presumed)  # by place, which is faster


def channel_seen(period: Period, findings: Findings, channel: str) -> ChannelSeen:
    """Give a law's view of a channel beside its components."""
    reading = period.channels.get(channel)
    throughput = reading.throughput if reading else None
    threshold = period.owed[channel].beside(throughput)
    return ChannelSeen(throughput, threshold, reading.silence if reading else None, channel in findings.presumed)
