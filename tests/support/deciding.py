"""One decision of a controller about one component, from readings that the test makes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from qioi.controller.deciding import Controller
from qioi.controller.findings.finder import Findings
from qioi.controller.findings.limits import Limit
from qioi.controller.laws.thresholds import Threshold
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.model import ChannelReading, Component, Decision, DelayReading, HostLoad


def decide(
    controller: Controller,
    now: float,
    component: Component,
    share: int,
    found: int,
    channels: Mapping[str, ChannelReading],
    delay: DelayReading | None,
    host: HostLoad | None,
    limits: Mapping[str, Limit] | None = None,
    floors: Mapping[str, float] | None = None,
    presumed: Collection[str] = (),
    owed: Mapping[str, float | None] | None = None,
) -> Decision | None:
    """Ask the controller; channels are owed what their policies say, or what ``owed`` does."""
    said = {name: one.threshold for name, one in controller.policies.items()} | dict(owed or {})
    period = Period(
        now,
        (component,),
        channels,
        {} if delay is None else {component.name: delay},
        host,
        {name: Threshold(value, "configuration") for name, value in said.items()},
        forces={component.name: InForce(share, found, Placement((component.cgroup,), "no foreign work"))},
    )
    findings = Findings({}, {}, frozenset(presumed), limits or {}, floors or {})
    return controller.decision_for(period, findings, component)
