"""Events on the pods whose shares are moved, few enough to be read.

One when interference is answered, one when a share has doubled since or its release has begun, one when it is back; per
pod at most one in :data:`PAUSE` seconds, but the last one always.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from qioi.kubernetes.pods import Pod
from qioi.kubernetes.reports import stamp

PAUSE = 2.0
#: A share by this factor above the last one told is told again.
TELL = 2.0


@dataclass(frozen=True, slots=True)
class Told:
    """What was told of one component last."""

    share: int
    at: float


class EventWriter:
    """Makes events of changes of shares; whoever posts them does so in its own time."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._told: dict[str, Told] = {}
        self._number = 0

    def change(
        self, component: str, pod: Pod, original: int, before: int, share: int, reason: str, wall: float
    ) -> tuple[str, dict[str, Any]] | None:
        """Give the event for a change, and where it is to be posted; ``None`` if it is no news."""
        told = self._told.get(component)
        if share == original:
            if told is None:
                return None
            del self._told[component]
            return self._event(pod, "InterferenceReleased", f"shares {before} -> {share}, as found", wall)
        if told is not None and (share < TELL * told.share or wall - told.at < PAUSE):
            return None
        self._told[component] = Told(share, wall)
        what = "InterferenceDetected" if told is None else "SharesRaised"
        return self._event(pod, what, f"shares {before} -> {share}: {reason}", wall)

    def forget(self, component: str) -> None:
        """Forget a component that is gone."""
        self._told.pop(component, None)

    def _event(self, pod: Pod, reason: str, message: str, wall: float) -> tuple[str, dict[str, Any]]:
        self._number += 1
        name = f"{pod.name[:200]}.{int(wall * 1e6):x}{os.getpid() & 0xFFF:x}{self._number & 0xFFF:x}"
        return f"/api/v1/namespaces/{pod.namespace}/events", {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": pod.namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name,
                               "uid": pod.uid},
            "reason": reason,
            "message": message[:1024],
            "type": "Normal",
            "count": 1,
            "firstTimestamp": stamp(wall),
            "lastTimestamp": stamp(wall),
            "source": {"component": "qioi", "host": self._node},
            "reportingComponent": "qioi.io/daemon",
            "reportingInstance": self._node,
        }  # fmt: skip
