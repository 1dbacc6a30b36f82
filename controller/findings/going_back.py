"""Components that were raised against tenants, and go back for channels that are worse off, by a step in every period.

Otherwise two that have theirs by turns would raise each other to the ceiling, and one that cannot have its own would
keep the others from theirs for good. While somebody is to go back, who is worse off is not raised against others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Set
from typing import NamedTuple

from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.findings.tenants import LESS, Tenants
from qioi.controller.levels.steps import Steps
from qioi.controller.levels.wants import InForce, Want
from qioi.controller.period import Period

Channels = tuple[str, ...]
Cpus = frozenset[int]
#: The channels that some serve, and the CPUs that they may run on.
Place = tuple[Channels, Cpus]

#: The CPUs of what may run on all, or of what nobody has asked.
ANYWHERE: Cpus = frozenset()
EASED = "another channel lacks more of what it is owed, and this one was raised against others"
#: Seconds after which one that went no further back is asked again: what kept it up may be gone, a lost leader's floor.
AGAIN = 10.0
#: Seconds for which it is not asked even where it has more than it had, as a law without limits may give it each time.
FIRM = 3.0


class Firm(NamedTuple):
    """When one that was to go back went no further, and the share that it had."""

    at: float
    share: int


class GoingBack:
    """Remembers who went no further back: it rests where it is, or what takes no limits keeps it up."""

    def __init__(self) -> None:
        self._now = 0.0
        self._tenants = Tenants({}, frozenset())
        self._raised: dict[Place, dict[str, int]] = {}
        self._worst: dict[Channels, float] = {}
        self._beside: dict[Place, list[Place]] = {}
        self._better: dict[Channels, Set[Channels]] = {}
        self._firm: dict[str, Firm] = {}
        #: The most, in v1 units, that those have in this period who are to go back.
        self.most: dict[str, int] = {}

    def begin(self, period: Period, tenants: Tenants, held: Container[str]) -> None:
        """Begin a period: look for those among the ``held`` that may go back."""
        self._now, self._tenants = period.now, tenants
        self._beside, self._better, self.most = {}, {}, {}
        self._firm = {name: firm for name, firm in self._firm.items() if period.now - firm.at < AGAIN}
        raised: defaultdict[Place, dict[str, int]] = defaultdict(dict)
        for one in period.components:
            force = period.forces.get(one.name) if one.name in held else None
            if force is not None and self._may_go_back(one.name, force):
                raised[one.channels, period.cpus.get(one.name, ANYWHERE)][one.name] = force.share
        self._raised = raised
        self._worst = {channels: tenants.worst(channels) for channels, _ in raised}

    def ask(self, channels: Channels, cpus: Cpus) -> bool:
        """Ask those to go back who were raised beside one of these channels, of which one is below its T.

        Say whether there are any.
        """
        mine = channels, cpus
        if mine not in self._beside:
            better = self._better_than(channels)
            self._beside[mine] = [place for place in self._raised if place[0] in better and meet(place[1], cpus)]
        return bool(self._beside[mine])

    def _better_than(self, mine: Channels) -> Set[Channels]:
        """Give the channels of those who have theirs, or lack less than mine do by LESS, and serve none of mine."""
        if mine not in self._better:
            short, below = self._tenants.short, self._tenants.below
            lacks = max(short[name] for name in mine if name in below)
            most = max(0.0, lacks - LESS)
            able = (theirs for theirs, worst in self._worst.items() if worst <= most)
            self._better[mine] = {theirs for theirs in able if set(theirs).isdisjoint(mine)}
        return self._better[mine]

    def limits(self, steps: Steps) -> dict[str, Limit]:
        """Limit those to a step less who were asked."""
        places = {place for asked in self._beside.values() for place in asked}
        shares = {name: share for place in places for name, share in self._raised[place].items()}
        self.most = {name: steps.down(name, share) for name, share in shares.items()}
        return {name: Limit(Reason.TENANT, EASED, most) for name, most in self.most.items()}

    def answer(self, wants: Iterable[Want]) -> None:
        """Take in what was asked for in this period, within the limits."""
        if not self.most:
            return
        for want in wants:
            decision = want.decision
            most = self.most.get(decision.component)
            if most is not None and (want.shown or decision.shares > most):
                self._firm[decision.component] = Firm(self._now, decision.previous)

    def _may_go_back(self, name: str, force: InForce) -> bool:
        if force.share <= force.original or force.foreign or force.taken or force.problem:
            return False
        firm = self._firm.get(name)
        return firm is None or (force.share > firm.share and self._now - firm.at >= FIRM)


def meet(mine: Cpus, theirs: Cpus) -> bool:
    """Whether two may run on the same CPUs."""
    return not mine or not theirs or not mine.isdisjoint(theirs)
