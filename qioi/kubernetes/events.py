"""What is told on the pods whose shares are moved: once for each change of state, however many steps it takes.

Interference is detected at a pod's first raise. Its shares are told as raised once they are twice what was told last
and have stood for :data:`STANDS` seconds, and it is released when they have been as found for as long: what is
released and raised again sooner is one and the same interference. How tellings become objects is the correlator's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from qioi.kubernetes.pods import Pod
from qioi.show.snapshot import ComponentState

#: Seconds after which a state counts as lasting.
STANDS = 10.0
#: A share by this factor above the last one told is told again.
TELL = 2.0


@dataclass(frozen=True, slots=True)
class Telling:
    """Something to be told on a pod; ``reason`` is one word of the API's, ``wall`` in seconds since the epoch."""

    pod: Pod
    reason: str
    message: str
    wall: float


@dataclass(slots=True)
class _Raised:
    """A pod that has more than it was found with: the share told last, the most of all, and since when it has that."""

    pod: Pod
    told: int
    most: int
    since: float
    back: float | None = None  # since when its share is as found again


class Teller:
    """Looks at every period's outcome; remembers nothing of pods that have what they were found with."""

    def __init__(self) -> None:
        self._raised: dict[str, _Raised] = {}

    def step(
        self, components: Iterable[ComponentState], pods: Mapping[str, Pod], now: float, wall: float
    ) -> list[Telling]:
        """Say what is news at the monotonic time ``now``. A share that somebody else has changed is no news of ours."""
        for gone in [name for name, one in self._raised.items() if name not in pods or pods[name].uid != one.pod.uid]:
            del self._raised[gone]
        told = []
        for one in components:
            if one.share is None or one.original is None or one.problem is not None:
                continue
            known = self._raised.get(one.name)
            if known is None:
                if one.share > one.original and one.name in pods:
                    self._raised[one.name] = _Raised(pods[one.name], one.share, one.share, now)
                    message = f"shares {one.original} -> {one.share}: {one.reason}"
                    told.append(Telling(pods[one.name], "InterferenceDetected", message, wall))
            elif one.share <= one.original:
                known.back = now if known.back is None else known.back
                if now - known.back >= STANDS:
                    del self._raised[one.name]
                    message = f"shares {known.most} -> {one.share}, as found"
                    told.append(Telling(known.pod, "InterferenceReleased", message, wall))
            elif self._has_grown(known, one.share, now):
                message = f"shares {known.told} -> {one.share}: {one.reason}"
                known.told = one.share
                told.append(Telling(known.pod, "SharesRaised", message, wall))
        return told

    def _has_grown(self, known: _Raised, share: int, now: float) -> bool:
        """Take in a raised share; say whether it is far above the one told, and has stopped growing a while ago."""
        known.back = None
        if share > known.most:
            known.most, known.since = share, now
        return share >= TELL * known.told and now - known.since >= STANDS
