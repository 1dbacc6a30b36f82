"""The states of components and channels after a period, made from what was read, decided and done."""

from __future__ import annotations

from qioi.controller.acting import Outcomes
from qioi.controller.deciding import Decisions
from qioi.controller.findings.bottleneck import Bottleneck
from qioi.controller.findings.finder import Findings
from qioi.controller.findings.leaders import Leadership
from qioi.controller.laws.thresholds import Threshold
from qioi.controller.period import Period
from qioi.model import ChannelReading, Component, Decision
from qioi.model.names import few
from qioi.show.snapshot import ChannelState, ComponentState


def component_states(period: Period, decisions: Decisions, outcomes: Outcomes) -> tuple[ComponentState, ...]:
    """Make the state of every component."""
    decided = {want.decision.component: want.decision for want in decisions.wants}
    return tuple(
        absent(one, period.absent[one.name])
        if one.name in period.absent
        else component_state(one, period, (decided.get(one.name), decisions.findings), outcomes)
        for one in period.components
    )


def why_not(component: Component) -> str:
    """Say why no law is asked about a component."""
    return f"no policy raises a {component.role.value} that serves {few(component.channels) or 'every channel'}"


def absent(one: Component, problem: str) -> ComponentState:
    """Say that a component's group can't be read: nothing of what was known of it holds."""
    reason = "its control group is not there"
    return ComponentState(one.name, one.role.value, one.cgroup, reason=reason, problem=problem)


def component_state(
    one: Component, period: Period, decided: tuple[Decision | None, Findings], outcomes: Outcomes
) -> ComponentState:
    """Make one component's state. Fields go by place, which is faster, as there may be a thousand."""
    decision, findings = decided
    name, force, delay = one.name, period.forces[one.name], period.delays.get(one.name)
    reason = decision.reason if decision else why_not(one)
    if name in outcomes.notes:
        reason = f"{reason}; {outcomes.notes[name]}"
    return ComponentState(
        name,
        one.role.value,
        one.cgroup,
        outcomes.shares.get(name, force.share),
        force.original,
        decision.previous if decision else None,
        decision.shares if decision else force.share,
        delay.delay if delay else None,
        delay.waiting_share if delay else None,
        delay.cores if delay and delay.interval > 0 else None,
        reason,
        decision.channel if decision else None,
        decision.error if decision else None,
        decision.working if decision else None,
        outcomes.problems.get(name, force.problem),
        force.placement,
        delay.threads if delay else None,
        force.taken,
        findings.limits.get(name),
        findings.loads[name].foreign if name in findings.loads else None,
    )


def channel_after(
    state: ChannelState, reading: ChannelReading | None, owed: Threshold, found: Bottleneck, leaders: Leadership
) -> ChannelState:
    """Make one channel's state. Where nobody tells of it, nothing of what was known holds."""
    return ChannelState(
        state.name,
        state.law,
        owed.value,
        reading.throughput if reading else None,
        reading.age if reading else None,
        reading.height if reading else None,
        owed.source,
        owed.evidence,
        found,
        leaders.losses,
        leaders.factor,
    )
