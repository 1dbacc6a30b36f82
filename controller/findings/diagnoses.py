"""What every channel waits for, found once a period and said when it changes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from qioi.controller.findings.bottleneck import HOPELESS, Bottleneck, Diagnosis, Kind, is_stalled, suffers
from qioi.controller.laws.law import Seen
from qioi.controller.laws.need import is_below
from qioi.controller.laws.thresholds import Threshold
from qioi.model import ChannelReading, Component, DelayReading, HostLoad, Stalls
from qioi.model.serving import Serving

log = logging.getLogger("qioi")

#: What is worth a line in the log: the rest comes and goes with every neighbour, and is what the daemon is for.
SAID = HOPELESS | {Kind.LEDGER, Kind.ELSEWHERE}


class Diagnoses:
    """All channels'."""

    def __init__(self) -> None:
        self._known: dict[str, Diagnosis] = {}
        self._serving = Serving()

    def step(
        self,
        now: float,
        components: Collection[Component],
        channels: Mapping[str, ChannelReading],
        owed: Mapping[str, Threshold],
        delays: Mapping[str, DelayReading],
        host: HostLoad | None,
        stalls: Stalls,
    ) -> dict[str, Bottleneck]:
        """Take one period in; say what each channel that is owed anything waits for."""
        self._known = {channel: self._known.get(channel, Diagnosis()) for channel in owed}
        for channel, before in self._known.items():
            its = self._serving.names(channel, components)
            seen = see(now, channels.get(channel), owed[channel], host)
            after = before.step(seen, {name: delays[name] for name in its if name in delays}, stalls)
            self._known[channel] = after
            tell(channel, before.found, after.found)
        return {channel: one.found for channel, one in self._known.items()}


def see(now: float, reading: ChannelReading | None, owed: Threshold, host: HostLoad | None = None) -> Seen:
    """Put together what a channel does and what it is owed."""
    throughput, age = (reading.throughput, reading.silence) if reading else (None, None)
    return Seen(now, throughput, owed.value, age, host=host)


def anybody_suffers(now: float, channels: Mapping[str, ChannelReading], owed: Mapping[str, Threshold]) -> bool:
    """Whether a channel does less than it should, as far as channels tell."""
    return any(suffers(see(now, channels.get(channel), one)) for channel, one in owed.items())


def anybody_lacks(
    now: float,
    channels: Mapping[str, ChannelReading],
    owed: Mapping[str, Threshold],
    found: Mapping[str, Bottleneck],
) -> bool:
    """Whether a channel that commits is known to do less than it is owed for want of the CPU."""
    seen = {name: see(now, one, owed[name]) for name, one in channels.items() if name in owed}
    return any(found[name].kind is Kind.CPU and not is_stalled(one) and is_below(one) for name, one in seen.items())


def tell(channel: str, before: Bottleneck, after: Bottleneck) -> None:
    """Log a bottleneck that no share helps against, once, and its end."""
    if after.kind is before.kind:
        return
    if after.kind in SAID:
        log.log(logging.WARNING if after.kind in HOPELESS else logging.INFO, "channel %s: %s", channel, after.text)
    elif before.kind in SAID:
        log.info("channel %s: that is over: %s", channel, after.text)
