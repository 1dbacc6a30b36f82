"""The law ``adaptive``: its constants, and what it carries from one period to the next."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from qioi.controller.laws.backoff import Backoff
from qioi.controller.laws.law import Seen
from qioi.controller.laws.need import QUIET, Filter, has_room, is_active, is_below, rates, weight


@dataclass(frozen=True, slots=True)
class Tuning:
    """Constants of the law; times in seconds, needs and host shares 0..1.

    Found by simulation (tests/controller/laws/test_closed_loop.py) and beside sysbench on two cores.
    """

    low: float = QUIET  # need below this: nothing waits that a share could help
    high: float = 0.20  # need above this, lasting or soon after an urgent raise: raise
    urgent: float = 0.35  # need above this, for a second, or for a moment where the host is full: raise
    fast: float = 0.3  # time constants of the two filters
    slow: float = 5.0
    still: float = 1e-6  # threads runnable, by the fast filter, below which a component has done nothing for 4 s
    lasts: float = 0.9  # a need that has lasted for a second, of a clock that may be late
    settle: float = 0.5  # between two raises, so that the second sees what the first has done
    step_cap: float = 8.0  # largest factor of one raise below the usual ceiling
    onset_step: float = 16.0  # first raise at an onset, in defaults: what this law had come to two periods later
    dead_band: float = 0.05  # smaller moves, as a share of the value, are not made
    surplus: float = 0.10  # A this far above T: the tenant has what it is owed
    hold: float = 10.0  # stale input: keep the share this long, then release
    release: float = 2.0  # time constant of the way back to the default
    room_for: float = 3.0  # room on the host for so long is believed
    back_off: float = 5.0  # first and longest time without a release after one that hurt
    back_off_max: float = 300.0
    probe_step: float = 0.05
    probe_every: float = 60.0
    probe_max: float = 3840.0


class Memory(NamedTuple):
    """All that the law carries from one period to the next. ``None``: not yet, or not now. Times are monotonic.

    A tuple: it is made anew for every component in every period, and a frozen dataclass takes five times as long.
    """

    share: float
    begun_at: float = -math.inf
    asked_at: float | None = None
    input_at: float = -math.inf  # when it last saw commits and delays; at first, when it began
    fast: Filter = Filter()
    slow: Filter = Filter()
    calm_at: float = -math.inf  # when the fast filter's need was last none to raise for
    room_since: float | None = None
    raised_at: float = -math.inf
    urgent_at: float = -math.inf  # the last raise that could not wait
    release: Backoff = Backoff()
    probe: Backoff = Backoff(until=math.inf)

    def after(self, seen: Seen, tuning: Tuning) -> Memory:
        """Feed the filters, and note how long there has been input and room."""
        now, delay = seen.now, seen.delay
        begun_at, input_at, fast, slow, calm_at = self.begun_at, self.input_at, self.fast, self.slow, self.calm_at
        if self.asked_at is None:
            begun_at = input_at = calm_at = now - (delay.interval if delay is not None else 0.0)
        if delay is not None and delay.interval > 0:
            run, wait = rates(delay, seen.host)
            fast = fast.add(run, wait, weight(delay.interval, tuning.fast))
            slow = slow.add(run, wait, weight(delay.interval, tuning.slow))
            if is_active(seen):
                input_at = now
        if fast.need <= (tuning.low if is_below(seen) else tuning.high):
            calm_at = now
        room_since = None
        if has_room(seen.host):
            room_since = now if self.room_since is None else self.room_since
        return Memory(  # by place, all of it: naming what changes takes three times as long
            self.share,
            begun_at,
            now,
            input_at,
            fast,
            slow,
            calm_at,
            room_since,
            self.raised_at,
            self.urgent_at,
            self.release,
            self.probe,
        )
