"""The client beside a token that cannot be read, and a server that does not answer a watch."""

from __future__ import annotations

import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from k8s_toy_server import Quiet, answering

import qioi.kubernetes.client
from qioi.kubernetes.client import WATCH_SILENCE, Access, Api, ApiError

PATH = "/api/v1/pods"


@pytest.mark.parametrize(("content", "why"), [(None, "No such file or directory"), (b"\xff", "'ascii' codec")])
def test_a_token_that_cannot_be_read_is_named(content: bytes | None, why: str, tmp_path: Path) -> None:
    """It is refused at the start, and named later on, where the server could not have said anything of it."""
    file = tmp_path / "token"
    access, problem = Access("http://127.0.0.1:9", token=file), f"token {file}: {why}"
    file.write_text("abc")
    with closing(Api(access)) as api:
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        for ask in (lambda: api.request("get", "GET", PATH, {}), lambda: api.watch(PATH, {}), lambda: Api(access)):
            with pytest.raises(ApiError) as refused:
                ask()
            assert str(refused.value).startswith(problem)
        assert not api.requests


@pytest.mark.parametrize("root", ["", "/", "/k8s/clusters/c-m-abc", "/k8s/clusters/c-m-abc/"])
def test_a_server_below_a_path_is_asked_there(root: str) -> None:
    """A proxy in front of many clusters would have the token, and answer for another one."""
    asked: list[str] = []

    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.answer({})

        def do_PATCH(self) -> None:
            self.do_GET()

    with answering(Answer, root) as api:
        api.list(PATH, {"a": "b"})
        api.apply_status(f"{PATH}/x", {}, "qioi")
        api.watch(PATH, {}).close()
    root = root.rstrip("/")
    assert [one.partition("?")[0] for one in asked] == [f"{root}{PATH}", f"{root}{PATH}/x/status", f"{root}{PATH}"]


def test_a_watch_that_does_not_begin_is_not_waited_for_as_one_that_has(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = threading.Event()

    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if "late=yes" in self.path:
                waited.wait(5.0)
            self.send_response(200)
            self.end_headers()

    with answering(Answer) as api:
        with closing(api.watch(PATH, {})) as watch:
            assert watch._socket.gettimeout() == WATCH_SILENCE
        monkeypatch.setattr(qioi.kubernetes.client, "TIMEOUT", 0.1)
        with pytest.raises(ApiError, match="no answer in time"):
            api.watch(PATH, {"late": "yes"})
        waited.set()
    assert dict(api.requests) == {("watch", "200"): 1, ("watch", "unreachable"): 1}


@pytest.mark.parametrize(("reset", "why"), [(True, "Service Unavailable"), (False, '{"mess')])
def test_a_watch_whose_refusal_breaks_off_has_its_status(reset: bool, why: str) -> None:
    """By a reset, and by a chunk that is none."""

    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if reset:
                self.break_off(503)
                return
            self.send_response(503)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b'6\r\n{"mess\r\nnone\r\n')

    with answering(Answer) as api:
        with pytest.raises(ApiError) as refused:
            api.watch(PATH, {})
        assert (str(refused.value), refused.value.status) == (f"watch {PATH}: 503 {why}", 503)
        assert dict(api.requests) == {("watch", "503"): 1}


def test_a_request_waits_for_another_one_no_longer_than_there_is_time() -> None:
    with answering(Quiet) as api, api._lock, api.within(0.05), pytest.raises(ApiError, match="not asked: another"):
        api.request("get", "GET", PATH, {})
    assert not api.requests


def test_a_thread_that_is_cut_off_makes_way_for_nobody_until_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer comes in the midst; the next thread's request over the same connection would be cut off instead."""
    begun, over = threading.Event(), threading.Event()
    busy: list[bool] = []

    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            begun.set()
            over.wait(60.0)
            self.answer({})

    with answering(Answer) as api:
        asking = threading.Thread(target=api.request, args=("get", "GET", PATH, {}))

        def look() -> None:
            over.set()
            asking.join(0.2)
            busy.append(asking.is_alive())

        monkeypatch.setattr(api, "_cut", look)
        asking.start()
        try:
            begun.wait(60.0)
            api.interrupt(asking)
        finally:
            over.set()
            asking.join()
        assert busy == [True]
