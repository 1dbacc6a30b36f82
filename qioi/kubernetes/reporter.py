"""Write to the API in a thread of its own, so that the loop never waits for a server."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from http import HTTPStatus

from qioi.kubernetes.absence import LOOK, Absences
from qioi.kubernetes.client import Api, ApiError
from qioi.kubernetes.correlator import Correlator, Write
from qioi.kubernetes.events import Telling
from qioi.kubernetes.policies import Judged
from qioi.kubernetes.reports import HEARTBEAT, PAUSE, VERDICTS, Said, Sight, document, due, due_verdict, settled, words

log = logging.getLogger("qioi")

#: Most characters of a field manager's name (apimachinery: FieldManagerMaxLength).
MANAGER = 128
#: Seconds between two rounds.
EVERY = 1.0
#: Seconds that the end may take.
ENDING = 6.0
#: HTTP statuses of a request that is refused for now: no valid token, no right, too late, a conflict.
FOR_NOW = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT})
#: Most seconds until a status that was refused for now is written again, after :data:`PAUSE` the first time and twice
#: as many each time. Rights may be granted, and a server that has just started may not know them yet.
REFUSED_PAUSE = 60.0
#: Seconds without Events after one has failed: the first time, and at most.
EVENTS_PAUSE, EVENTS_PAUSE_MAX = 5.0, 60.0
#: What has a problem, beside the policies' paths.
EVENTS, LOST_NODES = "events", "lost nodes"


def manager_of(node: str) -> str:
    """Give the field manager of a node's daemon; the API allows 128 characters.

    A longer name ends with a hash, because other nodes' names may begin alike.
    """
    name = f"qioi-{node}"
    if len(name) <= MANAGER:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: MANAGER - len(digest) - 1]}-{digest}"


class Reporter:
    """Applies statuses and posts events of this node."""

    def __init__(self, api: Api, node: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._manager = manager_of(node)
        self._absences = Absences(node)
        self._clock = clock
        self._sights: Mapping[str, Sight] = {}
        self._said: dict[str, Said] = {}
        self._verdicts: dict[str, Said] = {}  # the verdicts written to policies that do not show them yet
        self._quiet: dict[str, Judged] = {}  # policies of other nodes, of which this one has nothing to say
        self._look_at = float("-inf")  # the monotonic time of the next look for lost nodes
        self._events = Correlator(node)
        self._events_pause = EVENTS_PAUSE  # seconds that the next failure of an Event costs
        self._events_from = float("-inf")  # the monotonic time of the next Event
        self._problems: dict[str, str] = {}  # by what has it: why its last write failed
        self._from = float("-inf")  # the monotonic time before which the server wants to be left alone
        self._failed: str | None = None  # the policy at which the last round ended: the next one begins behind it
        self._told: deque[Telling] = deque()  # from the loop's thread to the correlator in this one
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="qioi-reporter", daemon=True)
        #: Why something is not written; ``None`` if all is. It is gone once that is written, or need not be.
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
        """Remove this node's entries, post the events that may be sent, and end, in :data:`ENDING` seconds.

        Entries go first: other nodes go by them, and a node has more events at its end than a slow server may take.
        """
        self._stop.set()
        with self._api.within(ENDING):
            if self._thread.is_alive():
                self._thread.join(timeout=ENDING)
            self._api.interrupt(self._thread)
            if not self._thread.is_alive():  # a thread that waits for a slow server still has the events
                self._leave()
                self._take_told()
                self._post_events()
            elif left := self._left():
                warn_of_left(len(left), "the server has not answered in time")

    def _left(self) -> list[Judged]:
        """Give the policies that have, or may have, entries of this node."""
        return [said.judged for said in list(self._said.values()) if said.judged is not None and said.has_entries]

    def _leave(self) -> None:
        """Remove this node's entries for as long as the server answers."""
        left = self._left()
        kept, why = len(left), ""
        for judged in left:
            write = partial(self._api.apply_status, judged.path, document(judged, {}), self._manager)
            error = self._try(judged.path, write)
            if error is None:
                kept -= 1
                continue
            why = str(error)
            if not is_answered(error):
                break
        if kept:
            warn_of_left(kept, why)

    def _run(self) -> None:
        while not self._stop.wait(EVERY):
            try:
                self._round()
            except Exception:  # no status or event may end the thread
                log.exception("kubernetes status")
                self._from = self._clock() + PAUSE

    def _round(self) -> None:
        now, sights = self._clock(), self._sights
        self._take_told()
        self._forget_gone(sights)
        if now >= self._from and self._write_statuses(sights, now) and self._remove_lost(sights, now):
            self._post_events()
        self.problem = next(iter(self._problems.values()), None)

    def _forget_gone(self, sights: Mapping[str, Sight]) -> None:
        """Forget policies that are gone together with their statuses, even if others have their names."""
        for path, said in list(self._said.items()):
            if path not in sights or not said.is_of(sights[path].judged):
                del self._said[path]
                self._problems.pop(path, None)
        for path, said in list(self._verdicts.items()):
            if path not in sights or not said.is_of(sights[path].judged) or settled(sights[path].judged):
                del self._verdicts[path]
                self._problems.pop(about_verdict(path), None)
        self._quiet = {path: one for path, one in self._quiet.items() if path in sights}

    def _write_statuses(self, sights: Mapping[str, Sight], now: float) -> bool:
        """Write the statuses that are due; return whether it is asked for more.

        The round after one that a policy has ended goes on behind it: else it would keep all others from being written.
        """
        wall, paths = time.time(), [*sights]
        if self._failed is not None and self._failed in sights:
            del paths[: paths.index(self._failed) + 1]
        for path in paths:
            if self._stop.is_set():
                return False
            self._failed = path
            if not self._write(path, sights[path], now, wall):  # it may have waited for seconds
                return False
        self._failed = None
        return True

    def _write(self, path: str, sight: Sight, now: float, wall: float) -> bool:
        """Write what is due to one policy's status; return whether the server may be asked for more."""
        judged = sight.judged
        quiet = path not in self._said and path not in self._verdicts and not sight.enters
        if quiet and self._quiet.get(path) is judged:
            return True  # what others say there is the same as the last time, and may be long
        left = path not in self._said and sight.node in words(judged)
        new = due_verdict(judged, self._verdicts.get(path), now, wall, anew=left)
        if new is not None:
            said = self._verdicts.setdefault(path, Said(judged=judged))
            error = self._put(about_verdict(path), partial(self._api.apply_status, path, new, VERDICTS), said)
            if error is None or is_final(error):
                said.body, said.at, said.pause = new, now, 0.0
            elif not is_answered(error):
                return False
        quiet = quiet and new is None
        new = due(sight, self._said.get(path), now, wall)
        if new is None:
            if quiet:
                self._quiet[path] = judged
            return True
        said = self._said.setdefault(path, Said())
        said.judged = judged
        error = self._put(path, partial(self._api.apply_status, path, new, self._manager), said)
        if error is not None and error.status == HTTPStatus.FORBIDDEN:
            self._absences.forget(path)
        if error is None or is_final(error):
            said.body, said.rows, said.at, said.pause, said.taken = new, sight.rows, now, 0.0, error is None
            if not sight.enters:
                said.body, said.tried = {}, error is not None
                said.again = float("-inf") if error is None else now + HEARTBEAT
        return error is None or is_answered(error)

    def _put(self, about: str, write: Callable[[], object], said: Said) -> ApiError | None:
        """Write to a policy's status; give the failure, and note when to write again if it is not for good."""
        tried, said.tried = said.tried, True  # before the request: the end may come in its midst
        error = self._try(about, write)
        if error is None or is_final(error):
            return error
        pause = PAUSE
        if is_answered(error):
            said.tried = tried
            pause = said.pause = min(REFUSED_PAUSE, max(PAUSE, 2 * said.pause))
        said.again = self._clock() + pause
        return error

    def _remove_lost(self, sights: Mapping[str, Sight], now: float) -> bool:
        """Remove the entries of lost nodes, in each :data:`LOOK` seconds; return whether the server answers."""
        if now < self._look_at:
            return True
        self._look_at = now + LOOK
        self._problems.pop(LOST_NODES, None)
        for judged, node in self._absences.lost(sights.values(), now):
            log.info("%s/%s: node %s is lost: its entries are removed", judged.namespace, judged.name, node)
            empty = document(judged, {})
            write = partial(self._api.apply_status, judged.path, empty, manager_of(node))
            if not is_answered(self._try(LOST_NODES, write)):
                return False
        return True

    def _try(self, about: str, write: Callable[[], object]) -> ApiError | None:
        """Write to a policy's status; give the failure. There is none where the policy is gone."""
        try:
            write()
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                self._problems[about] = str(error)
                self._from = self._clock() + error.wait
                if not is_answered(error) or error.status == HTTPStatus.UNAUTHORIZED:
                    self._absences.forget()  # nobody else may have been able to write either
                return error
        self._problems.pop(about, None)
        return None

    def _take_told(self) -> None:
        """Pass on what was told to the correlator, which bounds what waits."""
        while self._told:
            self._events.take(self._told.popleft())

    def _post_events(self) -> None:
        if self._clock() < self._events_from:
            return
        self._problems.pop(EVENTS, None)
        while (write := self._events.next(self._clock())) is not None:
            if not self._post(write):
                return

    def _post(self, write: Write) -> bool:
        """Make one request for an Event; return whether others may follow now."""
        try:
            self._api.request(write.verb, write.method, write.path, {}, write.body, write.kind)
        except ApiError as error:
            if write.method == "PATCH" and error.status == HTTPStatus.NOT_FOUND:
                self._events.lost(write)
                return True
            if write.method == "POST" and error.status == HTTPStatus.CONFLICT:  # the answer to an earlier one was lost
                self._events.sent(write, self._clock())
                return True
            self._problems[EVENTS] = str(error)
            self._from = self._clock() + error.wait
            log.warning("kubernetes event: %s", error)
            forbidden = error.status == HTTPStatus.FORBIDDEN  # as all new objects are in a namespace that ends
            if not is_final(error) and not forbidden:
                self._events.put_off(write)
                self._events_from = self._clock() + self._events_pause
                self._events_pause = min(EVENTS_PAUSE_MAX, 2 * self._events_pause)
                return False
        self._events.sent(write, self._clock())
        self._events_pause = EVENTS_PAUSE
        return True


def about_verdict(path: str) -> str:
    """Give the name that a policy's verdict has among problems."""
    return f"verdict of {path}"


def warn_of_left(policies: int, why: str) -> None:
    """Say how many policies may keep this node's entries."""
    words = "kubernetes status: %d policies may keep this node's entries until another node removes them: %s"
    log.warning(words, policies, why)


def is_answered(error: ApiError | None) -> bool:
    """Whether the server has carried out or refused this one request, and may take others."""
    return error is None or (400 <= error.status < 500 and error.status != HTTPStatus.TOO_MANY_REQUESTS)


def is_final(error: ApiError) -> bool:
    """Whether the server would refuse the same request again."""
    return is_answered(error) and error.status not in FOR_NOW
