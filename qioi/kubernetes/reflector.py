"""Keep a local copy of one kind of objects up to date by list and watch.

The reflector first lists the objects, and then follows changes from the list's resourceVersion on. After a stream ends,
the next one begins at the last version seen; only where the server no longer has that version (410 Gone), or a change
is too large to be read, all objects are listed again. While the server is away the copy stays as it is.

Lists are of what the server has at hand, as client-go's reflector has it: the first one of any version, and each later
one of a version not older than the last seen. So the server does not read all nodes' pods in etcd to find this node's,
whose daemon may be one of a thousand that list at once. Sources: Kubernetes API concepts, "Efficient detection of
changes", "410 Gone" and "Resource versions".
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from qioi.kubernetes.client import Api, ApiError, Object, Watch

log = logging.getLogger("qioi")

#: Seconds before the first attempt, and most seconds between later ones, to reach a server that is away or ends each
#: stream at once. Each pause varies at random by half, and begins after the time for which the server wants to be left
#: alone.
RETRY, RETRY_MAX = 0.5, 5.0
#: Seconds in which a server sends what has changed while it was not followed.
REPLAY = 5.0
#: Seconds that the end may take.
ENDING = 2.0
#: What is said before the first answer.
NOT_ASKED = "not asked yet"
#: What a problem means for the copy of a server's objects.
STAYS = "what was found stays"


class Reflector:
    """Follows one resource from :meth:`start` until :meth:`close`. ``changed`` is called in its thread."""

    def __init__(
        self,
        api: Api,
        path: str,
        query: Mapping[str, str],
        changed: Callable[[Mapping[str, Object]], None],
        *,
        slim: Callable[[Object], Object] = lambda one: one,
    ) -> None:
        self._api = api
        self._path = path
        self._query = dict(query)
        self._changed = changed
        self._slim = slim  # drops fields that are never read, so that a thousand pods take little memory
        self._objects: dict[str, Object] = {}
        self._version: str | None = None
        self._at_hand = {"resourceVersion": "0"}  # what the next list is of; empty: what there is now, from etcd
        self._stop = threading.Event()
        self._synced = threading.Event()
        self._watch: Watch | None = None
        self._lasted = 0.0  # seconds from the begin of the session's stream to its end, be it an error; 0: none began
        self._thread = threading.Thread(target=self._run, name=f"qioi-{path.rsplit('/', 1)[-1]}", daemon=True)
        #: Why the copy may be outdated; ``None`` while changes are followed.
        self.problem: str | None = NOT_ASKED
        self.relists = 0
        self._resumed = float("-inf")  # the monotonic time at which the last gap in what is followed has ended

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def is_listed(self) -> bool:
        """Whether the objects that ``changed`` is called with have been listed once; read it in that call."""
        return self.relists > 0

    @property
    def is_live(self) -> bool:
        """Whether a change comes when it is made: after a gap, those come first that were made meanwhile."""
        return self.problem is None and time.monotonic() - self._resumed >= REPLAY

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for the first complete list; return whether there is one."""
        return self._synced.wait(seconds)

    def stop(self) -> None:
        """Stop following. Whatever the thread waits for fails, unless it is a connection that is being made."""
        self._stop.set()
        self._api.interrupt(self._thread)
        watch = self._watch
        if watch is not None:
            watch.close()

    def close(self, within: float = ENDING) -> None:
        """Stop following, and wait at most ``within`` seconds for the thread."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=within)

    def _run(self) -> None:
        pause = RETRY
        while not self._stop.is_set():
            problem, wait, self._lasted = None, 0.0, 0.0
            try:
                self._session()
            except ApiError as error:
                wait = error.wait
                if error.status == HTTPStatus.GONE:
                    self._forget_version()
                else:
                    problem = str(error)
            except Exception as error:  # whatever the server sends must not end the watch
                log.exception("kubernetes %s", self._path)
                problem, self._version, self._at_hand = f"{type(error).__name__}: {error}", None, {}
            if problem and not self._stop.is_set():
                self.problem = outdated(problem)
                self._tell_problem()
            if self._lasted > RETRY_MAX:
                pause = RETRY  # the server ends every stream after some minutes
            self._stop.wait(wait + pause * random.uniform(0.5, 1.5))
            pause = min(RETRY_MAX, pause * 2)

    def _tell_problem(self) -> None:
        """Tell who follows the objects that they are outdated, even where its own error was the problem."""
        try:
            self._changed(self._objects)
        except Exception:  # whatever is made of the objects must not end the watch
            log.exception("kubernetes %s", self._path)

    def _session(self) -> None:
        """List the objects if necessary, then follow one stream to its end. ApiError."""
        if self._version is None:
            self._list()
        assert self._version is not None
        seconds = str(random.randint(240, 480))  # so that nodes do not reconnect all at once
        watch = self._watch = self._api.watch(
            self._path, {**self._query, "resourceVersion": self._version, "timeoutSeconds": seconds}
        )
        begun = time.monotonic()
        try:
            if self._stop.is_set():
                return  # it was stopped before there was a stream that could be closed
            if self.problem is not None:
                self.problem, self._resumed = None, time.monotonic()
                self._changed(self._objects)
            for event in watch.events():
                self._take(str(event.get("type")), event["object"])
        except ApiError:
            if not self._stop.is_set():
                raise
        finally:
            self._lasted = time.monotonic() - begun
            watch.close()
            self._watch = None

    def _forget_version(self) -> None:
        """Have the objects listed again, not older than they have been seen."""
        if self._version is not None:
            self._at_hand = not_older_than(self._version)
        self._version = None

    def _list(self) -> None:
        """List the objects as the server has them at hand; where it can't, as they are. ApiError."""
        try:
            objects, version = self._api.list(self._path, {**self._query, **self._at_hand}, self._slim)
        except ApiError as error:
            if not has_no_version(error):
                raise
            objects, version = self._api.list(self._path, self._query, self._slim)
        self._objects = {key(one): one for one in objects}
        self._version = version
        if self.is_listed:
            self._resumed = time.monotonic()
        self.relists += 1
        self.problem = None
        self._changed(self._objects)
        self._synced.set()

    def _take(self, kind: str, one: dict[str, Any]) -> None:
        """Take in one change. ApiError."""
        if kind == "ERROR":
            raise ApiError(str(one.get("message")), int(one.get("code") or 0))
        self._version = str(one["metadata"]["resourceVersion"])
        if kind == "BOOKMARK":
            return
        objects = dict(self._objects)  # readers keep the old dict
        if kind == "DELETED":
            objects.pop(key(one), None)
        else:
            objects[key(one)] = self._slim(one)
        self._objects = objects
        self._changed(objects)


def not_older_than(version: str) -> dict[str, str]:
    """Give the query of a list that a server answers by what it has at hand, if that is not older than ``version``."""
    return {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"}


def has_no_version(error: ApiError) -> bool:
    """Whether a server lacks a list's version: it is too old, or the server has not seen it within some seconds."""
    too_new = error.status == HTTPStatus.GATEWAY_TIMEOUT and "Too large resource version" in str(error)
    return error.status == HTTPStatus.GONE or too_new


def outdated(problem: str, meaning: str = STAYS) -> str:
    """Say what a problem with the server means for the copy of its objects."""
    return f"{problem}: asked again until it answers; {meaning}"


def key(one: Object) -> str:
    """Give an object's key; an object that was recreated under the same name has another key."""
    metadata = one["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}/{metadata.get('uid', '')}"
