"""The end of a daemon beside a server that is slow or silent: it takes no longer than its pod's grace."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import yaml
from k8s_objects import pod_object, policy_object
from k8s_toy_server import Quiet, answering
from waiting import until

from qioi.discovery import owners
from qioi.kubernetes import cluster, policy_watch, reporter, resizer
from qioi.kubernetes.client import Api, ApiError, Object, Watch
from qioi.kubernetes.pods import read_pod, slim
from qioi.kubernetes.policies import judge
from qioi.kubernetes.policy_watch import PolicyWatch
from qioi.kubernetes.reflector import Reflector
from qioi.kubernetes.reporter import Reporter
from qioi.kubernetes.reports import Sight, condition
from qioi.kubernetes.requests import ORIGINAL_ANNOTATION
from qioi.kubernetes.resizer import Resizer

DEPLOY = Path(__file__).parents[2] / "deploy/k8s"
#: Seconds that the last period and the restore of all files may take, with the records of their owners.
FILES = 5.0 + owners.SETTLE


class Server:
    """Takes each request, after ``before`` has been called with its path, and ends what is read after ``after``."""

    def __init__(self) -> None:
        self.before: Callable[[str], object] = lambda path: None
        self.after: Callable[[str], object] = lambda path: None
        self.asked: list[str] = []


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def api(server: Server) -> Iterator[Api]:
    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_PATCH(self) -> None:
            server.asked.append(self.path)
            server.before(self.path)
            self.answer({})

        def do_GET(self) -> None:
            server.asked.append(self.path)
            server.before(self.path)
            self.send_response(200)
            self.end_headers()
            server.after(self.path)

    with answering(Answer) as api:
        yield api


def started(start: Callable[[], None]) -> threading.Thread:
    """Start something that a server holds up; give the thread that it has begun."""
    before = set(threading.enumerate())
    start()
    (begun,) = (one for one in threading.enumerate() if one not in before and one.name.startswith("qioi-"))
    return begun


def pods(count: int, asked: str, **more: dict[str, str]) -> dict[str, Object]:
    made = [pod_object(f"p{n}", labels={"qioi.io/role": "peer"}, **more) for n in range(count)]  # type: ignore[arg-type]
    for one in made:
        one["spec"]["containers"][0]["resources"] = {"requests": {"cpu": asked}}
    return {one["metadata"]["uid"]: slim(one) for one in made}


@pytest.mark.slow
def test_restores_that_take_longer_than_there_is_time_are_cut_off_and_named(
    api: Api, server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By a clock that goes on by a second with each answer."""
    now = [0.0]
    server.before = lambda path: now.__setitem__(0, now[0] + 1.0)
    objects = pods(30, "400m", annotations={ORIGINAL_ANNOTATION: "100m"})
    one = Resizer(api, tmp_path, lambda: objects, lambda: True, lambda: now[0])
    one.round(-1.0)
    began, now[0] = len(server.asked), 0.0
    caplog.clear()
    one.close()
    assert now[0] == resizer.ENDING
    assert len(server.asked) - began == resizer.ENDING
    assert len([text for text in caplog.messages if "not restored yet" in text]) == 30


@pytest.mark.slow
def test_the_end_raises_no_request_any_more(api: Api, server: Server, tmp_path: Path) -> None:
    """It comes in the middle of a round, which has two pods to raise."""
    objects = pods(2, "100m")
    one = Resizer(api, tmp_path, lambda: objects, lambda: True)
    begun = threading.Event()

    def hold(path: str) -> None:
        begun.set()
        until(lambda: {record.wanted for uid in objects if (record := one.record(uid))} == {None}, what="it ends")

    server.before = hold
    one.start()
    for raw in objects.values():
        pod = read_pod(raw)
        assert pod is not None
        one.want(pod, 2048)
    begun.wait(60.0)
    one.close()
    first = server.asked[0].removesuffix("/status")
    assert [path for path in server.asked if path.endswith("/resize") and not path.startswith(first)] == []


class Held:
    """A server that answers no request whose path has ``held`` in it."""

    def __init__(self, server: Server, held: str) -> None:
        self.begun, self.over = threading.Event(), threading.Event()

        def hold(path: str) -> None:
            if held in path:
                self.begun.set()
                self.over.wait()

        server.before = hold


@pytest.mark.slow
def test_the_end_leaves_no_round_behind_that_goes_on(
    api: Api, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It comes in the middle of a round, which has two pods to restore, and the server answers after the end."""
    monkeypatch.setattr("qioi.kubernetes.client.TIMEOUT", 600.0)
    monkeypatch.setattr(resizer, "ENDING", 0.0)
    objects = pods(2, "400m", annotations={ORIGINAL_ANNOTATION: "100m"})
    one, held = Resizer(api, tmp_path, lambda: objects, lambda: True), Held(server, "/resize")
    thread = started(one.start)
    try:
        held.begun.wait(60.0)
        one.close()
    finally:
        held.over.set()
    thread.join(60.0)
    assert (thread.is_alive(), len(server.asked)) == (False, 1)
    assert len([text for text in caplog.messages if "not restored yet" in text]) == 2


def test_what_is_restored_while_it_is_named_hinders_no_end(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the thread, which may be in the midst of an answer."""
    monkeypatch.setattr(resizer, "ENDING", 0.0)
    objects = pods(2, "400m", annotations={ORIGINAL_ANNOTATION: "100m"})
    one = Resizer(api, tmp_path, lambda: objects, lambda: True)
    one.round(-1.0)
    named: list[object] = []

    def drop(text: str, namespace: str, name: str) -> None:
        named.append(name)
        objects.clear()
        one.round(0.0)

    uids = list(objects)
    monkeypatch.setattr(resizer.log, "warning", drop)
    one.close()
    assert (len(named), [one.record(uid) for uid in uids]) == (2, [None, None])


def sights(*names: str) -> dict[str, Sight]:
    """Policies of which this node has something to say, beside the verdict that they have."""
    raw: list[Object] = [policy_object(name, channel=name) for name in names]
    for one in raw:
        one["status"] = {"conditions": [condition(judge([one])[0], 0.0)]}
    return {one.path: Sight("n1", "files", one, None, problem="p") for one in judge(raw)}


def test_the_end_writes_no_status_any_more(api: Api, server: Server) -> None:
    """It comes in the middle of a round, which has two to write."""
    one = Reporter(api, "n1")
    server.before = lambda path: one._stop.set()
    one.offer(sights("pay", "bill"))
    one._round()
    assert len(server.asked) == 1


def test_statuses_that_there_is_no_time_to_remove_are_named(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = Reporter(api, "n1")
    one.offer(sights("pay", "bill"))
    one._round()
    monkeypatch.setattr(reporter, "ENDING", 0.0)
    with caplog.at_level(logging.WARNING):
        one.close()
    (said,) = caplog.messages
    assert "2 policies" in said
    assert "no time is left" in said


@pytest.mark.slow
def test_the_end_waits_for_no_status_that_the_server_holds_back(
    api: Api, server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It comes in the middle of a round, whose request has the connection."""
    monkeypatch.setattr("qioi.kubernetes.client.TIMEOUT", 600.0)
    monkeypatch.setattr(reporter, "ENDING", 0.0)
    one = Reporter(api, "n1")
    one.offer(sights("pay", "bill"))
    one._round()
    one.offer(sights("pay", "bill", "late"))
    held = Held(server, "/late/")
    thread = started(one.start)
    ending = threading.Thread(target=one.close)
    try:
        held.begun.wait(60.0)
        with caplog.at_level(logging.WARNING):
            ending.start()
            ending.join(60.0)
        thread.join(60.0)
        assert (ending.is_alive(), thread.is_alive(), held.over.is_set()) == (False, False, False)
    finally:
        held.over.set()
        ending.join()
    (said,) = caplog.messages
    assert "3 policies" in said  # the server may yet apply the one that it holds back
    assert len(server.asked) == 3


def test_a_request_for_which_no_time_is_left_is_not_made(api: Api, server: Server) -> None:
    with api.within(0.0), pytest.raises(ApiError, match="no time is left"):
        api.request("get", "GET", "/api", {})
    assert (server.asked, dict(api.requests)) == ([], {})
    api.request("apply", "PATCH", "/api", {}, {}, "application/json")
    assert server.asked == ["/api"]


@pytest.mark.parametrize("kept", [False, True])
def test_a_request_waits_no_longer_than_there_is_time(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a new connection, and over one that was kept."""
    monkeypatch.setattr("qioi.kubernetes.client.TIMEOUT", 600.0)
    over = threading.Event()

    class Answer(Quiet, BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/held":
                over.wait(60.0)
            self.answer({})

    with answering(Answer) as api:
        if kept:
            api.request("get", "GET", "/api", {})
        assert (api._kept is not None and api._kept.sock is not None) == kept
        try:
            with api.within(0.2), pytest.raises(ApiError, match="no answer in time"):
                api.request("get", "GET", "/held", {})
        finally:
            over.set()


def test_the_connections_close_while_a_request_waits(api: Api, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qioi.kubernetes.client.TIMEOUT", 600.0)
    begun, over = threading.Event(), threading.Event()
    errors: list[ApiError] = []

    def ask() -> None:
        try:
            api.request("get", "GET", "/api", {})
        except ApiError as error:
            errors.append(error)

    def hold(path: str) -> None:
        begun.set()
        over.wait()

    server.before = hold
    asking = threading.Thread(target=ask)
    asking.start()
    try:
        begun.wait()
        api.close()
        asking.join(60.0)
        assert (asking.is_alive(), len(errors), over.is_set()) == (False, 1, False)
    finally:
        over.set()
        asking.join()


class Followed:
    """A reflector beside a server that holds a request back, and whether its thread still runs."""

    def __init__(self, api: Api, server: Server, held: str) -> None:
        self.held = Held(server, held)
        self.reflector = Reflector(api, "/api/v1/pods", {}, lambda _: None)
        self.thread = started(self.reflector.start)
        self.held.begun.wait(60.0)

    def end(self) -> None:
        """Let the server answer after all."""
        self.held.over.set()
        self.thread.join()


def test_a_copy_ends_in_the_midst_of_a_list(api: Api, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qioi.kubernetes.client.TIMEOUT", 600.0)
    monkeypatch.setattr("qioi.kubernetes.reflector.ENDING", 60.0)
    followed = Followed(api, server, "/pods")
    try:
        followed.reflector.close()
        assert not followed.thread.is_alive()
    finally:
        followed.end()


def test_the_end_of_one_copy_leaves_others_requests_alone(
    api: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that share a connection, the second one waits for the first one's answer."""
    monkeypatch.setattr("qioi.kubernetes.client.TIMEOUT", 600.0)
    followed = Followed(api, server, "/pods")
    other = Reflector(api, "/api/v1/other", {}, lambda _: None)
    thread = started(other.start)
    try:
        other.close(0.0)
        assert followed.thread.is_alive()
    finally:
        followed.reflector.stop()
        followed.end()
    thread.join()
    assert [path for path in server.asked if "other" in path] == []


def test_a_copy_that_ends_while_its_watch_begins_follows_nothing(api: Api, server: Server) -> None:
    """The watch would last for minutes."""
    one = Reflector(api, "/api/v1/pods", {}, lambda _: None)
    one._version = "7"
    watch, over = api.watch, threading.Event()

    def watched(path: str, query: dict[str, str]) -> Watch:
        made = watch(path, query)
        one.stop()
        return made

    api.watch = watched  # type: ignore[method-assign]
    server.after = lambda path: over.wait()
    one.start()
    try:
        one._thread.join(60.0)
        assert not one._thread.is_alive()
    finally:
        over.set()


def test_the_policies_of_many_namespaces_end_together(
    api: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever their threads wait for: each has what is left of the time of all."""
    given: list[float] = []
    monkeypatch.setattr(Reflector, "close", lambda self, within: given.append(within))
    monkeypatch.setattr(policy_watch, "ENDING", 0.0)
    one = PolicyWatch(api, lambda policies, looks: None)
    one.follow({"a", "b", "c"})
    followed = list(one._followed.values())
    one.close()
    assert given == [0.0, 0.0, 0.0]
    assert all(each._stop.is_set() for each in followed)
    for each in followed:
        each._thread.join()


@pytest.mark.parametrize("file", ["base/daemonset.yaml", "chart/templates/daemonset.yaml"])
def test_all_that_ends_fits_the_grace_of_the_pod(file: str) -> None:
    (line,) = (one for one in (DEPLOY / file).read_text().splitlines() if "terminationGracePeriodSeconds" in one)
    grace = yaml.safe_load(line)["terminationGracePeriodSeconds"]
    assert grace > FILES + resizer.ENDING + reporter.ENDING + cluster.ENDING
