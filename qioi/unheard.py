"""Channels of which nothing was heard yet: for which of them their components' work stands in for commits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from qioi.controller.law import HostLoad
from qioi.controller.unheard import Unheard
from qioi.types import ChannelReading, Component, DelayReading, Role

log = logging.getLogger("qioi")


class AllUnheard:
    """All channels' whose law is not the paper's: that one has no use for it."""

    def __init__(self, is_literal: Callable[[str], bool]) -> None:
        self._is_literal = is_literal
        self._known: dict[str, Unheard] = {}

    def step(
        self,
        now: float,
        components: Iterable[Component],
        channels: Mapping[str, ChannelReading],
        seen: Iterable[str],
        delays: Mapping[str, DelayReading],
        host: HostLoad | None,
    ) -> frozenset[str]:
        """Take one period in; name the channels that made no commit yet, but are taken to be sent to.

        ``seen`` names channels that commits were seen of, those without a policy too. What a component does may be for
        any channel that it serves, so its work says something of a silent one only while all of them are silent.
        """
        silent = {name for name, one in channels.items() if one.age is None}
        if not silent:  # as it nearly always is
            self._known.clear()
            return frozenset()
        # An endpoint names channels that have committed before the start too.
        heard = {name for name in seen if name not in channels} | (channels.keys() - silent)
        its = [one for one in components if one.role is not Role.CLIENT and one.name in delays]
        its = [one for one in its if heard.isdisjoint(one.channels or heard)]
        before, self._known = self._known, {}
        for name in sorted(silent):
            if self._is_literal(name):
                continue
            works = [delays[one.name] for one in its if not one.channels or name in one.channels]
            known = before.get(name, Unheard())
            self._known[name] = after = known.step(now, works, host)
            if after.presumed and not known.presumed:
                log.info("channel %s: no commit was seen yet, but its components work and wait: a trial begins", name)
            elif known.presumed and not after.presumed:
                log.info("channel %s: the trial has brought no commit: nobody sends, or no share helps", name)
        return frozenset(name for name, one in self._known.items() if one.presumed)
