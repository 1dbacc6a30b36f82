"""Turn events to tell into few requests to the API server, in the manner of client-go's recorder.

A pod has one Event for each reason while the server keeps it. A repeated event is counted in it (``count``,
``lastTimestamp``, the newest ``message``). Tokens bound the rate of requests. Each pod has :data:`POD` tokens, and one
more in :data:`POD_REFILL` seconds (client-go: 25 for each object, refilled as slowly); the node has :data:`NODE`, and
one more in :data:`NODE_REFILL` seconds. Events that wait are counted together, with the newest message.

The module has no I/O and no clock: times are the monotonic clock's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qioi.kubernetes.client import STRATEGIC
from qioi.kubernetes.events import Telling
from qioi.kubernetes.reports import stamp

POD, POD_REFILL = 6, 300.0
#: The node's tokens suffice at first for one event on each pod of a usual node.
NODE, NODE_REFILL = 50, 5.0
#: Seconds that an API server keeps an event after its last change (kube-apiserver --event-ttl).
KEPT = 3600.0
#: Most tellings that wait; beyond them the first in the queue is dropped.
WAITING = 256

Key = tuple[str, str]  # a pod's uid, and a reason


@dataclass(slots=True)
class Bucket:
    """A token bucket: full at first, refilled by one token in ``refill`` seconds."""

    most: int
    refill: float
    tokens: float = 0.0
    at: float | None = None

    def level(self, now: float) -> float:
        """Give the number of tokens."""
        if self.at is None:
            return self.most
        return min(self.most, self.tokens + (now - self.at) / self.refill)

    def take(self, now: float) -> None:
        """Take one token."""
        self.tokens, self.at = self.level(now) - 1, now


@dataclass(slots=True)
class _Waiting:
    """The newest telling for one reason, the time of the first one, and their number.

    ``name`` is the Event's once it was to be made: where the server's answer is lost, the next request is for the same.
    """

    telling: Telling
    first: float  # in seconds since the epoch
    count: int = 1
    name: str = ""


@dataclass(slots=True)
class _Series:
    """An event on the server; ``last`` is when it last changed."""

    path: str
    count: int
    last: float


@dataclass(frozen=True, slots=True)
class Write:
    """One request to make."""

    key: Key
    verb: str
    method: str
    path: str
    body: Mapping[str, Any]
    kind: str


@dataclass(slots=True)
class Correlator:
    """Gives the next request of ``node``."""

    node: str
    _waiting: dict[Key, _Waiting] = field(default_factory=dict)
    _series: dict[Key, _Series] = field(default_factory=dict)
    _pods: dict[str, Bucket] = field(default_factory=dict)
    _budget: Bucket = field(default_factory=lambda: Bucket(NODE, NODE_REFILL))
    _number: int = 0

    def take(self, telling: Telling) -> None:
        """Take in a telling to send."""
        key = telling.pod.uid, telling.reason
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.telling, waiting.count = telling, waiting.count + 1
            return
        self._waiting[key] = _Waiting(telling, telling.wall)
        if len(self._waiting) > WAITING:
            del self._waiting[next(iter(self._waiting))]

    def next(self, now: float) -> Write | None:
        """Give the request to make now, if any; the caller then calls :meth:`sent`, :meth:`lost` or :meth:`put_off`."""
        if not self._waiting or self._budget.level(now) < 1:
            return None
        for key, waiting in self._waiting.items():
            tokens = self._pods.get(key[0])
            if tokens is None or tokens.level(now) >= 1:
                return self._write(key, waiting, now)
        return None

    def sent(self, write: Write, now: float) -> None:
        """Note that the server has accepted a request, or will never accept it."""
        waiting = self._waiting.pop(write.key)
        if write.method == "POST":
            self._forget(now)
            path = f"{write.path}/{write.body['metadata']['name']}"
            self._series[write.key] = _Series(path, waiting.count, now)
        else:
            series = self._series[write.key]
            series.count, series.last = series.count + waiting.count, now
        self._pods.setdefault(write.key[0], Bucket(POD, POD_REFILL)).take(now)
        self._budget.take(now)

    def lost(self, write: Write) -> None:
        """Note that the event to add to is gone, so that the next request makes another one."""
        self._series.pop(write.key, None)

    def put_off(self, write: Write) -> None:
        """Note that the server has not answered a request, so that it comes after all others."""
        self._waiting[write.key] = self._waiting.pop(write.key)

    def _forget(self, now: float) -> None:
        """Forget events that the server has dropped, and buckets that are full again."""
        self._series = {key: one for key, one in self._series.items() if now - one.last < KEPT}
        self._pods = {uid: one for uid, one in self._pods.items() if one.level(now) < POD}

    def _write(self, key: Key, waiting: _Waiting, now: float) -> Write:
        telling, series = waiting.telling, self._series.get(key)
        message, last = telling.message[:1024], stamp(telling.wall)
        if series is not None and now - series.last < KEPT:
            body = {"count": series.count + waiting.count, "lastTimestamp": last, "message": message}
            return Write(key, "patch", "PATCH", series.path, body, STRATEGIC)
        pod = telling.pod
        if not waiting.name:
            self._number += 1
            stem = pod.name[:200].rstrip("-.")  # neither may stand before the dot
            waiting.name = f"{stem}.{int(telling.wall * 1e6):x}{os.getpid() & 0xFFF:x}{self._number & 0xFFF:x}"
        path = f"/api/v1/namespaces/{pod.namespace}/events"
        return Write(key, "post", "POST", path, {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": waiting.name, "namespace": pod.namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name,
                               "uid": pod.uid},
            "reason": telling.reason,
            "message": message,
            "type": "Normal",
            "count": waiting.count,
            "firstTimestamp": stamp(waiting.first),
            "lastTimestamp": last,
            "source": {"component": "qioi", "host": self.node},
            "reportingComponent": "qioi.io/daemon",
            "reportingInstance": self.node,
        }, "application/json")  # fmt: skip
