"""A local copy of one kind of objects, kept up to date by list and watch, the way that the API is meant to be used.

First a list; then changes from its resourceVersion on. A stream that ends is taken up again from the last version
seen; where that is too old for the server (410 Gone), and only then, everything is listed again. While the server is
away the copy stays as it is. Sources: Kubernetes API concepts, "Efficient detection of changes" and "410 Gone".
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

from qioi.kubernetes.client import Api, ApiError, Object, Watch

log = logging.getLogger("qioi")

#: Seconds before the first and between later attempts to reach a server that is away, or ends each stream at once; each
#: is varied by half.
RETRY, RETRY_MAX = 0.5, 5.0
GONE = 410


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
        self._slim = slim  # leaves out what nobody looks at, so that a thousand pods take little memory
        self._objects: dict[str, Object] = {}
        self._version: str | None = None
        self._stop = threading.Event()
        self._synced = threading.Event()
        self._watch: Watch | None = None
        self._thread = threading.Thread(target=self._run, name=f"qioi-{path.rsplit('/', 1)[-1]}", daemon=True)
        #: Why the copy may be old; ``None`` while it is followed.
        self.problem: str | None = "not asked yet"
        self.relists = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait for the first complete list, at most so long; say whether there is one."""
        return self._synced.wait(seconds)

    def close(self) -> None:
        """Stop following."""
        self._stop.set()
        if self._watch is not None:
            self._watch.close()
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)

    def _run(self) -> None:
        pause = RETRY
        while not self._stop.is_set():
            problem = None
            try:
                self._session()
                pause = RETRY  # the server ends every stream after some minutes
            except ApiError as error:
                if error.status == GONE:
                    self._version = None
                else:
                    problem = str(error)
            except Exception as error:  # what the server sends is not ours: nothing in it may end the watch
                log.exception("kubernetes %s", self._path)
                problem, self._version = f"{type(error).__name__}: {error}", None
            if problem and not self._stop.is_set():
                self.problem = f"{problem}: asked again until it answers; what was found stays"
                self._changed(self._objects)
            self._stop.wait(pause * random.uniform(0.5, 1.5))
            pause = min(RETRY_MAX, pause * 2)

    def _session(self) -> None:
        """List if need be, then follow one stream to its end."""
        if self._version is None:
            self._list()
        assert self._version is not None
        seconds = str(random.randint(240, 480))  # not all nodes at once
        watch = self._watch = self._api.watch(
            self._path, {**self._query, "resourceVersion": self._version, "timeoutSeconds": seconds}
        )
        try:
            if self.problem is not None:
                self.problem = None
                self._changed(self._objects)
            for event in watch.events():
                self._take(str(event.get("type")), event["object"])
        except ApiError:
            if not self._stop.is_set():
                raise
        finally:
            watch.close()
            self._watch = None

    def _list(self) -> None:
        objects, version = self._api.list(self._path, self._query)
        self._objects = {key(one): self._slim(one) for one in objects}
        self._version = version
        self.relists += 1
        self.problem = None
        self._changed(self._objects)
        self._synced.set()

    def _take(self, kind: str, one: dict[str, Any]) -> None:
        """Take in one change."""
        if kind == "ERROR":
            raise ApiError(str(one.get("message")), int(one.get("code") or 0))
        self._version = str(one["metadata"]["resourceVersion"])
        if kind == "BOOKMARK":
            return
        objects = dict(self._objects)  # readers keep the one that they have
        if kind == "DELETED":
            objects.pop(key(one), None)
        else:
            objects[key(one)] = self._slim(one)
        self._objects = objects
        self._changed(objects)


def key(one: Object) -> str:
    """Tell objects apart; one that was made anew under the same name is another one."""
    metadata = one["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}/{metadata.get('uid', '')}"
