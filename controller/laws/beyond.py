"""What a channel does beyond its T, and the one factor of its components' shares that leaves that to the neighbours.

A ledger that is sent more than it can do waits whatever its shares are, so its need says nothing of what it is owed.
Its throughput does, once that has been more than T: with ``beyond: neighbours`` all its components then have the same
factor on their default share, and the factor at which A is a little more than T is searched for. A channel that does no
more than T, because no more is sent or because no share brings more, is not bounded.

What a channel was kept from doing while it did less than T is owed to its users: a debt, worked off by what it does
beyond T. Only from then on does that show that more is sent than is owed.

When neighbours come its components have the factor that was enough beside the last ones, or one that is enough beside
most: T is owed at once. Where the host was full before, with a load's clients for instance, their coming shows in a
raise only. From there the search goes in legs: a factor, and A under it from block to block. All legs together say how
A grows with the factor (curve.py), and so at which one it would be what is aimed at. The factor is moved when A is
known to be off: sooner where A is far off, and upwards, than where it is near, and downwards only as far as is likely
enough. When A changes within a leg, or host or neighbours do, what is known is forgotten.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from qioi.controller.laws.curve import USUAL, Shown, fit, usual
from qioi.model import ChannelReading
from qioi.model.commits import counted_silence

#: What A is to be, to T; and what is near enough to it, as the logarithm of A.
AIM, BAND = 1.07, 0.07
#: A above T by this factor shows that more is sent than is owed; and the seconds for which that is remembered.
SURPLUS, REMEMBERED = 1.13, 10.0
#: Debts, in seconds of T: the largest one, since users give up and a closed loop has no more than its clients; and one
#: that is none, since blocks and noise make as much of nothing. The seconds in which one is forgotten to the e-th part.
DEBT, NO_DEBT, FORGOTTEN = 10.0, 0.5, 300.0
#: Seconds after a move from which on its effect is seen: a closed loop's latency has to become another one first. Those
#: of the shortest leg.
SETTLE, SHORT = 1.5, 1.5
#: Seconds of a leg at least until less is given than now; one at the ceiling may be short.
LESS = 2.5
#: Seconds over which A is taken at most to be of late, and at least to show that more is sent than is owed.
LONG, SOON = 5.0, 3.0
#: Shares that differ by this factor have been moved.
MOVED = 1.05
#: A's noise, as a part of it, over one second; over more it falls with the root of the time.
NOISE = 0.25
#: Noises by which A is to change within a leg until that is no noise.
CHANGED = 3.0
#: Noises by which a leg's A is off what all say together, until it is believed alone.
SURE = 2.0
#: The largest factor of one move upwards, and how many legs are remembered.
STEP, LEGS = 4.0, 6
#: A ceiling below which there is nothing to look for: a curve is not known by its one end.
NARROW = 1.1
#: With how many times the usual weight of neighbours it begins beside them.
AMPLE = 1.5
#: Which part of its doubt a move downwards allows for; and of which a move upwards has to be sure: T is owed.
CAUTION, RATHER = 0.25, 0.5
#: Seconds without an overdue block after which the channel is stalled, and has what it needs.
STALLED = 3.0
#: Seconds of blocks that are remembered.
KEPT = 60.0


class Block(NamedTuple):
    """The last block that was seen in a period: its time in s, and the transactions that were committed by then.

    ``source`` is who has counted them: totals of two sources can't be compared.
    """

    time: float
    total: int
    source: str = "log"


class Rate(NamedTuple):
    """A over some seconds that end now, in transactions per second."""

    value: float
    seconds: float

    @property
    def noise(self) -> float:
        """What it may be off by, as a part of it."""
        return NOISE / math.sqrt(self.seconds)


class State(NamedTuple):
    """What else there is in a period: whether the host has room, and factors of components' shares on their defaults.

    ``in_force`` is the largest, ``most`` what the ceiling allows.
    """

    room: bool
    in_force: float
    most: float


class Beyond(Struct, frozen=True):
    """One channel's, with all that is remembered; no I/O, no clock.

    ``factor`` is what its components have of their default share; ``None``: as much as they need. ``since`` is when the
    leg began, and ``legs`` are those before. ``more_at`` is when it was last seen to do more than T at the default
    share, where the host was full. ``owed``, ``in_force`` and ``room`` are of the period before. ``debt`` is in
    transactions, ``paid`` since when there is none. ``beside`` is the last factor that was looked for beside
    neighbours, ``alone`` is A where there was room, or more than T at the default share.
    """

    factor: float | None = None
    since: float = -math.inf
    owed: float = 0.0
    in_force: float = 1.0
    room: bool = True
    blocks: tuple[Block, ...] = ()
    legs: tuple[Shown, ...] = ()
    more_at: float = -math.inf
    debt: float = 0.0
    paid: float = -math.inf
    beside: float | None = None
    alone: float | None = None

    def step(self, now: float, owed: float, reading: ChannelReading, state: State) -> Beyond:
        """Take one period in; ``owed`` is T."""
        one = self._seeing(now, owed, reading, state)
        if (reading.silence or 0.0) > STALLED:
            return replace(one, factor=None, since=now, blocks=one.blocks[-1:], legs=(), more_at=-math.inf)
        rate = rate_of(one.blocks, one.since + SETTLE, now)
        if rate is None or rate.seconds < max(SHORT, 2.5 * reading.interval):
            return one
        if rate.seconds >= 2 * LONG and (late := changed(one.blocks, rate, now)) is not None:
            one, rate = replace(one, since=now - late.seconds - SETTLE, legs=()), late
        if one.factor is None:
            if not one._does_more(now, rate):
                return one
            if not state.room and state.in_force < MOVED:  # the default share leaves the neighbours theirs
                return one._greedy(now, rate)
            one = replace(one, factor=max(1.0, state.in_force))
        return one._with_room(now, rate, state) if state.room else one._search(now, rate, state)

    def _seeing(self, now: float, owed: float, reading: ChannelReading, state: State) -> Beyond:
        """Note the newest block.

        A leg ends when neighbours come or go, T is changed, shares are moved by others, or somebody else counts.
        """
        if self.blocks and self.blocks[-1].source != reading.source:
            return replace(self, blocks=(), since=now)._seeing(now, owed, reading, state)
        blocks, total, debt = self.blocks, reading.committed, self.debt
        if total is not None and reading.age is not None and (not blocks or total != blocks[-1].total):
            block = Block(now - reading.age, total, reading.source)
            if blocks and total > blocks[-1].total:
                debt = self._indebted(block, owed, state)
            kept = (one for one in blocks if one.time >= start_of(blocks, now - KEPT) and one.total < total)
            blocks = (*kept, block)
        paid = self.paid if debt <= owed * max(NO_DEBT, reading.interval) else now
        moved = self.factor is None and not 1 / MOVED < state.in_force / self.in_force < MOVED
        one = replace(self, blocks=blocks, owed=owed, in_force=state.in_force, room=state.room, debt=debt, paid=paid)
        if owed != self.owed:
            one = replace(one, beside=None, more_at=-math.inf)
        raised = moved and state.in_force > self.in_force and now - one.more_at <= REMEMBERED
        if raised or (self.factor is not None and self.room and not state.room):
            first = one._first(state)
            one = replace(one, factor=first, beside=first)
        if moved or state.room != self.room or owed != self.owed:
            return replace(one, since=now, legs=())
        return one

    def _first(self, state: State) -> float:
        """Give the factor with which to begin beside neighbours: rather too large than too small, as T is owed."""
        wanted = self.beside or state.most
        if self.beside is None and self.alone is not None:
            wanted = usual(self.alone, AMPLE * USUAL).factor(AIM * self.owed)
        return max(1.0, min(wanted, state.most))

    def _indebted(self, block: Block, owed: float, state: State) -> float:
        """Give the debt after a block. Where there is room, who does less than T is sent no more."""
        before = self.blocks[-1]
        seconds = block.time - before.time
        more = owed * seconds - (block.total - before.total)
        if self.room and state.room:
            more = min(0.0, more)
        return min(DEBT * owed, max(0.0, self.debt * math.exp(-seconds / FORGOTTEN) + more))

    def _does_more(self, now: float, rate: Rate) -> bool:
        """Whether more is done than is owed, over the whole leg and of late, and without a debt."""
        least = SOON
        if self.paid > self.since + SETTLE:  # what is left of a debt shows in the first seconds without it
            least, rate = LONG, rate_of(self.blocks, self.paid, now) or Rate(0.0, SHORT)
        late = rate_of(self.blocks, max(start_of(self.blocks, now - LONG), self.paid), now)
        if late is None or rate.seconds < least:
            return False
        return min(late.value, rate.value) > SURPLUS * self.owed * (1 + rate.noise)

    def _greedy(self, now: float, rate: Rate) -> Beyond:
        """Note A at the default share: the most of late, since it falls before a raise shows that neighbours came."""
        before = self.alone if self.alone is not None and now - self.more_at <= REMEMBERED else 0.0
        return replace(self, more_at=now, alone=max(before, rate.value))

    def _with_room(self, now: float, rate: Rate, state: State) -> Beyond:
        """Follow shares that go back; who does about T where there is room is sent no more."""
        late = rate_of(self.blocks, start_of(self.blocks, now - 2 * LONG), now)
        alone = rate.value if rate.seconds >= SOON else self.alone
        if late is not None and min(rate.seconds, late.seconds) >= LONG and late.value < AIM * self.owed:
            return replace(self, factor=None, alone=alone)
        return replace(self, factor=max(1.0, min(self.factor or 1.0, state.in_force)), alone=alone)

    def _search(self, now: float, rate: Rate, state: State) -> Beyond:
        """Move the factor if A is known to be off."""
        if state.most < NARROW:
            return self
        here, aim = self.factor or 1.0, AIM * self.owed
        leg = Shown(here, max(rate.value, self.owed / 100), rate.noise, now)
        legs = self.legs
        curve = fit((*legs, leg), state.most, self.alone)
        if legs and abs(math.log(curve.rate(here) / leg.rate)) > SURE * leg.noise:
            legs, curve = (), fit((leg,), state.most, self.alone)
        off, doubt = math.log(aim / curve.rate(here)), curve.doubt(here)
        if off > max(BAND, RATHER * doubt):
            if here >= state.most:
                return replace(self, factor=None, since=now, legs=())
            factor = min(curve.factor(aim), STEP * here, state.most)
        elif off < -max(BAND, doubt) and here > 1 and (rate.seconds >= LESS or here >= state.most):
            surely = aim * (1 + CAUTION * curve.doubt(max(1.0, curve.factor(aim))))
            factor = min(here, max(1.0, curve.factor(surely)))
        else:
            return self
        return replace(self, factor=factor, beside=factor, since=now, legs=(*legs, leg)[-LEGS:])


def changed(blocks: tuple[Block, ...], rate: Rate, now: float) -> Rate | None:
    """Give A of late, if it is no longer what it was."""
    for seconds in (2 * SHORT, LONG):
        late = rate_of(blocks, now - seconds, now)
        if late is not None and late.seconds >= SHORT and abs(late.value / rate.value - 1) > CHANGED * late.noise:
            return late
    return None


def start_of(blocks: tuple[Block, ...], start: float) -> float:
    """Give ``start``, or the third last block where that is earlier: A needs some, however rarely one is looked at."""
    return min(start, blocks[-3:][0].time) if blocks else start


def rate_of(blocks: tuple[Block, ...], start: float, now: float) -> Rate | None:
    """Give A from the first block since ``start`` to the last; a silence that is longer than any before counts."""
    inside = [one for one in blocks if one.time >= start]
    if len(inside) < 2:
        return None
    seconds = inside[-1].time - inside[0].time + counted_silence([one.time for one in inside], now)
    return Rate((inside[-1].total - inside[0].total) / seconds, seconds) if seconds > 0 else None
