"""What every channel is owed, and on whose word: the configuration's, an operator's over the socket, or learned."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from msgspec import Struct

from qioi.controller.laws.learned import Evidence, Learner
from qioi.model import ChannelReading, Component, DelayReading, HostLoad
from qioi.model.serving import Serving

#: The word for a threshold that is learned.
AUTO = "auto"
#: What a policy says of its threshold: a number, or that it is learned; and if it says neither.
Said = tuple[float | None, bool]
NOTHING: Said = (None, False)


class Threshold(Struct, frozen=True):
    """One channel's. ``source`` is configuration, socket, auto, or none; ``evidence`` is that of a learned one."""

    value: float | None
    source: str
    evidence: Evidence | None = None

    @property
    def is_learned(self) -> bool:
        """Whether nobody has said a number."""
        return self.source == AUTO

    def beside(self, throughput: float | None) -> float | None:
        """Give what a law is to go by beside what the channel does, in transactions per second.

        Who does more than was learned is sent more by now, perhaps more than it gets done: that is no surplus.
        """
        if not self.is_learned or self.value is None or throughput is None:
            return self.value
        return max(self.value, throughput)


class Asks(Protocol):
    """What a policy says of its channel's threshold, in transactions per second; ``auto``: it is learned."""

    @property
    def threshold(self) -> float | None:
        """The number, if one is given."""
        ...

    @property
    def auto(self) -> bool:
        """Whether it is learned."""
        ...


class Thresholds:
    """What is owed in each channel; no I/O, no clock."""

    def __init__(self, policies: Mapping[str, Asks]) -> None:
        self._policies = dict(policies)
        #: An operator's words (None: learned), and what the configuration or a label said when they were said.
        self._set: dict[str, tuple[float | None, Said]] = {}
        #: By channel and source: a log counts invalid transactions too, an endpoint doesn't.
        self._learners: dict[tuple[str, str], Learner] = {}
        self._serving = Serving()

    def order(self, channel: str, value: float | None) -> None:
        """Set what a channel is owed until the next start, in transactions per second; ``None``: learn it.

        An order for a channel that has no policy is dropped.
        """
        if channel in self._policies:
            self._set[channel] = value, said(self._policies[channel])

    def adopt(self, policies: Mapping[str, Asks]) -> None:
        """Go on with other policies. An operator's word holds until something new is said.

        That its channel is gone for a while, or a label with its container, says nothing.
        """
        for channel, (_, before) in list(self._set.items()):
            if channel in policies and said(policies[channel]) not in (before, NOTHING):
                del self._set[channel]
        self._policies = dict(policies)
        self._learners = {key: one for key, one in self._learners.items() if key[0] in policies}

    def step(
        self,
        now: float,
        components: Collection[Component],
        readings: Mapping[str, ChannelReading],
        delays: Mapping[str, DelayReading],
        host: HostLoad | None,
    ) -> dict[str, Threshold]:
        """Take one period in; give what is owed in it."""
        after = {}
        for channel, policy in self._policies.items():
            ordered = channel in self._set
            value = self._set[channel][0] if ordered else policy.threshold
            if value is not None or not (ordered or policy.auto):
                source = "socket" if ordered else "configuration" if value is not None else "none"
                after[channel] = Threshold(value, source)
                continue
            reading = readings.get(channel)
            learner = self._learners.setdefault((channel, reading.source if reading else "log"), Learner())
            its = self._serving.names(channel, components)
            learner.observe(now, reading, [delays[name] for name in its if name in delays], host)
            after[channel] = Threshold(learner.threshold, AUTO, learner.evidence(now))
        return after


def said(policy: Asks) -> Said:
    """Give what a policy says of its threshold."""
    return policy.threshold, policy.auto
