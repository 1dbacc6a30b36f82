"""Whether raised shares have any effect on how long their components wait.

They have none beside SCHED_FIFO neighbours, which the kernel runs before all others whatever their weights, and where
they are set at a level of the tree at which nobody competes. Waiting to running is as others' weight to one's own
(need.py). So who is raised to four times its weight, still waits by half the odds of before, and runs no more, is
suspect. Proof is a trial: all who are suspect get a quarter of their shares, then their defaults, then their shares
again. Together, since a share counts against the ledger's other components too. Only where a component runs and waits
the same in all of it is its share let go of (:func:`is_alike`).

That is a trial of somebody who waits, so in doubt a share is held. A channel that has its T is left alone, and so is
who does not work. The first sign of harm to one of them ends a trial. Each trial puts off the next for twice as
long. Who was let go of gets its share back at such a sign as well, and for a look after a minute, two, four and so on.
A look is put off until no other trial moves shares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from qioi.controller.findings.channels import SeenChannels
from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.laws.backoff import Backoff
from qioi.controller.laws.need import has_room, is_active, is_below, odds
from qioi.controller.period import Period
from qioi.model import MAX_SHARES, Component

#: Times its original from which on a share is looked at, and by which it is divided first in a trial.
FACTOR = 4.0
#: A share that moves by less than this part stays.
STAYS = 0.1
#: The least need of a suspect: with a look from before the raise to compare with, and without one.
HIGH, VERY_HIGH = 0.35, 0.8
#: A suspect's odds of waiting are at least this part of those before the raise. Odds are capped at those of MOST_NEED,
#: beyond which they are noise.
LEFT, MOST_NEED = 0.5, 0.95
#: A suspect runs at most so many times of what it ran before the raise, and so many CPUs on top. Beside real-time
#: neighbours the kernel lets it run for 0.05 s of each second at once (sched_rt_runtime_us), and it is chance how many
#: of these a look has.
MORE, SLACK = 1.5, 0.1
#: Threads runnable from which on a component works (unheard.py has what idle ones show).
WORKS = 0.9
#: Harm in a short look is to run less than LESS of before and CPUS less, or less than HALF of before.
LESS, CPUS, HALF = 0.8, 0.03, 0.45
#: Factors within which running, and the part of the runnable time that is run, are the same over a long look.
SAME_RUN, SAME_PART = 1.25, 1.3
#: Seconds of a look: before a raise, for harm, and for what is the same. A look lasts about whole seconds, since the
#: kernel gives out what real-time neighbours leave by the second.
BEFORE, SHORT, LONG = 0.95, 1.95, 7.95
#: Seconds with the same share before a trial, with a quarter of it, and until a share has followed.
SETTLED, QUARTER, LATE = 10.0, 3.9, 5.0
#: Seconds between two trials, first and at most; the same between two looks at who was let go of.
FIRST, LONGEST, LOOKS = 60.0, 3600.0, 300.0

TRIED = "whether its share has any effect is tried"
TEXT = "waits as long with its default share as with a raised one: shares have no effect on what it waits for"


class Rate(NamedTuple):
    """Seconds a second that a component ran, and waited behind anybody; the part of the busy CPU time of foreigners.

    Over a time, the same as sums, with its ``seconds``. The kernel counts a wait when it ends, and so often in a period
    in which foreigners had least. Hence no wait is weighted by the foreigners' part of the same period.
    """

    run: float = 0.0
    wait: float = 0.0
    part: float = 0.0
    seconds: float = 0.0

    def add(self, new: Rate) -> Rate:
        """Sum up with a mean over another time."""
        time = new.seconds
        return Rate(
            self.run + new.run * time, self.wait + new.wait * time, self.part + new.part * time, self.seconds + time
        )

    @property
    def mean(self) -> Rate:
        """Give the mean of a sum."""
        time = self.seconds
        return Rate(self.run / time, self.wait / time, self.part / time, time)

    @property
    def ran(self) -> float:
        """Part of the runnable time that was run."""
        return self.run / (self.run + self.wait) if self.run + self.wait > 0 else 0.0

    @property
    def need(self) -> float:
        """Part of the runnable time that it waited, and no more than foreigners have of the busy time."""
        return min(1.0 - self.ran, self.part) if self.run + self.wait > 0 else 0.0

    @property
    def works(self) -> bool:
        """Whether a thread is runnable nearly all the time."""
        return self.run + self.wait >= WORKS


class Looks(NamedTuple):
    """Looks of the same length, one after another: what was seen of the one under way, and the last whole one."""

    seen: Rate = Rate()
    last: Rate | None = None

    def add(self, new: Rate, length: float) -> Looks:
        """Take one period in."""
        seen = self.seen.add(new)
        return Looks(Rate(), seen.mean) if seen.seconds >= length else Looks(seen, self.last)


class Reading(NamedTuple):
    """One component's period, with the share in force and the original."""

    share: int
    original: int
    rate: Rate

    @property
    def is_raised(self) -> bool:
        """Whether a share is large enough to have an effect."""
        return self.share >= FACTOR * self.original


class Course(Struct, frozen=True):
    """One component outside of trials.

    ``rest`` has the looks at its default, ``late`` those with the raised ``share``, in force ``since`` a moment.
    """

    share: int = 0
    since: float = -math.inf
    rest: Looks = Looks()
    late: Looks = Looks()

    def step(self, now: float, seen: Reading) -> Course:
        """Take one period in, in which the host was full."""
        if seen.share < (1 + STAYS) * seen.original:
            return replace(self, share=0, rest=self.rest.add(seen.rate, BEFORE))
        if not seen.is_raised:
            return replace(self, share=0)
        if abs(seen.share - self.share) > STAYS * self.share:
            return replace(self, share=seen.share, since=now, late=Looks())
        return replace(self, late=self.late.add(seen.rate, LONG))

    def is_settled(self, now: float) -> bool:
        """Whether it is known what this share has brought."""
        return now - self.since >= SETTLED and self.late.last is not None

    @property
    def is_suspect(self) -> bool:
        """Whether the raise seems to have changed nothing."""
        rest, late = self.rest.last, self.late.last
        if late is None or not late.works:
            return False
        if rest is None:
            return late.need >= VERY_HIGH
        same = strength(late) >= LEFT * strength(rest) and late.run <= MORE * rest.run + SLACK
        return late.need >= HIGH and same


class Phase(StrEnum):
    """What shares the components of a trial have."""

    QUARTER = "quarter"
    DEFAULT = "default"
    RAISED = "raised"
    RELEASED = "released"


class Member(Struct, frozen=True):
    """One component in a trial: what was with its share, what was with less of it, and what is in this phase."""

    share: int
    more: Rate
    less: Rate = Rate()
    short: Looks = Looks()
    long: Looks = Looks()

    def most(self, phase: Phase) -> int:
        """Give the most that it may have, in v1 units; 0 stands for its default."""
        return {Phase.QUARTER: round(self.share / FACTOR), Phase.RAISED: MAX_SHARES}.get(phase, 0)

    def step(self, phase: Phase, seen: Reading, late: bool) -> Member | None:
        """Take one period in. ``None``: it is to have its share back. ``late``: a share should have followed."""
        if phase is Phase.RAISED:
            follows = seen.is_raised
        else:
            enough = (1 + STAYS) * max(seen.original, self.most(phase))
            if phase is Phase.QUARTER:
                enough = max(enough, self.share / 2)  # of small weights a quarter is rounded up
            follows = seen.share <= enough
        if not follows:
            return None if late else self
        after = replace(self, short=self.short.add(seen.rate, SHORT), long=self.long.add(seen.rate, LONG))
        look = after.long if phase is Phase.RELEASED else after.short
        if phase is not Phase.RAISED and look.last is not None and is_worse(look.last, self.more):
            return None
        return after

    @property
    def has_changed(self) -> bool:
        """Whether it is another thing now that it runs and waits for, so that a share may help."""
        return self.long.last is not None and not is_alike(self.long.last, self.less)

    def end(self, phase: Phase) -> Member | None:
        """Judge a phase that is over. ``None``: there is a difference, or not enough was seen to know of none."""
        after = replace(self, short=Looks(), long=Looks())
        look = self.short.last if phase is Phase.QUARTER else self.long.last
        if look is None:
            return None
        if phase is Phase.DEFAULT:
            return replace(after, less=look) if is_alike(look, self.more) else None
        if phase is Phase.RAISED:
            return replace(after, more=look) if is_alike(self.less, look) else None
        return replace(after, less=look)


class Trial(Struct, frozen=True):
    """A trial that is under way, or has ended by letting go of those who are left in it (``found``)."""

    since: float
    members: Mapping[str, Member]
    phase: Phase = Phase.QUARTER
    found: bool = False
    looks: Backoff = Backoff()

    @property
    def moves(self) -> bool:
        """Whether shares are moved to find something out."""
        return self.phase is not Phase.RELEASED

    def step(self, now: float, seen: Mapping[str, Reading], there: Container[str], alone: bool) -> Trial:
        """Take one period in. ``there`` has who may stay in; who was not seen in this period stays as it is.

        ``alone``: no other trial moves shares, so that a look may begin.
        """
        late = now - self.since >= LATE
        members = {name: one for name, one in self.members.items() if name in there}
        stepped = {
            name: one.step(self.phase, seen[name], late) if name in seen else one for name, one in members.items()
        }
        members = {name: one for name, one in stepped.items() if one is not None}
        if len(members) < len(stepped) and self.phase in (Phase.QUARTER, Phase.DEFAULT):
            members = {}  # what harms one may soon harm those who wait for it
        after = replace(self, members=members)
        return after._next(now) if (alone or self.moves) and after._is_over(now) else after

    def _is_over(self, now: float) -> bool:
        """Whether the phase is: all was seen, or should have been."""
        lasts, members = now - self.since, self.members.values()
        if self.phase is Phase.QUARTER:
            return lasts >= QUARTER
        if self.phase is Phase.RELEASED:
            return now >= self.looks.until or any(one.has_changed for one in members)
        return lasts >= LATE + LONG or all(one.long.last is not None for one in members)

    def _next(self, now: float) -> Trial:
        judged = {name: one.end(self.phase) for name, one in self.members.items()}
        members = {name: one for name, one in judged.items() if one is not None}
        after = replace(self, since=now, members=members)
        if self.phase is not Phase.RAISED:
            return replace(after, phase=Phase.DEFAULT if self.phase is Phase.QUARTER else Phase.RAISED)
        return replace(after, phase=Phase.RELEASED, found=True, looks=self.looks.hurt(now, FIRST, LOOKS))

    def limits(self) -> dict[str, Limit]:
        """Say how much each of those in it may have."""
        reason, text = (Reason.NO_EFFECT, TEXT) if self.found else (Reason.TRIED, TRIED)
        return {name: Limit(reason, text, one.most(self.phase)) for name, one in self.members.items()}


UNKNOWN = Course()


class Effects:
    """All components' courses, the one trial that may be under way, and those that have let go of somebody."""

    def __init__(self, is_literal: Callable[[str], bool]) -> None:
        """Begin; ``is_literal`` knows channels of Algorithm 1, whose components' shares are not limited."""
        self._is_literal = is_literal
        self._courses: dict[str, Course] = {}
        self._trials: tuple[Trial, ...] = ()
        self._tries = Backoff()

    @property
    def trying(self) -> bool:
        """Whether shares are moved to find something out."""
        return any(one.moves for one in self._trials)

    def step(self, period: Period, limited: Container[str], free: bool, channels: SeenChannels) -> dict[str, Limit]:
        """Take one period in; give the limits of components whose shares are tried, or have no effect, by name.

        Who is ``limited`` by something else is left out. ``free``: no other trial is under way.
        """
        mine = [
            one.name
            for one in period.components
            if one.name in period.forces
            and one.name not in limited
            and not (period.host is not None and has_room(period.host.of(one.name)))
        ]
        seen = {name: read for name in mine if (read := read_one(period, name)) is not None}
        there, tried = frozenset(mine), {name for one in self._trials for name in one.members}
        trials = [*self._trials]
        for at, one in enumerate(trials):
            alone = not any(other.moves for other in trials if other is not one)
            trials[at] = one.step(period.now, seen, there, alone)
        self._trials = tuple(one for one in trials if one.members)
        courses = {name: self._courses.get(name, UNKNOWN) for name in mine if name not in tried}
        self._courses = {
            name: one.step(period.now, seen[name]) if name in seen else one for name, one in courses.items()
        }
        if free and not self.trying and period.now >= self._tries.until:
            self._begin(period, channels)
        return {name: limit for one in self._trials for name, limit in one.limits().items()}

    def _begin(self, period: Period, channels: SeenChannels) -> None:
        """Begin a trial with all who are suspect, once it is known of everybody what a raised share brings."""
        if not any(one.is_suspect for one in self._courses.values()):
            return  # as nearly always; what follows looks at each channel of each component
        now, raised = period.now, [one for one in period.components if self._may_try(one, channels)]
        courses = {one.name: self._courses[one.name] for one in raised}
        members = {
            name: Member(one.share, one.late.last)
            for name, one in courses.items()
            if one.late.last is not None and one.is_suspect
        }
        if members and all(one.is_settled(now) for one in courses.values()):
            self._trials = (*self._trials, Trial(now, members))
            self._tries = self._tries.hurt(now, FIRST, LONGEST)

    def _may_try(self, one: Component, channels: SeenChannels) -> bool:
        """Whether a component is raised, by a law that keeps to limits, and has not all that it is raised for."""
        if one.name not in self._courses or not self._courses[one.name].share:
            return False
        return not any(map(self._is_literal, one.channels or channels)) and not is_served(one, channels)


def read_one(period: Period, name: str) -> Reading | None:
    """Read a component's period, if that is known."""
    delay, host, force = period.delays.get(name), period.host, period.forces[name]
    if host is None or delay is None or delay.interval <= 0:
        return None
    part, time = host.of(name).foreign_part, delay.interval
    rate = Rate(max(0.0, delay.run) / time, max(0.0, delay.wait) / time, part, time)
    return Reading(force.share, force.original, rate)


def is_served(one: Component, channels: SeenChannels) -> bool:
    """Whether each channel of a component that somebody sends to has a number for T, and does that much."""
    owed = [channels[name] for name in one.channels or channels if name in channels]
    seen = [each for each in owed if is_active(each)]
    return bool(seen) and all(
        each.threshold is not None and each.throughput is not None and not is_below(each) for each in seen
    )


def strength(rate: Rate) -> float:
    """Give the odds of waiting, as far as they mean something."""
    return odds(min(MOST_NEED, rate.need))


def is_worse(less: Rate, more: Rate) -> bool:
    """Whether a component is clearly worse off with less of a share than it was with more, by a short look.

    It runs less, or less than it ran of as long a time in which it was runnable.
    """
    due = max(more.run, more.ran * (less.run + less.wait))
    return less.run < HALF * due or less.run < min(LESS * due, due - CPUS)


def is_alike(one: Rate, other: Rate) -> bool:
    """Whether nothing is different, neither what is run nor the part of the runnable time that it is."""
    return within(one.run, other.run, SAME_RUN) and within(one.ran, other.ran, SAME_PART)


def within(one: float, other: float, factor: float) -> bool:
    """Whether two numbers differ by a factor at most."""
    return one <= factor * other and other <= factor * one
