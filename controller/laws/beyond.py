"""What a channel does beyond its T, and the one factor of its components' shares that leaves that to the neighbours.

A ledger that is sent more than it can do waits whatever its shares are, so its need says nothing of what it is owed.
Its throughput does, once that has been more than T: with ``beyond: neighbours`` all its components then have the same
factor on their default share, and the factor at which A is a little more than T is searched for. A channel that does no
more than T, because no more is sent or because no share brings more, is not bounded.

What a channel was kept from doing while it did less than T is owed to its users: a debt, worked off by what it does
beyond T. Only from then on does that show that more is sent than is owed.

The search goes in legs: a factor, and A under it from block to block. A grows with about the same power of the factor
everywhere, so each leg says at which factor A would be what is aimed at: the better the longer it lasts, and the worse
the farther off that is. All legs together say it best. The factor is moved when A is known to be off, by as much as
that is known: soon while A is far off, ever more rarely the longer it is near. A leg says more than those that lie
beyond it. When A changes within a leg, or host or neighbours do, what is known is forgotten.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from qioi.model import ChannelReading

#: What A is to be, to T; and what is near enough to it, as the logarithm of A.
AIM, BAND = 1.07, 0.05
#: A above T by this factor shows that more is sent than is owed. Where the host is full, after these seconds only: what
#: has piled up before a raise is worked off faster than it was sent.
SURPLUS, PROVEN = 1.13, 10.0
#: Debts, in seconds of T: the largest one, since users give up and a closed loop has no more than its clients; and one
#: that is none, since blocks and noise make as much of nothing. The seconds in which one is forgotten to the e-th part.
DEBT, NO_DEBT, FORGOTTEN = 10.0, 0.5, 300.0
#: Seconds after a move from which on its effect is seen; of the shortest leg.
SETTLE, SHORT = 1.0, 1.5
#: Seconds of a leg after which less may be given; and where A is far above T, by this part and more.
LONG, SOON, FAR = 5.0, 3.0, 0.3
#: A's noise, as a part of it, over one second; over more it falls with the root of the time.
NOISE = 0.25
#: Noises by which A is to change within a leg until that is no noise.
CHANGED = 3.0
#: A grows with this power of the factor, by experience; and by which part of a distance that may be wrong. Downwards
#: that is all of it: a share may be far too high, and A the same over much of what is too high.
POWER, UPWARDS, DOWNWARDS = 0.6, 0.3, 1.0
#: Noises by which a leg's A is off that is sure of the direction, and the part of its distance that others must allow.
SURE, AGREES = 1.5, 0.3
#: What is known gets worse with time: the logarithm of a factor, per second.
DRIFT = 0.003
#: The largest factor of one move, and that of the first one downwards: where a share is too high, A says little of it.
STEP, DOWN = 4.0, 3.0
#: Seconds without an overdue block after which the channel is stalled, and has what it needs.
STALLED = 3.0
#: Seconds of blocks that are remembered.
KEPT = 60.0


class Block(NamedTuple):
    """The last block that was seen in a period: its time in s, and the transactions that were committed by then."""

    time: float
    total: int


class Rate(NamedTuple):
    """A over some seconds that end now, in transactions per second."""

    value: float
    seconds: float

    @property
    def noise(self) -> float:
        """What it may be off by, as a part of it."""
        return NOISE / math.sqrt(self.seconds)


class Leg(NamedTuple):
    """What a factor has shown: the factor that is wanted, both as logarithms, the variance of that, and until when.

    ``noise`` is that of A.
    """

    here: float
    wanted: float
    noise: float
    variance: float
    until: float

    def agrees(self, legs: tuple[Leg, ...], now: float) -> bool:
        """Whether other legs together say the same of the direction, where this one is sure of it."""
        if not legs or abs(self.wanted - self.here) * POWER < max(BAND, SURE * self.noise):
            return True
        return (together((*legs, self), now)[0] - self.here) / (self.wanted - self.here) > AGREES


class State(NamedTuple):
    """What else there is in a period: whether the host has room, and factors of components' shares on their defaults.

    ``in_force`` is the largest, ``most`` what the ceiling allows.
    """

    room: bool
    in_force: float
    most: float


class Beyond(Struct, frozen=True):
    """One channel's, with all that is remembered; no I/O, no clock.

    ``factor`` is what its components have of their default share; ``None``: as much as they need. ``since`` is when
    the leg began, ``down`` the least distance of the next move downwards, as a logarithm. ``more_since`` is
    since when it has done more than T without a bound. ``owed``, ``in_force`` and ``room`` are of the period before.
    ``debt`` is in transactions, ``paid`` since when there is none.
    """

    factor: float | None = None
    since: float = -math.inf
    owed: float = 0.0
    in_force: float = 1.0
    room: bool = True
    blocks: tuple[Block, ...] = ()
    legs: tuple[Leg, ...] = ()
    down: float = 0.0
    more_since: float | None = None
    debt: float = 0.0
    paid: float = -math.inf

    def step(self, now: float, owed: float, reading: ChannelReading, state: State) -> Beyond:
        """Take one period in; ``owed`` is T."""
        one = self._seeing(now, owed, reading, state)
        if (reading.silence or 0.0) > STALLED:
            return replace(one, factor=None, since=now, blocks=one.blocks[-1:], legs=(), down=0.0, more_since=None)
        rate = rate_of(one.blocks, one.since + SETTLE, now)
        if rate is None or rate.seconds < max(SHORT, 2.5 * reading.interval):
            return one
        if rate.seconds >= 2 * LONG and (late := changed(one.blocks, rate, now)) is not None:
            one, rate = replace(one, since=now - late.seconds - SETTLE, legs=()), late
        if one.factor is None:
            one = one._watching(now, rate)
            if one.more_since is None or now - one.more_since < (0.0 if state.room else PROVEN):
                return one
            one = replace(one, factor=max(1.0, state.in_force), down=math.log(DOWN), more_since=None)
        return one._with_room(now, rate, state) if state.room else one._search(now, rate, state)

    def _seeing(self, now: float, owed: float, reading: ChannelReading, state: State) -> Beyond:
        """Note the newest block. A leg ends when neighbours come or go, T is changed, or shares are moved by others."""
        blocks, total, debt = self.blocks, reading.committed, self.debt
        if total is not None and reading.age is not None and (not blocks or total != blocks[-1].total):
            block = Block(now - reading.age, total)
            if blocks and total > blocks[-1].total:
                debt = self._indebted(block, owed, state)
            kept = (one for one in blocks if one.time >= now - KEPT and one.total < total)
            blocks = (*kept, block)
        paid = self.paid if debt <= owed * max(NO_DEBT, reading.interval) else now
        moved = self.factor is None and not 1 / 1.05 < state.in_force / self.in_force < 1.05
        one = replace(self, blocks=blocks, owed=owed, in_force=state.in_force, room=state.room, debt=debt, paid=paid)
        if moved or state.room != self.room or owed != self.owed:
            return replace(one, since=now, legs=())
        return one

    def _indebted(self, block: Block, owed: float, state: State) -> float:
        """Give the debt after a block. Where there is room, who does less than T is sent no more."""
        before = self.blocks[-1]
        seconds = block.time - before.time
        more = owed * seconds - (block.total - before.total)
        if self.room and state.room:
            more = min(0.0, more)
        return min(DEBT * owed, max(0.0, self.debt * math.exp(-seconds / FORGOTTEN) + more))

    def _watching(self, now: float, rate: Rate) -> Beyond:
        """Note since when more is done than is owed, over the whole leg and of late, and without a debt."""
        least, more = SOON, False
        if self.paid > self.since + SETTLE:  # what is left of a debt shows in the first seconds without it
            least, rate = LONG, rate_of(self.blocks, self.paid, now) or Rate(0.0, SHORT)
        late = rate_of(self.blocks, max(now - LONG, self.paid), now)
        if late is not None and rate.seconds >= least:
            more = min(late.value, rate.value) > SURPLUS * self.owed * (1 + rate.noise)
        return replace(self, more_since=(now if self.more_since is None else self.more_since) if more else None)

    def _with_room(self, now: float, rate: Rate, state: State) -> Beyond:
        """Follow shares that go back; who does about T where there is room is sent no more."""
        late = rate_of(self.blocks, now - 2 * LONG, now)
        if late is not None and min(rate.seconds, late.seconds) >= LONG and late.value < AIM * self.owed:
            return replace(self, factor=None)
        return replace(self, factor=max(1.0, min(self.factor or 1.0, state.in_force)))

    def _search(self, now: float, rate: Rate, state: State) -> Beyond:
        """Move the factor if A is known to be off."""
        here = math.log(self.factor or 1.0)
        leg = leg_of(here, rate, self.owed, now)
        legs = self.legs if leg.agrees(self.legs, now) else ()
        wanted, variance = together((*legs, leg), now)
        off, doubt = POWER * (wanted - here), min(rate.noise, POWER * math.sqrt(variance))
        if off > max(BAND, doubt):
            moved, down = min(wanted - here, math.log(STEP)), 0.0
            kept = tuple(one for one in legs if one.here > here)
        elif off < -max(BAND, doubt) and rate.seconds >= (SOON if off < -FAR else LONG) and here > 0:
            moved = -max(here - wanted, self.down)
            down = min(2 * -moved, math.log(STEP))  # the next one goes farther, if this one does not show in A
            kept = tuple(one for one in legs if one.here < here)
        else:
            return self
        factor = max(1.0, math.exp(here + moved))
        if factor >= state.most:
            return replace(self, factor=None, since=now, legs=(), down=0.0)
        return replace(self, factor=factor, since=now, legs=(*kept, leg), down=down)


def leg_of(here: float, rate: Rate, owed: float, now: float) -> Leg:
    """Say what a leg shows at the logarithm ``here`` of the factor."""
    off = math.log(AIM * owed / max(rate.value, owed / 100)) / POWER
    wrong = off * (UPWARDS if off > 0 else DOWNWARDS)
    return Leg(here, here + off, rate.noise, (rate.noise / POWER) ** 2 + wrong**2, now)


def together(legs: tuple[Leg, ...], now: float) -> tuple[float, float]:
    """Give what legs show together, and the variance of that."""
    weights = [1 / (one.variance + (DRIFT * (now - one.until)) ** 2) for one in legs]
    total = sum(weights)
    return sum(one.wanted * weight for one, weight in zip(legs, weights, strict=True)) / total, 1 / total


def changed(blocks: tuple[Block, ...], rate: Rate, now: float) -> Rate | None:
    """Give A of late, if it is no longer what it was."""
    for seconds in (2 * SHORT, LONG):
        late = rate_of(blocks, now - seconds, now)
        if late is not None and late.seconds >= SHORT and abs(late.value / rate.value - 1) > CHANGED * late.noise:
            return late
    return None


def rate_of(blocks: tuple[Block, ...], start: float, now: float) -> Rate | None:
    """Give A from the first block since ``start`` to the last; a silence that is longer than any before counts."""
    inside = [one for one in blocks if one.time >= start]
    if len(inside) < 2:
        return None
    longest = max(after.time - before.time for before, after in pairwise(inside))
    seconds = inside[-1].time - inside[0].time + max(0.0, now - inside[-1].time - longest)
    return Rate((inside[-1].total - inside[0].total) / seconds, seconds) if seconds > 0 else None
