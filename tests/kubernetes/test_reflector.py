"""A copy of the API's objects beside servers that behave badly: none of them is asked without a pause."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from k8s_toy_server import Quiet, answering
from waiting import until

import qioi.kubernetes.policy_watch
import qioi.kubernetes.reflector
from qioi.kubernetes.client import MAX_ANSWER, MOST_WAIT, Api, ApiError
from qioi.kubernetes.policy_watch import Looks, PolicyWatch
from qioi.kubernetes.reflector import Reflector

PATH = "/api/v1/pods"
LIST = {"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"namespace": "a", "name": "b", "uid": "c"}}]}
GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}
NONE = {"metadata": {"resourceVersion": "9"}, "items": []}
GONE_LINE = json.dumps(GONE).encode() + b"\n"


@contextmanager
def server(watched: Callable[[], bytes]) -> Iterator[Api]:
    """Serve one list, and to each watch what it is to see before its stream ends."""

    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = watched() if "watch=true" in self.path else json.dumps(LIST).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

    with answering(Answer) as api:
        yield api


class Pauses(threading.Event):
    """A request to stop, which notes for how long it is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.begun.append(timeout or 0.0)
        return super().wait(timeout)


class Hours:
    """A clock that goes on by an hour each time that somebody is said to have taken so long."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def go_on(self, *_: object) -> None:
        self.now += 3600.0


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Hours:
    clock = Hours()
    monkeypatch.setattr(qioi.kubernetes.reflector, "time", clock)
    monkeypatch.setattr(qioi.kubernetes.reflector, "RETRY", 0.01)
    monkeypatch.setattr(qioi.kubernetes.reflector, "RETRY_MAX", 600.0)
    return clock


@pytest.mark.parametrize("stream", [b"", GONE_LINE], ids=["ended at once", "always too old"])
@pytest.mark.parametrize("slow", [False, True])
def test_a_server_that_ends_every_stream_is_not_asked_all_the_time(stream: bytes, slow: bool, hours: Hours) -> None:
    """Each pause is twice as long as the one before, give or take half of it, however long a stream takes to begin."""

    def watched() -> bytes:
        if slow:
            hours.go_on()
        return stream

    with server(watched) as api, closing(Reflector(api, PATH, {}, lambda _: None)) as reflector:
        stop = reflector._stop = Pauses()
        reflector.start()
        until(lambda: len(stop.begun) > 2)
        for number, pause in enumerate(stop.begun[:3]):
            assert 0.5 <= pause / (0.01 * 2**number) <= 1.5
        assert reflector.problem is None


@pytest.mark.parametrize("end", [b"", GONE_LINE, b"no change\n"], ids=["ended", "too old", "broken"])
def test_after_a_stream_that_has_lasted_the_next_one_begins_soon(end: bytes, hours: Hours) -> None:
    """Each change takes an hour to come."""
    change = {"type": "MODIFIED", "object": {"metadata": {"name": "b", "resourceVersion": "8"}}}
    stream = json.dumps(change).encode() + b"\n" + end
    with server(lambda: stream) as api, closing(Reflector(api, PATH, {}, hours.go_on)) as reflector:
        stop = reflector._stop = Pauses()
        reflector.start()
        until(lambda: len(stop.begun) > 2)
        assert max(stop.begun[:3]) <= 0.015


def refuse(*_: object) -> None:
    raise ValueError("what is told makes no sense")


def test_whatever_is_made_of_the_objects_they_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qioi.kubernetes.reflector, "RETRY", 0.01)
    with server(lambda: b"") as api, closing(Reflector(api, PATH, {}, refuse)) as reflector:
        reflector.start()
        until(lambda: api.requests["list", "200"] > 2)
        assert reflector._thread.is_alive()


def test_whatever_is_made_of_the_policies_they_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qioi.kubernetes.policy_watch, "LEAST", 0.01)
    monkeypatch.setattr(qioi.kubernetes.policy_watch, "EACH", 0.0)
    with server(lambda: b"") as api, closing(PolicyWatch(api, refuse)) as watch:
        watch.start()
        until(lambda: api.requests["list", "200"] > 2)
        assert (watch.wait(0), watch.problem) == (True, None)


@contextmanager
def refusing(part: str, told: str) -> Iterator[Api]:
    """Serve one list, and refuse requests whose path and query have a part for the time that is told."""

    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if part not in self.path:
                self.answer(LIST)
                return
            self.answer({}, 429, told)

    with answering(Answer) as api:
        yield api


@pytest.mark.parametrize(("told", "wait"), [("20", 20.0), ("3600", MOST_WAIT), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0)])
@pytest.mark.parametrize("part", ["limit=", "watch="])
def test_a_server_that_wants_to_be_left_alone_is(
    part: str, told: str, wait: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For half a minute at most; then all come at different times."""
    monkeypatch.setattr(qioi.kubernetes.reflector, "RETRY", 0.01)
    with refusing(part, told) as api, closing(Reflector(api, PATH, {}, lambda _: None)) as reflector:
        stop = reflector._stop = Pauses()
        reflector.start()
        until(lambda: len(stop.begun) > 0)
        assert wait + 0.005 <= stop.begun[0] <= wait + 0.015


def test_a_server_that_wants_to_be_left_alone_is_asked_for_no_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qioi.kubernetes.policy_watch, "RETRY", 0.01)
    with refusing("limit=", "20") as api, closing(PolicyWatch(api, lambda *_: None)) as watch:
        stop = watch._stop = Pauses()
        watch.start()
        until(lambda: len(stop.begun) > 0)
        assert 20.01 <= stop.begun[0] <= 20.03
        assert "429" in str(watch.problem)


BUSY = ApiError("GET /api/v1/pods: 504 request timed out", 504)
FIRST = {"a": "b", "resourceVersion": "0"}


def followed(version: str) -> dict[str, str]:
    return {"a": "b", "resourceVersion": version, "resourceVersionMatch": "NotOlderThan"}


@contextmanager
def listing(
    api: Api, monkeypatch: pytest.MonkeyPatch, fails: dict[str, list[ApiError]]
) -> Iterator[list[dict[str, str]]]:
    """Follow ``a=b`` until there were two lists; note what each was of. Those of a version in ``fails`` fail so."""
    monkeypatch.setattr(qioi.kubernetes.reflector, "RETRY", 0.01)
    asked: list[dict[str, str]] = []
    genuine = api.list

    def listed(path: str, query: dict[str, str], slim: Any) -> Any:
        asked.append(dict(query))
        if errors := fails.get(query.get("resourceVersion", "")):
            raise errors.pop()
        return genuine(path, query, slim)

    monkeypatch.setattr(api, "list", listed)
    with closing(Reflector(api, PATH, {"a": "b"}, lambda _: None)) as reflector:
        reflector.start()
        until(lambda: reflector.relists == 2)
        yield asked


def test_what_is_listed_again_is_at_hand_too_and_not_older_than_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a thousand nodes that have to list at once, as after a server's start, cost no read in etcd."""
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
    streams = iter([json.dumps(bookmark).encode() + b"\n" + GONE_LINE])
    with server(lambda: next(streams, b"")) as api, listing(api, monkeypatch, {}) as asked:
        assert asked == [FIRST, followed("9")]


@pytest.mark.parametrize(
    "error",
    [
        ApiError("GET /api/v1/pods: 410 The resourceVersion for the provided list is too old.", 410),
        ApiError("GET /api/v1/pods: 504 Timeout: Too large resource version: 7, current: 3", 504),
    ],
)
def test_a_server_that_has_no_such_version_is_asked_for_what_there_is(
    error: ApiError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after etcd was restored from a backup."""
    streams = iter([GONE_LINE])
    with server(lambda: next(streams, b"")) as api, listing(api, monkeypatch, {"7": [error]}) as asked:
        assert asked == [FIRST, followed("7"), {"a": "b"}]


def test_a_server_that_is_too_busy_to_list_what_is_at_hand_is_not_asked_for_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is asked for the same again after a pause."""
    streams, fails = iter([GONE_LINE]), {"7": [BUSY, BUSY]}
    with server(lambda: next(streams, b"")) as api, listing(api, monkeypatch, fails) as asked:
        assert asked == [FIRST, followed("7"), followed("7"), followed("7")]


def test_a_change_that_is_too_large_to_be_read_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream goes on behind it: its object may be one that was smaller."""
    monkeypatch.setattr(qioi.kubernetes.reflector, "RETRY", 0.01)
    change = {"type": "MODIFIED", "object": {"metadata": {"name": "b", "annotations": {"a": "x" * MAX_ANSWER}}}}
    streams = iter([json.dumps(change).encode() + b"\n"])
    with server(lambda: next(streams, b"")) as api, closing(Reflector(api, PATH, {}, lambda _: None)) as reflector:
        reflector.start()
        until(lambda: reflector.relists == 2)
        until(lambda: api.requests["watch", "200"] > 3)
        assert (reflector.relists, reflector.problem) == (2, None)


def test_a_version_that_is_too_old_is_listed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qioi.kubernetes.reflector, "RETRY", 0.01)
    streams = iter([GONE_LINE])
    with server(lambda: next(streams, b"")) as api, closing(Reflector(api, PATH, {}, lambda _: None)) as reflector:
        reflector.start()
        until(lambda: reflector.relists == 2)
        until(lambda: api.requests["watch", "200"] > 3)
        assert reflector.relists == 2


def test_a_watch_whose_refusal_breaks_off_begins_again_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is listed without a version is read in etcd, by a server that has too much to do."""
    monkeypatch.setattr(qioi.kubernetes.reflector, "RETRY", 0.01)
    asked: list[dict[str, list[str]]] = []

    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(parse_qs(urlsplit(self.path).query))
            if "watch" not in asked[-1]:
                self.answer(LIST)
            elif len(asked) == 2:
                self.break_off(503)
            else:
                self.send_response(200)
                self.end_headers()

    with answering(Answer) as api, closing(Reflector(api, PATH, {}, lambda _: None)) as reflector:
        reflector.start()
        until(lambda: len(asked) > 2)
        assert ["watch" in one for one in asked[:3]] == [False, True, True]
        assert [one["resourceVersion"] for one in asked[:3]] == [["0"], ["7"], ["7"]]


@pytest.mark.parametrize(
    ("stream", "told"),
    [(GONE_LINE, [True, False]), (b"no change\n", [True, False, False])],
    ids=["listed again", "broken"],
)
@pytest.mark.parametrize("over", [False, True])
def test_what_comes_first_after_a_gap_may_be_old(
    stream: bytes, told: list[bool], over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a stream that has broken the problem is told, too."""
    monkeypatch.setattr(qioi.kubernetes.reflector, "RETRY", 0.01)
    monkeypatch.setattr(qioi.kubernetes.reflector, "REPLAY", 0.0 if over else float("inf"))
    live: list[bool] = []
    streams = iter([stream])
    with server(lambda: next(streams, b"")) as api:
        reflector = Reflector(api, PATH, {}, lambda _: live.append(reflector.is_live))
        with closing(reflector):
            reflector.start()
            until(lambda: len(live) == len(told))
            until(lambda: api.requests["watch", "200"] > 2)
    assert live == ([*told[:-1], True] if over else told)


@pytest.mark.parametrize(("lasting", "kept", "meaning"), [(0.0, 0, "count as deleted"), (1e9, 1, "found stays")])
def test_policies_go_with_their_kind_once_that_is_gone_for_long(
    lasting: float, kept: int, meaning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was deleted between two streams: no watch begins again, and none has told of the policies' ends."""
    for name, value in (("RETRY", 0.01), ("RETRY_MAX", 0.02)):
        monkeypatch.setattr(qioi.kubernetes.reflector, name, value)
        monkeypatch.setattr(qioi.kubernetes.policy_watch, name, value)
    for name, value in (("LEAST", 0.01), ("EACH", 0.0), ("MISSING", lasting)):
        monkeypatch.setattr(qioi.kubernetes.policy_watch, name, value)
    gone, lagging = threading.Event(), threading.Event()

    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if gone.is_set():
                self.answer({"message": "the server could not find the requested resource"}, 404)
            elif lagging.is_set():
                self.answer(*(({"message": "not yet"}, 503) if "/namespaces/" in self.path else (NONE,)))
            elif "watch=true" in self.path:
                self.send_response(200)
                self.end_headers()
            else:
                self.answer(LIST)

    told: list[tuple[int, frozenset[str]]] = []
    with (
        answering(Answer) as api,
        closing(PolicyWatch(api, lambda found, looks: told.append((len(found), looks.watched)))) as watch,
    ):
        watch.start()
        watch.follow({"a"})
        until(lambda: told[-1:] == [(1, {"a"})])
        gone.set()
        until(lambda: api.requests["list", "404"] > 6)
        until(lambda: told[-1][0] == kept and meaning in str(watch.problem))
        before = api.requests["list", "404"]
        until(lambda: api.requests["list", "404"] > before + 3)  # what the stream before has shown does not come back
        assert {count for count, _ in told[-3:]} == {kept}
        if not kept:  # nor where there is such a kind again, and not yet at each place
            lagging.set()
            gone.clear()
            until(lambda: api.requests["list", "503"] > 3 and "not yet" in str(watch.problem))
            assert {count for count, _ in told[-3:]} == {0}
            lagging.clear()
        gone.clear()
        until(lambda: told[-1] == (1, {"a"}) and watch.problem is None)


def test_policies_whose_changes_may_be_old_are_watched_but_not_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qioi.kubernetes.reflector, "RETRY", 0.01)
    monkeypatch.setattr(qioi.kubernetes.reflector, "REPLAY", float("inf"))
    told: list[Looks] = []
    streams = iter([GONE_LINE])
    with (
        server(lambda: next(streams, b"")) as api,
        closing(PolicyWatch(api, lambda _, looks: told.append(looks))) as watch,
    ):
        watch.follow({"a"})
        until(lambda: frozenset("a") in [one.live for one in told] and told[-1].live == frozenset())
        assert told[-1].watched == frozenset("a")
