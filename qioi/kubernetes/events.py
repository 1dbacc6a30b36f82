"""Choose the events on pods whose shares are moved: one for each change of state, however many steps it takes.

Interference is detected at a pod's first raise. The pod's shares are told as raised once they are twice those told last
and did not grow for :data:`STANDS` seconds. Interference is released once the shares were as found for as long; a pod
that is raised again before that is still in the same interference. Where a policy goes and its pod runs on,
interference is released at once, and so it is at the daemon's end. The correlator turns tellings into Event objects.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass

from qioi.kubernetes.pods import Pod
from qioi.show.snapshot import ComponentState

#: Seconds after which a state counts as lasting.
STANDS = 10.0
#: A share is told again when it exceeds the last one told by this factor.
TELL = 2.0


@dataclass(frozen=True, slots=True)
class Telling:
    """An event to tell on a pod; ``reason`` is one word, as the API wants, ``wall`` is in seconds since the epoch."""

    pod: Pod
    reason: str
    message: str
    wall: float


@dataclass(slots=True)
class _Raised:
    """A pod above the share it was found with: the share told last, the largest, and since when it has the largest.

    ``problem``: what keeps its share from being moved and put back, such as that somebody else has set it.
    """

    pod: Pod
    told: int
    most: int
    since: float
    back: float | None = None  # since when its share is back at the one found
    problem: str | None = None


class Teller:
    """Turns every period's outcome into tellings; holds only pods above the share they were found with."""

    def __init__(self) -> None:
        self._raised: dict[str, _Raised] = {}

    def step(
        self,
        components: Iterable[ComponentState],
        pods: Mapping[str, Pod],
        now: float,
        wall: float,
        running: Container[str] = (),
    ) -> list[Telling]:
        """Give the tellings of a period at the monotonic time ``now``. A foreign share is not told.

        ``running`` are the uids of pods that run, be they components or not.
        """
        told = self._forget_left(pods, wall, running)
        for one in components:
            known = self._raised.get(one.name)
            if known is not None:
                known.problem = one.problem
            if one.share is None or one.original is None or one.problem is not None:
                continue
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

    def _forget_left(self, pods: Mapping[str, Pod], wall: float, running: Container[str]) -> list[Telling]:
        """Forget pods that are no components; give the tellings of those that run on."""
        left = {name: one for name, one in self._raised.items() if name not in pods or pods[name].uid != one.pod.uid}
        self._raised = {name: one for name, one in self._raised.items() if name not in left}
        why = "no policy covers the pod"
        return [released(one, why, wall) for one in left.values() if one.pod.uid in running]

    def end(self, wall: float, is_back: Callable[[Pod], bool] = lambda _pod: True) -> list[Telling]:
        """Give the tellings of a daemon that ends, of pods whose shares are back. It has nothing to tell after that."""
        raised, self._raised = self._raised, {}
        back = [one for one in raised.values() if one.problem is None and is_back(one.pod)]
        return [released(one, "the daemon ends", wall) for one in back]

    def _has_grown(self, known: _Raised, share: int, now: float) -> bool:
        """Take in a raised share; return whether it is far above the one told, and stopped growing long enough ago."""
        known.back = None
        if share > known.most:
            known.most, known.since = share, now
        return share >= TELL * known.told and now - known.since >= STANDS


def released(one: _Raised, why: str, wall: float) -> Telling:
    """Tell that a pod's shares go back although it may still wait."""
    return Telling(one.pod, "InterferenceReleased", f"shares {one.most} -> as found: {why}", wall)
