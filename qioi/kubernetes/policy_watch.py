"""Follow the policies that concern this node, and look at all others now and then.

An API server sends every change of a policy to all who watch it, and each node that serves the policy changes its
status several times a minute. Were every node to watch every policy, that traffic would grow with the square of the
cluster. So a node watches the policies of those namespaces only in which it has pods of a ledger. Of all others it
needs to know little: that one is new and waits for a verdict, or holds the words of a lost node. They are listed, the
more rarely the more there are.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from qioi.kubernetes.client import Api, ApiError, Object
from qioi.kubernetes.policies import API_VERSION, PATH, slim_policy
from qioi.kubernetes.reflector import NOT_ASKED, RETRY, RETRY_MAX, STAYS, Reflector, key, outdated

log = logging.getLogger("qioi")

#: Seconds that the end of all that is followed may take, and as many the end of the lists.
ENDING = 2.0
#: Seconds between two lists of all policies: at least so many, and so many for each policy, and each node and component
#: in one. Each pause varies at random by half. Whatever there is, a thousand nodes then list a few megabytes a second.
LEAST, EACH = 30.0, 0.2
#: Seconds for which the server has to say that there is no such kind until its policies count as deleted with it. One
#: that has just started may say so, too. Nobody else would tell: a watch that was not going on then never begins again.
MISSING = 60.0


@dataclass(frozen=True, slots=True)
class Looks:
    """When policies were last looked at: those of ``watched`` namespaces just now, all others at ``listed``.

    ``live`` are those of the ``watched`` ones whose changes come when they are made.
    """

    listed: float = float("-inf")  # a monotonic time
    watched: frozenset[str] = frozenset()
    live: frozenset[str] = frozenset()

    @property
    def is_listed(self) -> bool:
        """Whether all policies have been listed once."""
        return self.listed > float("-inf")

    def last(self, namespace: str, now: float) -> float:
        """Give when a namespace's policies were last looked at."""
        return now if namespace in self.watched else self.listed


class PolicyWatch:
    """Follows policies from :meth:`start` until :meth:`close`. ``changed`` is called with all of them and the
    looks at them, by one thread at a time.
    """

    def __init__(self, api: Api, changed: Callable[[Mapping[str, Object], Looks], None]) -> None:
        self._api = api
        self._changed = changed
        self._listed_at = float("-inf")
        self._lock = threading.Lock()
        self._listed: dict[str, Object] = {}
        self._followed: Mapping[str, Reflector] = {}  # by namespace; replaced, never changed
        self._copies: dict[str, Mapping[str, Object]] = {}  # by namespace, once its reflector has listed it
        self._problem: str | None = NOT_ASKED
        self._missing_since: float | None = None  # the monotonic time; any other answer ends it
        self._is_gone = False  # the kind, with all policies, until they are listed again
        self._stop = threading.Event()
        self._synced = threading.Event()
        self._thread = threading.Thread(target=self._run, name="qioi-policies", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for the first complete list; return whether there is one."""
        return self._synced.wait(seconds)

    @property
    def problem(self) -> str | None:
        """Why the policies may be outdated; ``None`` while they are followed."""
        followed = (one.problem for one in self._followed.values())
        return self._problem or next((one for one in followed if one and one != NOT_ASKED), None)

    def follow(self, namespaces: Iterable[str]) -> None:
        """Watch the policies of these namespaces, and of no other."""
        wanted = set(namespaces)
        with self._lock:
            gone = {name: one for name, one in self._followed.items() if name not in wanted}
            begun = {name: self._reflector(name) for name in sorted(wanted - set(self._followed))}
            self._followed = {name: one for name, one in self._followed.items() if name in wanted} | begun
            for name in gone:
                if name in self._copies:  # else nothing newer than the list of all is known
                    self._listed = self._without(name) | dict(self._copies.pop(name))
            if gone:
                self._say()  # the same policies, which are no longer looked at all the time
        for reflector in begun.values():
            reflector.start()
        end = time.monotonic() + ENDING
        for reflector in gone.values():
            reflector.stop()
        for reflector in gone.values():
            reflector.close(max(0.0, end - time.monotonic()))

    def close(self) -> None:
        """Stop following, in twice :data:`ENDING` seconds."""
        self._stop.set()
        self._api.interrupt(self._thread)
        self.follow(())
        if self._thread.is_alive():
            self._thread.join(timeout=ENDING)

    def _reflector(self, namespace: str) -> Reflector:
        path = f"/apis/{API_VERSION}/namespaces/{namespace}/isolationpolicies"
        return Reflector(self._api, path, {}, partial(self._take, namespace), slim=slim_policy)

    def _without(self, namespace: str) -> dict[str, Object]:
        """Give what was listed of all other namespaces."""
        return {name: one for name, one in self._listed.items() if one["metadata"]["namespace"] != namespace}

    # ---- in the threads

    def _run(self) -> None:
        pause = RETRY
        while not self._stop.is_set():
            wait = self._list()
            pause = min(RETRY_MAX, 2 * pause) if wait is not None else max(LEAST, EACH * size(self._listed.values()))
            self._stop.wait((wait or 0.0) + pause * random.uniform(0.5, 1.5))

    def _list(self) -> float | None:
        """List all policies, as the server has them at hand; ``None`` if it did, else for how long it is left alone."""
        problem, wait, missing, asked_at = None, 0.0, False, time.monotonic()
        try:
            objects, _ = self._api.list(PATH, {"resourceVersion": "0"}, slim_policy)
            listed = {key(one): one for one in objects}
        except ApiError as error:
            problem, wait, missing = str(error), error.wait, error.status == HTTPStatus.NOT_FOUND
        except Exception as error:  # whatever the server sends must not end the thread
            log.exception("kubernetes policies")
            problem = f"{type(error).__name__}: {error}"
        with self._lock:
            if problem is None:
                self._listed, self._listed_at, self._is_gone = listed, asked_at, False
            outlived = self._note_missing(missing, asked_at)
            meaning = "policies count as deleted" if self._is_gone else STAYS
            self._problem = problem and outdated(problem, meaning)
            self._say()
        for reflector in outlived:
            reflector.stop()
        if problem is not None:
            return wait
        self._synced.set()
        return None

    def _note_missing(self, missing: bool, now: float) -> Iterable[Reflector]:
        """Take in whether the server says that there is no such kind. Once that has lasted, drop all policies.

        Give the reflectors of these: they would go on with them where there is such a kind again.
        """
        if not missing:
            self._missing_since = None
            return ()
        if self._missing_since is None:
            self._missing_since = now
        if self._is_gone or now - self._missing_since < MISSING or self._stop.is_set():
            return ()
        before = self._followed
        self._is_gone, self._listed, self._copies = True, {}, {}
        self._followed = {name: self._reflector(name) for name in before}
        for reflector in self._followed.values():
            reflector.start()
        return before.values()

    def _take(self, namespace: str, objects: Mapping[str, Object]) -> None:
        """Take over a namespace's policies from its reflector, which may also only have a problem to tell."""
        with self._lock:
            reflector = self._followed.get(namespace)
            if reflector is not None and reflector.is_listed:
                self._copies[namespace] = objects
            self._say()

    def _say(self) -> None:
        """Say what there is; called with the lock, so that the newest is said last."""
        policies = {name: one for name, one in self._listed.items() if one["metadata"]["namespace"] not in self._copies}
        for copy in self._copies.values():
            policies |= copy
        live = frozenset(name for name in self._copies if self._followed[name].is_live)
        try:
            self._changed(policies, Looks(self._listed_at, frozenset(self._copies), live))
        except Exception:  # whatever is made of the policies must not end the thread
            log.exception("kubernetes policies")


def size(policies: Iterable[Object]) -> int:
    """Count policies, and the nodes and components in each, which make it long."""
    states = [one.get("status") or {} for one in policies]
    return len(states) + sum(len(one.get(key) or ()) for one in states for key in ("nodes", "components"))
