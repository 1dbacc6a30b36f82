"""Many endpoints that each answer the most they may, at once: what is held of all of them together stays small."""

from __future__ import annotations

import gc
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest
from waiting import until

from qioi.model import Component, Role
from qioi.monitor.logs.component_logs import LogChannels
from qioi.monitor.metrics import endpoints
from qioi.monitor.metrics.endpoints import MeteredChannels
from qioi.monitor.metrics.exposition import HEIGHT

ENDPOINTS = 12
#: Bytes that one endpoint may have held of its answer and of what is made of it; an answer has ten times as many.
FAIR = 300_000
HEAD = b"HTTP/1.0 200 OK\r\n\r\n"
ROW = HEIGHT.encode() + b'{channel="' + b"r" * 100 + b'%05d"} 1\n'


def page_of_rows() -> bytes:
    return HEAD + b"".join(ROW % (number % 500) for number in range(19_000))


def page_of_others() -> bytes:
    return HEAD + b"other_metric 1\n" * 200_000


def head_alone() -> bytes:
    lines = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 60_000) for number in range(90))
    return HEAD.removesuffix(b"\r\n") + lines


class Servers:
    """Answer all but the end of a page, which they keep until they are let go."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.sent = 0
        self.refused = 0
        self.go_on = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0), backlog=2 * ENDPOINTS)
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}/metrics"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._server.accept()[0],), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                client.recv(4096)
                client.sendall(self.answer)
                self.sent += 1
                self.go_on.wait(60)
                client.sendall(b"last_line 1\n")
            except OSError:
                self.refused += 1

    def close(self) -> None:
        self.go_on.set()
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@contextmanager
def traced() -> Iterator[Callable[[], int]]:
    """Give how many bytes have been held at most since the beginning."""
    gc.collect()
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "problem"), [(page_of_rows, None), (page_of_others, None), (head_alone, "a head of more than 65536 bytes")]
)
def test_what_is_held_of_many_large_answers_is_bounded(
    make: Callable[[], bytes], problem: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "TIMEOUT", 60.0)
    monkeypatch.setattr(endpoints, "LONGEST", 600.0)
    answer = make()
    assert len(answer) > 2_500_000
    with closing(Servers(answer)) as servers, traced() as most:
        nodes = [Component(f"p{n}", Role.PEER, f"p{n}", (), metrics_url=servers.url) for n in range(ENDPOINTS)]
        with closing(MeteredChannels(LogChannels((), ()), nodes, every=600.0)) as metered:
            until(lambda: servers.sent + servers.refused >= ENDPOINTS)
            servers.go_on.set()

            def ended() -> bool:
                metered.read(time.monotonic())
                return all(one.lines or one.problem for one in metered.states())

            until(ended)
            problems = {one.problem and one.problem.removeprefix(f"{servers.url}: ") for one in metered.states()}
            held = most()
    assert problems == {problem}
    assert held < ENDPOINTS * FAIR
