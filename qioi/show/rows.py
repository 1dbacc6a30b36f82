"""What a period shows of a component and of a channel, put together from what was read, seen and decided."""

from __future__ import annotations

from qioi.controller.findings.bottleneck import Bottleneck
from qioi.controller.findings.leaders import Leadership
from qioi.controller.laws.thresholds import Threshold
from qioi.controller.levels.wants import InForce
from qioi.model import ChannelReading, Component, Decision, DelayReading
from qioi.model.names import few
from qioi.show.snapshot import ChannelState, ComponentState


def why_not(component: Component) -> str:
    """Say why no law is asked about a component."""
    return f"no policy raises a {component.role.value} that serves {few(component.channels) or 'every channel'}"


def absent(state: ComponentState, problem: str) -> ComponentState:
    """Say that a component's group can't be read; what was known of it before is not true any more."""
    reason = "its control group is not there"
    return ComponentState(state.name, state.role, state.cgroup, reason=reason, problem=problem)


def component_seen(
    state: ComponentState, force: InForce, delay: DelayReading | None, decision: Decision | None, component: Component
) -> ComponentState:
    """Put together what was seen of a component and decided about it; by place, since this is done for each of them."""
    return ComponentState(
        state.name,
        state.role,
        state.cgroup,
        force.share,
        force.original,
        decision.previous if decision else None,
        decision.shares if decision else force.share,
        delay.delay if delay else None,
        delay.waiting_share if delay else None,
        delay.run / delay.interval if delay and delay.interval > 0 else None,
        decision.reason if decision else why_not(component),
        decision.channel if decision else None,
        decision.error if decision else None,
        decision.working if decision else None,
        force.problem,
        force.placement,
    )


def channel_seen(
    state: ChannelState, reading: ChannelReading | None, owed: Threshold, found: Bottleneck, leaders: Leadership
) -> ChannelState:
    """Put together what was seen of a channel; where it was not read, that from before stays."""
    return ChannelState(
        state.name,
        state.law,
        owed.value,
        reading.throughput if reading else state.throughput,
        reading.age if reading else state.age,
        reading.height if reading else state.height,
        owed.source,
        owed.evidence,
        found,
        leaders.losses,
        leaders.factor,
    )
