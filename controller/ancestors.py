"""Groups above components: each is raised by the odds at its own level, step by step, and let go of when there is room.

A group above a component holds more than the component: other interferers, perhaps half of the host. To raise it by the
component's own factor would give all of these the same, and would starve what runs beside it, the kernel's own threads
at the outermost level among it. What the component waits for at that level is but a part of its waiting: as much of it
as the foreign work at that level is of all that keeps the CPUs busy. So every such group has a law ``adaptive`` of its
own that sees this part alone. It raises until little is waited for there, holds, tries a little less now and then, and
goes back when there is room, as it does for components. What components ask for is the most that a group may get.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from qioi.controller.adaptive import Adaptive
from qioi.controller.law import Bounds, HostLoad, Seen
from qioi.types import MAX_SHARES, DelayReading


@dataclass(frozen=True, slots=True)
class Ask:
    """What is known of one group: shares in v1 units, as found, in force, and as the components in it ask for at most.

    ``foreign`` is the CPUs that others used beside the group, ``delay`` what the asking components did together;
    either is ``None`` where it is not known.
    """

    found: int
    share: int
    most: int
    foreign: float | None
    delay: DelayReading | None


class Ancestors:
    """The laws of all groups above components that are acted at."""

    def __init__(self) -> None:
        self._laws: dict[str, Adaptive] = {}

    def step(self, now: float, asks: Mapping[str, Ask], host: HostLoad | None, cpus: int) -> dict[str, int]:
        """Take one period in; give the most that each group is to have. A group not named any more is forgotten."""
        laws: dict[str, Adaptive] = {}
        most: dict[str, int] = {}
        for group, ask in asks.items():
            if ask.foreign is None or ask.delay is None or host is None:
                most[group] = ask.most  # nothing is known of its level: as the components have it
                continue
            law = self._laws.get(group)
            if law is None or law.default != ask.found:
                law = begin(ask)
            foreign = min(1.0, ask.foreign / cpus)
            lasting = host.lasting and HostLoad(host.lasting.idle, foreign)
            load = HostLoad(host.idle, foreign, lasting, host.sudden)
            law, verdict = law.step(Seen(now, commit_age=0.0, delay=ask.delay, host=load))
            most[group] = min(verdict.shares, max(ask.found, ask.most))
            if law.memory.share > most[group]:  # nobody asks for that much: it must not wind up
                law = replace(law, memory=law.memory._replace(share=float(most[group])))
            laws[group] = law
        self._laws = laws
        return most


def begin(ask: Ask) -> Adaptive:
    """Make the law of a group; one that is raised already, by a daemon before this one, goes on from there."""
    law = Adaptive.start(ask.found, Bounds(ask.found, MAX_SHARES))
    return replace(law, memory=law.memory._replace(share=float(law.bounds.clamp(ask.share))))


def together(delays: Iterable[DelayReading]) -> DelayReading | None:
    """Sum up what several components did in the same period."""
    known = tuple(delays)
    if not known:
        return None
    return DelayReading(
        "",
        sum(one.run for one in known),
        sum(one.wait for one in known),
        sum(one.slices for one in known),
        max(one.interval for one in known),
    )
