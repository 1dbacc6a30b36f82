"""Who asks a daemon, or something else that answers in its place."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

import pytest
from waiting import PATIENCE

import qioi.show.connections
import qioi.show.http
from qioi.show.http import (
    UnixConnection,
    UnreachableError,
    get_json,
    request_json,
    serve_unix,
)


def test_who_answers_something_else_is_no_daemon(tmp_path: Path) -> None:
    service = serve_unix(tmp_path / "sock", {"GET /status": ("text/plain", lambda _: b"<html>")})
    with contextlib.closing(service), pytest.raises(UnreachableError, match="no daemon answers"):
        get_json(tmp_path / "sock", "/status")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "without a word"),
        (b"<html>\n\x1b[2J\xff</html>\n", "<html>  [2J\N{REPLACEMENT CHARACTER}</html>"),
        (b"x" * 10_000, "x" * 200),
    ],
    ids=("empty", "untrusted", "long"),
)
def test_what_somebody_else_answers_is_said_in_one_line(tmp_path: Path, body: bytes, said: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "sock"))
        listener.listen()

        def refuse() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(qioi.show.connections.QUESTION)
                client.sendall(b"HTTP/1.0 502 Bad Gateway\r\n\r\n" + body)

        thread = threading.Thread(target=refuse, daemon=True)
        thread.start()
        with pytest.raises(UnreachableError) as failed:
            get_json(tmp_path / "sock", "/status")
        thread.join(PATIENCE)
    assert str(failed.value) == f"{tmp_path}/sock/status: HTTP status 502: {said}"


class Late(UnixConnection):
    """A client that gets no CPU after its first step until it has been hung up on."""

    times = 0

    def connect(self) -> None:
        super().connect()
        if Late.times:
            Late.times -= 1
            assert self.sock.recv(1) == b""


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_a_client_that_is_late_to_ask_comes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    monkeypatch.setattr(qioi.show.connections, "LONGEST", 1.0)
    monkeypatch.setattr(qioi.show.http, "UnixConnection", Late)
    monkeypatch.setattr(Late, "times", times)
    with contextlib.closing(serve_unix(tmp_path / "sock", {"GET /status": ("application/json", lambda _: b"{}")})):
        assert get_json(tmp_path / "sock", "/status") == {}
    assert Late.times == 0


def test_an_order_that_was_read_is_not_given_twice(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "sock"))
        listener.listen()
        orders = []

        def read_and_die() -> None:
            client, _ = listener.accept()
            with client:
                orders.append(client.recv(qioi.show.connections.QUESTION))

        thread = threading.Thread(target=read_and_die, daemon=True)
        thread.start()
        with pytest.raises(UnreachableError, match="Remote end closed"):
            request_json(tmp_path / "sock", "POST", "/threshold", {"tps": "40"})
        thread.join(PATIENCE)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):  # and nobody has come since
            listener.accept()
        assert [order.split()[:2] for order in orders] == [[b"POST", b"/threshold?tps=40"]]


def test_a_daemon_that_does_not_answer_in_time_is_not_said_to_be_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qioi.show.http, "PATIENCE", 0.05)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "sock"))
        listener.listen()
        for method, rest in (("GET", ""), ("POST", "; it drops the order, unless it is just carrying it out")):
            with pytest.raises(UnreachableError) as failed:
                request_json(tmp_path / "sock", method, "/threshold", {"tps": "40"})
            said = "the daemon has not answered for 0.05 s: it stands still, or gets no CPU"
            assert str(failed.value) == f"{tmp_path}/sock: {said}{rest}"
