"""Reads what is in force: every component's share at the level that counts, and what is wrong there."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from queue import SimpleQueue
from typing import NamedTuple

from msgspec.structs import replace

from qioi.controller.guard.guard import Guard
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce, top_of
from qioi.controller.other_lever import OtherLever
from qioi.controller.restoring import Restorer
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.model import Component, Owner
from qioi.model.groups import chain

log = logging.getLogger("qioi")


class Standing(NamedTuple):
    """What is in force, by component; why the other components' shares can't be read; whose group was removed."""

    forces: dict[str, InForce]
    absent: dict[str, str]
    gone: tuple[str, ...]


class Above:
    """The groups above components, each looked at once in a period: most components have them in common."""

    def __init__(self, guard: Guard, owners: Mapping[str, Owner]) -> None:
        self._guard = guard
        self._owners = owners
        #: What is wrong, if anything, with each group that was looked at.
        self.problems: dict[str, str | None] = {}
        self._shares: dict[tuple[str, ...], tuple[tuple[int, int], ...] | None] = {}

    def problem(self, group: str) -> str | None:
        """Look at a group; say why it can't be acted at."""
        if group not in self.problems:
            self.problems[group] = self._look(group)
        return self.problems[group]

    def shares(self, groups: tuple[str, ...]) -> tuple[tuple[int, int], ...] | None:
        """Give the share that each of these groups has, and the one it was found with.

        ``None``: a group can't be acted at, or has a share that somebody else has set.
        """
        if groups not in self._shares:
            self._shares[groups] = self._look_at(groups)
        return self._shares[groups]

    def _look_at(self, groups: tuple[str, ...]) -> tuple[tuple[int, int], ...] | None:
        guard = self._guard
        for one in groups:
            if self.problem(one) or not guard.holds(one) or guard.is_foreign(one) or guard.is_set_by_others(one):
                return None
        return tuple([(guard.last(one), guard.found(one)) for one in groups])

    def _look(self, group: str) -> str | None:
        try:
            self._guard.look(group, self._owners.get(group))
        except CgroupError as error:
            return f"cannot act at {group}: {error}"
        return None


class Reader:
    """Reads through the guard, which holds what it has read, and takes up again what it is told to."""

    def __init__(self, guard: Guard, other: OtherLever, restorer: Restorer) -> None:
        """Begin; ``other`` knows of shares that groups' files do not tell, ``restorer`` lets go of what has gone."""
        self._guard = guard
        self._other = other
        self._restorer = restorer
        self._orders: SimpleQueue[str] = SimpleQueue()

    def take_up(self, component: str) -> None:
        """Have a component's groups taken up again that somebody else has changed, in the next period, from any thread.

        What they have then is their original.
        """
        self._orders.put(component)

    def look_at(
        self, components: Iterable[Component], placements: Mapping[str, Placement], owners: Mapping[str, Owner]
    ) -> Standing:
        """Read what is in force for every component; ``owners`` are those of groups above, where they are known."""
        standing = Standing({}, {}, ())
        above = Above(self._guard, owners)
        gone, own = [], set()
        ordered = self._ordered()
        for one in components:
            own.add(one.cgroup)
            placement = placements.get(one.cgroup) or Placement((one.cgroup,), "not looked at yet")
            try:
                taken_up = one.name in ordered and self._take_up(chain(one.cgroup))
                force = self._other.in_force(one, self._look(one, placement, above))
                standing.forces[one.name] = replace(force, taken_up=True) if taken_up else force
            except CgroupGoneError as error:
                standing.absent[one.name] = str(error)
                gone.append(one.name)
                self._restorer.let_go(one.cgroup)
            except CgroupError as error:
                standing.absent[one.name] = str(error)
        self._restorer.leave(above.problems, own)
        return standing._replace(gone=tuple(gone))

    def _ordered(self) -> set[str]:
        """Name the components that are to be taken up again."""
        names = set()
        while not self._orders.empty():
            names.add(self._orders.get())
        return names

    def _take_up(self, groups: Iterable[str]) -> bool:
        """Take up again those of the groups that somebody else has changed; say whether there are any."""
        foreign = [group for group in groups if self._guard.is_foreign(group)]
        for group in foreign:
            self._guard.take_up(group)
            log.info("%s: taken up again: what it was found with is %d now", group, self._guard.found(group))
        return bool(foreign)

    def _look(self, one: Component, placement: Placement, above: Above) -> InForce:
        """Read what is in force for a component by its groups. CgroupError: its own group can't be read."""
        guard, cgroup = self._guard, one.cgroup
        share = guard.look(cgroup, one.owner)
        if not guard.is_foreign(cgroup):  # the usual cases, made short
            found = guard.found(cgroup)
            if placement.groups == (cgroup,):
                foreign = share > found and guard.is_set_by_others(cgroup)
                return InForce(share, found, placement, foreign=foreign)
            if cgroup not in placement.groups and (shares := above.shares(placement.groups)) is not None:
                top = share if share < found else max([round(has * found / its) for has, its in shares])
                foreign = share != found and guard.is_set_by_others(cgroup)
                return InForce(top, found, placement, foreign=foreign)
        looked = [above.problem(group) for group in placement.groups if group != cgroup]
        problems = [problem for problem in looked if problem is not None]
        whose = [group for group in dict.fromkeys((cgroup, *placement.groups)) if guard.is_foreign(group)]
        if whose:
            problems.append(self._left_alone(cgroup, whose[0]))
        taken = tuple(group for group in whose if guard.pause(group) is None)
        share = top_of(guard, cgroup, placement).share
        foreign = any(map(guard.is_set_by_others, (cgroup, *placement.groups)))
        return InForce(share, guard.found(cgroup), placement, "; ".join(problems) or None, taken, foreign=foreign)

    def _left_alone(self, cgroup: str, foreign: str) -> str:
        """Say why a foreign group, the component's own or one above, is left alone."""
        names = "its" if foreign == cgroup else f"{foreign}'s"
        pause = self._guard.pause(foreign)
        if pause is None:
            return f"somebody else has changed {names} share: left alone"
        return f"somebody else has put {names} original back: left alone for {pause:g} s"
