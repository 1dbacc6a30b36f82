"""Write to the API in a thread of its own, so that the loop never waits for a server."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from qioi.kubernetes.absence import Absences
from qioi.kubernetes.client import Api, ApiError
from qioi.kubernetes.correlator import Correlator, Write
from qioi.kubernetes.events import Telling
from qioi.kubernetes.policies import Judged
from qioi.kubernetes.reports import Said, Sight, document, due

log = logging.getLogger("qioi")

#: Seconds between two rounds.
EVERY = 1.0
#: HTTP statuses of an event that does not exist, and of a request that may be repeated later.
NOT_FOUND = 404
TOO_MANY = 429


def manager_of(node: str) -> str:
    """Give the field manager of a node's daemon; the API allows 128 characters."""
    return f"qioi-{node}"[:128]


class Reporter:
    """Applies statuses and posts events of this node."""

    def __init__(self, api: Api, node: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._manager = manager_of(node)
        self._absences = Absences(node)
        self._clock = clock
        self._sights: Mapping[str, Sight] = {}
        self._said: dict[str, Said] = {}
        self._judged: dict[str, Judged] = {}
        self._events = Correlator(node)
        self._told: deque[Telling] = deque()  # from the loop's thread to the correlator in this one
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="qioi-reporter", daemon=True)
        #: Why the last write failed; ``None`` if it succeeded.
        self.problem: str | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def offer(self, sights: Mapping[str, Sight]) -> None:
        """Replace what this node reports, by the policies' paths."""
        self._sights = sights

    def tell(self, tellings: Iterable[Telling]) -> None:
        """Queue events on pods."""
        self._told.extend(tellings)

    def close(self) -> None:
        """Post the events that may be sent, remove this node's entries, and end; this takes at most a few seconds."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=12.0)
        if not self._thread.is_alive():  # a thread that waits for a slow server still has the events
            self._post_events()
        for path, said in self._said.items():
            if said.body and not self._try(partial(self._apply, path, document(self._judged[path], {}))):
                return

    def _run(self) -> None:
        while not self._stop.wait(EVERY):
            try:
                self._round()
            except Exception:  # no status or event may end the thread
                log.exception("kubernetes status")

    def _round(self) -> None:
        now, wall = self._clock(), time.time()
        sights = self._sights
        for path in [
            path for path, said in self._said.items() if path not in sights or sights[path].judged.uid != said.uid
        ]:
            del self._said[path]  # the policy is gone together with its status, even if another has its name
        for path, sight in sights.items():
            new = due(sight, self._said.get(path), now, wall)
            if new is None:
                continue
            said = self._said.setdefault(path, Said(uid=sight.judged.uid))
            self._judged[path] = sight.judged
            if self._try(partial(self._apply, path, new)):
                said.body, said.rows, said.at = new, sight.rows, now
            else:
                said.failed_at = now
                return
        for judged, node in self._absences.lost(sights.values(), now) if self.problem is None else ():
            log.info("%s/%s: node %s is lost: its entries are removed", judged.namespace, judged.name, node)
            empty = document(judged, {})
            if not self._try(partial(self._api.apply_status, judged.path, empty, manager_of(node))):
                return
        self._post_events()

    def _apply(self, path: str, new: dict[str, Any]) -> None:
        self._api.apply_status(path, new, self._manager)

    def _post_events(self) -> None:
        while self._told:
            self._events.take(self._told.popleft())
        while (write := self._events.next(self._clock())) is not None:
            if not self._try(partial(self._post, write)):
                return

    def _post(self, write: Write) -> None:
        """Make one request for an event. ApiError: the caller repeats it later, unless it is final."""
        try:
            self._api.request(write.verb, write.method, write.path, {}, write.body, write.kind)
        except ApiError as error:
            if write.method == "PATCH" and error.status == NOT_FOUND:
                self._events.lost(write)
                return
            if is_final(error):
                self._events.sent(write, self._clock())
            raise
        self._events.sent(write, self._clock())

    def _try(self, write: Callable[[], object]) -> bool:
        """Write; return whether the write is done, or refused for good, so that it is not repeated."""
        try:
            write()
        except ApiError as error:
            self.problem = str(error)
            if not is_final(error):
                self._absences.forget()  # nobody else may have been able to write either
            return is_final(error)
        self.problem = None
        return True


def is_final(error: ApiError) -> bool:
    """Whether the server would refuse the same request again."""
    return 400 <= error.status < 500 and error.status != TOO_MANY
