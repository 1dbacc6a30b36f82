"""A server that refuses or fails to resize pods, and a node whose pods' requests are raised there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from k8s_objects import pod_object
from k8s_toy_server import Quiet, answering

from qioi.controller.guard.journal import Journal
from qioi.kubernetes.client import Api, Object
from qioi.kubernetes.pods import slim
from qioi.kubernetes.requests import ORIGINAL_ANNOTATION
from qioi.kubernetes.resizer import NAME, Resizer
from qioi.kubernetes.resizes import entry_of, left_over

#: A minimum of the namespace's LimitRange; a webhook's words may be any.
LIMITED = 403, 'pods "peer0" is forbidden: minimum cpu usage per Container is 200m, but request is 100m'
INVALID = 422, 'Pod "peer0" is invalid: spec: Forbidden: pod resize is not allowed'
OUTDATED = 422, "the server rejected our request due to an error in our request"
#: A webhook that does not answer, or that takes a code of its own choice.
FAILING = 500, 'Internal error occurred: failed calling webhook "w": context deadline exceeded'
SLOW = 504, "Timeout: request did not complete within requested timeout"
DENIED = 422, 'admission webhook "w" denied the request: no resizes here'


class Server:
    """Refuses each resize with ``status`` and ``message``, and takes all else.

    ``forbidden``: it refuses each change of a pod, and says that there is no right to any. ``all``: the status of all
    changes, if there is one.
    ``untold``: it does not say whether there is. ``later``: when to come back (Retry-After).
    """

    def __init__(self) -> None:
        self.status, self.message = INVALID
        self.forbidden = self.untold = False
        self.all: int | None = None
        self.later = ""


@contextmanager
def refusing(server: Server) -> Iterator[Api]:
    """Answer as ``server`` does."""

    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            status = server.status if self.path.endswith("/resize") else 200
            self.answer({"message": server.message}, 403 if server.forbidden else server.all or status, server.later)

        def do_POST(self) -> None:
            self.answer({"status": {"allowed": not server.forbidden}}, 503 if server.untold else 200)

    with answering(Answer) as api:
        yield api


def raised(name: str, original: str = "100m", cpu: str = "400m", **more: Any) -> Object:
    """Give a pod whose request was 100m, as its annotation says or hides."""
    noted = {ORIGINAL_ANNOTATION: original}
    made = pod_object(name, uid=name, **{"annotations": noted, "labels": {"qioi.io/role": "peer"}, **more})
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return slim(made)


class Node:
    """The raised pods of one node, and a resizer that restores them, by a clock of the test's."""

    def __init__(self, api: Api, folder: Path, *names: str) -> None:
        self.api, self.now, self._folder = api, 0.0, folder
        self.pods = {name: raised(name) for name in names}
        self.followed, self.covered = True, set(names)
        self.resizer = Resizer(
            api, folder, lambda: self.pods, lambda: self.followed, lambda: self.now, lambda uid: uid in self.covered
        )

    def leave_in_journal(self, name: str) -> None:
        """Have a daemon before this one left a raised pod."""
        known = left_over(self.pods[name])
        assert known is not None
        Journal(self._folder, name=NAME).store([entry_of(known)])
        self.resizer.load()

    def asked(self) -> int:
        """Count the resizes that were asked for."""
        return sum(count for (verb, _), count in self.api.requests.items() if verb == "resize")

    def times(self, end: float) -> list[float]:
        """Have a round in each second up to ``end``, and say in which of them a resize was asked for."""
        found = []
        while self.now < end:
            before = self.asked()
            self.resizer.round(self.now)
            found += [self.now] * (self.asked() - before)
            self.now += 1.0
        return found
