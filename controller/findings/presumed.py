"""Which channels make no commits, but are taken to be sent to, by what their components do (laws/unheard.py)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from qioi.controller.laws.need import commits
from qioi.controller.laws.unheard import LASTS, Unheard
from qioi.controller.period import Period
from qioi.model import Role

log = logging.getLogger("qioi")


class Presumed:
    """What is remembered of each silent channel. The paper's law has no use for it, so its channels are left out."""

    def __init__(self, is_literal: Callable[[str], bool]) -> None:
        self._is_literal = is_literal
        self._known: dict[str, Unheard] = {}

    def step(self, period: Period) -> frozenset[str]:
        """Take one period in; name the channels that make no commits, but are taken to be sent to.

        What a component does may be for any channel that it serves, those without a policy too, so its work says
        something of a silent one only while all of them are silent.
        """
        channels, delays = period.channels, period.delays
        silent = {name for name, one in channels.items() if not commits(one)}
        if not silent:  # as it nearly always is
            self._known.clear()
            return frozenset()
        working = {name for name in period.heard if name not in channels} | (channels.keys() - silent)
        its = [one for one in period.components if one.role is not Role.CLIENT and one.name in delays]
        its = [one for one in its if working.isdisjoint(one.channels or working)]
        before, self._known = self._known, {}
        for name in sorted(silent):
            if self._is_literal(name):
                continue
            works = [delays[one.name] for one in its if not one.channels or name in one.channels]
            known = before.get(name, Unheard())
            lasts = LASTS if channels[name].age is None else 0.0
            self._known[name] = after = known.step(period.now, works, period.host, lasts)
            if after.presumed and not known.presumed:
                log.info("channel %s: no commit is seen, but its components work and wait: a trial begins", name)
            elif known.presumed and not after.presumed:
                log.info("channel %s: the trial has brought no commit: nobody sends, or no share helps", name)
        return frozenset(name for name, one in self._known.items() if one.presumed)
