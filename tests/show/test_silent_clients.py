"""Clients that say nothing, or too little, or do not read: they keep nobody else from an answer.

No test here goes by the clock: a service that waited for one of these clients would wait for hours.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from waiting import PATIENCE, until

import qioi.show.connections
from qioi.show.connections import CONNECTIONS, Service
from qioi.show.http import serve_tcp

HOURS = 10_000.0
LONG = b"x" * 20_000_000
ROUTES = {
    "GET /healthz": ("text/plain", lambda _: b"OK"),
    "GET /status": ("application/json", lambda _: LONG),
}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr(qioi.show.connections, "LONGEST", HOURS)
    service = serve_tcp("127.0.0.1", 0, ROUTES)
    yield service
    service.close()


def connect(service: Service) -> socket.socket:
    return socket.create_connection(service.address[:2], timeout=PATIENCE)


def is_healthy(service: Service) -> bool:
    with connect(service) as client:
        client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        with client.makefile("rb") as answer:
            return answer.read().endswith(b"\r\n\r\nOK")


def test_thirty_silent_clients_do_not_delay_the_health_check(service: Service) -> None:
    with ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(connect(service))
        assert is_healthy(service)


def test_thirty_dribbling_clients_do_not_delay_the_health_check(service: Service) -> None:
    over = threading.Event()
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(service)) for _ in range(30)]

        def dribble() -> None:
            while not over.wait(0.02):
                for one in clients:
                    with contextlib.suppress(OSError):
                        one.send(b"G")

        thread = threading.Thread(target=dribble)
        thread.start()
        try:
            assert is_healthy(service)
        finally:
            over.set()
            thread.join()


def test_thirty_clients_that_ask_and_do_not_read_do_not_delay_the_health_check(service: Service) -> None:
    with ExitStack() as stack:
        for _ in range(30):
            stack.enter_context(connect(service)).sendall(b"GET /status HTTP/1.0\r\n\r\n")
        assert is_healthy(service)


@pytest.mark.slow
def test_more_clients_than_there_is_room_for_do_not_keep_the_health_check_out(service: Service) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(service)) for _ in range(3 * CONNECTIONS)]
        assert is_healthy(service)
        assert clients[0].recv(1) == b""  # the first had to make room


@pytest.mark.parametrize("begun", [b"", b"GET /heal"])
def test_a_client_that_does_not_end_its_question_is_hung_up_on(
    service: Service, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qioi.show.connections, "LONGEST", 0.1)
    with connect(service) as client:
        client.sendall(begun)
        assert client.recv(100) == b""


def test_a_question_without_end_is_hung_up_on(service: Service) -> None:
    def ask() -> None:
        for _ in range(10_000):
            client.sendall(b"X: y\r\n" * 1000)

    with connect(service) as client:
        client.sendall(b"GET /healthz HTTP/1.0\r\n")
        with pytest.raises(ConnectionError):
            ask()
    assert is_healthy(service)


def test_the_health_check_is_answered_while_the_service_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that costs CPU time is followed by a rest, in which a cheap one is given all the same."""
    service = serve_tcp("127.0.0.1", 0, {**ROUTES, "GET /metrics": ("text/plain", lambda _: LONG[:5])})
    with contextlib.closing(service):
        with connect(service) as client:
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert client.makefile("rb").read().endswith(b"x")
        service._rested = float("inf")
        with connect(service) as waiting:
            waiting.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert is_healthy(service)


def test_a_question_in_many_pieces_is_answered(service: Service) -> None:
    with connect(service) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in (b"GET /hea", b"lthz HTTP/1.1\r\nHo", b"st: localhost\r\n", b"\r", b"\n"):
            client.sendall(piece)
        assert client.makefile("rb").read().startswith(b"HTTP/1.0 200")


def test_a_slow_reader_has_its_whole_answer(service: Service) -> None:
    with connect(service) as client:
        client.sendall(b"GET /status HTTP/1.0\r\n\r\n")
        assert client.makefile("rb").read().endswith(b"\r\n\r\n" + LONG)


class Besieged(socket.socket):
    """A listener at which somebody connects again and again: a new client has come each time that one is let in."""

    def __init__(self) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_STREAM)
        self.bind(("127.0.0.1", 0))
        self.listen()
        self.others = [socket.create_connection(self.getsockname())]  # never let in: there is always one that waits

    def accept(self) -> tuple[socket.socket, object]:
        if len(self.others) > 10:
            raise BlockingIOError
        client, other = socket.socketpair()
        self.others.append(other)
        return client, None


def test_a_service_also_rests_after_letting_a_client_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody on the host may connect, and the daemon may have real-time priority. The rest ends with the service."""
    monkeypatch.setattr(qioi.show.connections, "REST", 1e7)  # hours
    with Besieged() as listener, ExitStack() as stack:
        service = Service(listener, "metrics", lambda _: b"", lambda _: True)
        until(lambda: len(listener.others) > 1)
        service.close()
        for one in listener.others:
            stack.enter_context(one)
        until(lambda: not service._thread.is_alive())
        assert len(listener.others) == 2
