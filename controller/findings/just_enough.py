"""Just enough: no more than it takes to outweigh the neighbours that are there, as long as that serves the channel.

How much a component waits does not tell when its share is enough: beside neighbours that take whatever they get, most
of its waiting is counted as theirs, whatever its share. Their weights tell. A component that weighs several times what
its neighbours weigh on one CPU gets nearly all of that CPU whenever it wants it, and no more share changes much.

At a neighbour's coming the law has all that it may raise to: what has piled up is to be worked off. When that is done,
components go down to what is enough. If the channel then does less than before, or no longer what it is owed, they get
it all back at once, and the next try is put off. A channel that does less than it is owed keeps it all.

A silence of somebody who is not taken to send (unheard.py) says nothing, and asks for nothing.

Beside heavy neighbours what outweighs them may be more than a law would raise to. So a ceiling that nobody has stated
follows them. It never comes down on a share that is in force: that is for the law to release.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from qioi.controller.findings.channels import SeenChannels
from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.findings.neighbours import Beside, Neighbours
from qioi.controller.laws.backoff import Backoff
from qioi.controller.laws.beyond import Block, Rate, rate_of, start_of
from qioi.controller.laws.law import Seen
from qioi.controller.laws.need import ACTIVE, is_active, is_below, room_for
from qioi.controller.laws.room import LastingRoom
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.model import CEILING, MAX_SHARES, Component, HostLoad
from qioi.model.groups import parent_of

#: A component's weight, to that of the neighbours on one CPU, that is nearly enough; what it may have as far as the
#: usual ceiling goes, since its p95 is nearer to alone's with that; and what is enough for a group of many components,
#: which may want more than one CPU.
RATIO, AMPLE, ABOVE = 2.0, 4.0, 8.0
#: Seconds with all that it may have, first of all.
GRACE = 6.0
#: Seconds over which A is taken; from and until which it is compared with A before; below T until that is no noise.
OVER, SHOWS, TRIAL, LASTS = 10.0, 3.0, 20.0, 5.0
#: Noises by which A is less than it was.
OTHER = 1.5
#: Seconds without another try, first and at most, after one that has hurt.
FIRST, MOST = 60.0, 3600.0

TEXT = "outweighs its neighbours by far: that is enough"


class Course(Struct, frozen=True):
    """One channel's. ``full``: its components may have all that their law asks for.

    ``since`` is when that, or its contrary, began; ``below_since`` since when A is less than is owed. ``before`` is A
    with all of it. ``tries`` puts off the next try of less. ``silent``: nobody is taken to send. A silence is a part of
    A until ``mixed_until``. ``seldom``: silent after a single block, so that A is never known; it lifts no limit.
    """

    full: bool = True
    since: float = -math.inf
    below_since: float = math.inf
    before: float | None = None
    tries: Backoff = Backoff()
    blocks: tuple[Block, ...] = ()
    silent: bool = False
    mixed_until: float = -math.inf
    seldom: bool = False

    @property
    def has_all(self) -> bool:
        """Whether its components are not to be limited."""
        return self.full and not self.seldom

    def step(self, seen: Seen, block: Block | None) -> Course:
        """Take one period in; ``block`` is the last one that was committed."""
        if not is_active(seen):
            return replace(self, silent=True, seldom=self.full and len(self.blocks) == 1)
        before = self
        if self.silent and not seen.presumed:
            before = replace(self, below_since=math.inf, blocks=(), mixed_until=seen.now + ACTIVE)
        return before._hear(seen, block)

    def _hear(self, seen: Seen, block: Block | None) -> Course:
        """Take in a period in which somebody sends. Unless that is presumed, nothing is known since the last commit."""
        now, blocks = seen.now, self.blocks
        until = now if seen.presumed else now - (seen.commit_age or 0.0)
        if block is not None and blocks and block.source != blocks[-1].source:
            blocks = ()
        if block is not None and (not blocks or block.total != blocks[-1].total):
            start = start_of(blocks, now - OVER)
            blocks = (*(one for one in blocks if start <= one.time and one.total < block.total), block)
        below_since = min(self.below_since, max(now, self.mixed_until)) if is_below(seen) else math.inf
        one = replace(self, blocks=blocks, below_since=below_since, silent=False)
        if self.seldom and (seen.presumed or len(blocks) > 1):  # its A is to be known with all that it may have
            one = replace(one, seldom=False, since=now)
        rate = rate_of(blocks, max(start_of(blocks, now - OVER), one.since), until)
        return one._with_all(now, rate) if self.full else one._with_enough(now, rate, until)

    def _with_all(self, now: float, rate: Rate | None) -> Course:
        """Try what should be enough, unless that may be why less is done than is owed, and once A is known."""
        waits = math.isfinite(self.below_since) or (rate is None and bool(self.blocks))
        if waits or now - self.since < GRACE or now < self.tries.until:
            return self
        return replace(self, full=False, since=now, before=rate and rate.value)

    def _with_enough(self, now: float, rate: Rate | None, until: float) -> Course:
        """Give it all back where less has hurt, as far as is known ``until`` a moment."""
        fallen = False
        shows = SHOWS <= now - self.since <= TRIAL or start_of(self.blocks, self.since) < self.since
        if rate is not None and self.before is not None and shows:
            fallen = rate.value < (1 - OTHER * rate.noise) * self.before
        if not fallen and until - self.below_since < LASTS:
            return self
        return replace(self, full=True, since=now, tries=self.tries.hurt(now, FIRST, MOST))


class JustEnough:
    """All channels' courses, and the neighbours that were seen lately."""

    def __init__(self, weigh: Callable[[str], int | None], cpus: int | None = None) -> None:
        """Begin. ``weigh`` gives the weight that a held group was found with, in the unit of its file."""
        self._weigh = weigh
        self._stated, self._cpus = cpus, cpus or 1
        self._courses: dict[str, Course] = {}
        self._limits: dict[str, Limit] = {}
        #: The share, in v1 units, that outweighs each component's neighbours, or what it has if that is more; only
        #: where that is beyond the usual ceiling.
        self.outweighs: Mapping[str, int] = {}
        self._room = LastingRoom()  # on all components' CPUs
        self._neighbours = Neighbours()

    def step(self, period: Period, seen: SeenChannels) -> dict[str, Limit]:
        """Take one period in; give the limits of components whose channels have what is enough, by name."""
        if period.host is None:
            return self._limits
        room = room_for(period.host, (one.name for one in period.components))
        if self._room.step(period.now, room):
            self._courses = {}
            self._neighbours.forget()
            self._limits, self.outweighs = {}, held(period, {})
            return {}
        now, before = period.now, self._courses
        beside = self._neighbours.look(now, period.siblings)
        self._courses = {}
        for channel, one in seen.items():
            reading = period.channels.get(channel)
            block = None
            if reading is not None and reading.committed is not None and reading.age is not None:
                block = Block(now - reading.age, reading.committed, reading.source)
            known = before.get(channel) or Course(since=now)
            self._courses[channel] = known.step(one, block)
        self._cpus = self._stated or os.cpu_count() or 1  # they may come and go
        factors = self._factors_of_all(period, period.host, beside)
        most = {
            name: min(MAX_SHARES, round(max(parts) * period.forces[name].original))
            for name, each in factors.items()
            if (parts := [factor for factor in each if factor is not None])
        }
        self.outweighs = held(period, most)
        self._limits = {
            one.name: Limit(Reason.ENOUGH, TEXT, most[one.name])
            for one in period.components
            if one.name in most and None not in factors[one.name] and not self._has_all(one)
        }
        return self._limits

    def is_trying(self, now: float) -> bool:
        """Whether a channel's A is watched for what less of its shares does."""
        return any(not one.full and now - one.since <= TRIAL for one in self._courses.values())

    def _has_all(self, component: Component) -> bool:
        """Whether a channel of a component is to have all that its law asks for: one that is silent, if all are."""
        its = [self._courses[one] for one in component.channels or self._courses if one in self._courses]
        heard = [one for one in its if not one.silent]
        return any(one.has_all for one in heard or its)

    def _factors_of_all(self, period: Period, host: HostLoad, beside: Beside) -> dict[str, list[float | None]]:
        """Give :meth:`_factors` by component. Those that are acted at the same groups above have them in common."""
        pinned = host.pinned
        factors: dict[str, list[float | None]] = {}
        common: dict[tuple[tuple[str, ...], bool], list[float | None]] = {}
        for one in period.components:
            force, is_pinned = period.forces.get(one.name), one.name in pinned
            if force is None or not beside:
                factors[one.name] = []
            elif one.cgroup in force.placement.groups:
                factors[one.name] = self._factors(force, one.cgroup, beside, is_pinned)
            else:
                key = force.placement.groups, is_pinned
                if key not in common:
                    common[key] = self._factors(force, one.cgroup, beside, is_pinned)
                factors[one.name] = common[key]
        return factors

    def _factors(self, force: InForce, own: str, beside: Beside, is_pinned: bool) -> list[float | None]:
        """Give by how much each group of a component, its ``own`` or one above, has to grow to outweigh its neighbours.

        ``None`` where their weight is not known.
        """
        factors: list[float | None] = []
        for group in force.placement.groups:
            known, weight = beside.get(parent_of(group)), self._weigh(group)
            if known is None or not weight:
                factors.append(None)
                continue
            total, heaviest = known
            on_one = total if is_pinned else max(heaviest, total / self._cpus)
            if group == own:
                ample = min(AMPLE * on_one / weight, CEILING / force.original)
                factors.append(max(RATIO * on_one / weight, ample))
            else:
                factors.append(ABOVE * on_one / weight)
        return factors


def held(period: Period, most: Mapping[str, int]) -> dict[str, int]:
    """Give what outweighs components' neighbours, or their share in force if that is more, beyond the usual ceiling.

    By a group above it a component may have more in effect than its own group could.
    """
    larger = ((name, min(MAX_SHARES, max(most.get(name, 0), force.share))) for name, force in period.forces.items())
    return {name: share for name, share in larger if share > CEILING}
