"""What peers' metrics endpoints may say and do: their own channels, finite numbers, one whole page in time."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

import pytest
from waiting import until

from qioi.model import Component, Credentials, Role
from qioi.model.counting import Count
from qioi.monitor.commits.throughput import PEER_EXPIRY
from qioi.monitor.logs.component_logs import LogChannels
from qioi.monitor.metrics import endpoints
from qioi.monitor.metrics.endpoints import LONGEST, Endpoint, MeteredChannels

#: An answer, as bytes that are sent one after the other, with a pause in seconds between them.
Answer = Callable[[], Iterator[tuple[bytes, float]]]
HEAD = b"HTTP/1.0 200 OK\r\n\r\n"


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """Serve one answer after the other, each in a thread of its own."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve(client: socket.socket) -> None:
            with client, suppress(OSError):
                client.recv(4096)
                for part, pause in answer():
                    client.sendall(part)
                    time.sleep(pause)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/metrics"
        server.shutdown(socket.SHUT_RDWR)


def rows(channel: str, height: float, transactions: float) -> bytes:
    return (
        f'ledger_blockchain_height{{channel="{channel}"}} {height}\n'
        f'ledger_transaction_count{{channel="{channel}",validation_code="VALID"}} {transactions}\n'
    ).encode()


def fixed(body: bytes) -> Answer:
    return lambda: iter([(HEAD + body, 0.0)])


def channels(*peers: tuple[str, str, tuple[str, ...]]) -> MeteredChannels:
    components = [Component(n, Role.PEER, n, serves, metrics_url=url) for n, url, serves in peers]
    return MeteredChannels(LogChannels(components, ("red", "blue")), components, every=0.05)


def looks(metered: MeteredChannels) -> int:
    """Have one period read, and count the pages that came so far."""
    metered.read(time.monotonic())
    return metered.states()[0].lines


def answered(metered: MeteredChannels) -> list[str]:
    """Have one period read, and name the components that have answered."""
    metered.read(time.monotonic())
    return [state.component for state in metered.states() if state.kind == "metrics" and state.lines]


def problem(metered: MeteredChannels) -> str | None:
    metered.read(time.monotonic())
    return metered.states()[0].problem


def says(metered: MeteredChannels, expected: str) -> None:
    """Have periods read until the problem is this one. An answer may first be too late, on a busy host."""
    until(lambda: problem(metered) == expected, what=expected)


def test_a_peer_is_believed_about_its_own_channels_only() -> None:
    forged = fixed(rows("red", 5, 50) + rows("blue", 4_000_000, 9_000_000))
    with answering(forged) as url, closing(channels(("peer0", url, ("red",)))) as metered:
        until(lambda: looks(metered) > 1)
        assert metered.seen() == ("red",)
        (state,) = metered.states()
        assert (state.commits, state.skipped) == (50, {"foreign-channel": 1})


def test_a_peer_of_every_channel_is_believed_about_all() -> None:
    both = fixed(rows("red", 5, 50) + rows("blue", 6, 60))
    with answering(both) as url, closing(channels(("peer0", url, ()))) as metered:
        until(lambda: looks(metered) > 1)
        assert metered.seen() == ("red", "blue")
        assert metered.states()[0].skipped == {}


def test_a_peer_that_answers_no_more_is_forgotten_after_a_day() -> None:
    with answering(fixed(rows("red", 5, 50))) as url, closing(channels(("peer0", url, ()))) as metered:
        until(lambda: looks(metered) > 0)
        for later, height in ((PEER_EXPIRY - 60, 5), (PEER_EXPIRY + 60, None)):
            metered.read(time.monotonic() + later)
            assert metered._pages.reading("red", time.monotonic()).height == height


def test_numbers_without_end_do_not_end_the_loop() -> None:
    huge = fixed(rows("red", 1, 1.7e308) + rows("blue", 1, 1.7e308))
    with answering(huge) as url, closing(channels(("peer0", url, ()))) as metered:
        until(lambda: looks(metered) > 1)
        assert metered.states()[0].commits == 0


def test_where_no_thread_can_be_started_that_is_said_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as where the service's TasksMax is reached, at the start or at a reload."""
    start, full = threading.Thread.start, [True]

    def start_if_there_is_room(thread: threading.Thread) -> None:
        if full and thread.name.startswith("metrics of"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_if_there_is_room)
    with answering(fixed(rows("red", 5, 50))) as url, closing(channels(("peer0", url, ("red",)))) as metered:
        for _ in range(2):
            assert problem(metered) == f"{url}: can't start new thread"
        full.clear()
        until(lambda: looks(metered) > 1)
        assert metered.states()[0].problem is None
        assert [one.name for one in threading.enumerate()].count("metrics of peer0") == 1


class Answered(Endpoint):
    """Is answered as soon as somebody has seen that an answer is waited for."""

    waiting: float | None = None

    @property
    def _asked(self) -> float | None:  # type: ignore[override]
        waiting, self.waiting = self.waiting, None
        return waiting

    @_asked.setter
    def _asked(self, asked: float | None) -> None:
        self.waiting = asked

    def _run(self) -> None:
        """Ask nobody."""


def test_an_answer_may_come_while_the_time_that_it_took_is_looked_at() -> None:
    endpoint = Answered(("peer0", "http://127.0.0.1:1/metrics", Credentials(), ()), {})
    endpoint.waiting = 0.0
    assert endpoint.take(LONGEST + 1) == []


@pytest.mark.slow
def test_who_dribbles_is_hung_up_on_and_that_is_said() -> None:
    ended = threading.Event()

    def dribble() -> Iterator[tuple[bytes, float]]:
        yield HEAD, 0.0
        try:
            while True:
                yield b"#", 0.1
        finally:
            ended.set()

    with answering(dribble) as url, closing(channels(("peer0", url, ()))) as metered:
        says(metered, f"{url}: no whole page in {LONGEST:g} s")
        until(ended.is_set)


def test_a_page_that_is_too_large_is_refused_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    page = rows("red", 5, 50)
    monkeypatch.setattr(endpoints, "MAX_PAGE", len(page))
    with answering(fixed(page)) as url, closing(channels(("peer0", url, ("red",)))) as metered:
        until(lambda: looks(metered) > 1)

    def endless() -> Iterator[tuple[bytes, float]]:
        yield HEAD + page, 0.0
        while True:
            yield b"#", 0.1

    for larger in (fixed(page + b"#"), endless):
        with answering(larger) as url, closing(channels(("peer0", url, ("red",)))) as metered:
            says(metered, f"{url}: a page of more than {len(page)} bytes")
            assert metered.states()[0].lines == 0


@pytest.mark.parametrize(
    "head", [b"HTTP/1.0 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", b"HTTP/1.0 500 Oops\r\n\r\n"]
)
def test_nobody_is_followed_elsewhere(head: bytes) -> None:
    with answering(lambda: iter([(head, 0.0)])) as url, closing(channels(("peer0", url, ()))) as metered:
        says(metered, f"{url}: HTTP status {head[9:].splitlines()[0].decode()}")


def test_a_page_that_takes_long_to_take_apart_is_asked_for_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """One made up of quotes took four of every five seconds of the daemon's CPU."""
    spent = {"metrics of dear": 100.0, "metrics of cheap": 0.0}
    times: dict[str, float] = {}

    def thread_time() -> float:
        name = threading.current_thread().name
        times[name] = times.get(name, 0.0) + spent.get(name, 0.0)
        return times[name]

    monkeypatch.setattr(endpoints.time, "thread_time", thread_time)
    page = fixed(rows("red", 3.0, 7.0))
    with answering(page) as dear, answering(page) as cheap:
        peers = ("dear", dear, ("red",)), ("cheap", cheap, ("red",))
        with closing(channels(*peers)) as metered:

            def looked() -> dict[str, int]:
                metered.read(time.monotonic())
                return {one.component: one.lines for one in metered.states()}

            until(lambda: looked()["cheap"] >= 5 and looked()["dear"] >= 1)
            assert looked()["dear"] == 1


def test_no_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    for exempts in ("no_proxy", "NO_PROXY"):  # may name this very host
        monkeypatch.delenv(exempts, raising=False)
    with answering(fixed(rows("red", 5, 50))) as url, closing(channels(("peer0", url, ("red",)))) as metered:
        until(lambda: looks(metered) > 1)


def test_a_packed_page_is_none_and_that_is_said() -> None:
    packed = b"HTTP/1.0 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(rows("red", 5, 50))
    with answering(lambda: iter([(packed, 0.0)])) as url, closing(channels(("peer0", url, ()))) as metered:
        says(metered, f"{url}: the page comes as gzip")


def test_a_page_in_chunks_is_one() -> None:
    text = rows("red", 5, 50)
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (text[:30], text[30:])) + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with answering(lambda: iter([(head + chunks, 0.0)])) as url, closing(channels(("peer0", url, ()))) as metered:
        until(lambda: looks(metered) > 1)
        assert metered.states()[0].commits == 50


@pytest.mark.parametrize(
    ("head", "missing", "said"),
    [
        (b"Content-Length: %d\r\n\r\n", 1, "a page cut short by 1 bytes"),
        (b"Content-Length: %d\r\n\r\n", 100_000, "a page cut short by 100000 bytes"),
        (b"Transfer-Encoding: chunked\r\n\r\n%x\r\n", 60, "IncompleteRead(0 bytes read)"),
    ],
)
def test_a_page_that_is_cut_short_is_none_and_that_is_said(head: bytes, missing: int, said: str) -> None:
    """Such as where the peer is killed meanwhile: of the channels that are missing nothing is known."""
    text = rows("red", 5, 50)
    cut = b"HTTP/1.1 200 OK\r\n" + head % (len(text) + missing) + text
    with answering(lambda: iter([(cut, 0.0)])) as url, closing(channels(("peer0", url, ()))) as metered:
        says(metered, f"{url}: {said}")
        assert (metered.states()[0].lines, metered.seen()) == (0, ())


def test_a_page_of_the_length_that_is_announced_is_whole() -> None:
    text = rows("red", 5, 50)
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text + b"more"
    with answering(lambda: iter([(whole, 0.0)])) as url, closing(channels(("peer0", url, ()))) as metered:
        until(lambda: looks(metered) > 1)
        assert (metered.states()[0].commits, metered.states()[0].problem) == (50, None)


def test_what_an_endpoint_says_does_nothing_to_a_terminal() -> None:
    head = b"HTTP/1.0 500 \x1b[2J\x9b31mOops" + b"s" * 5000 + b"\r\n\r\n"
    with answering(lambda: iter([(head, 0.0)])) as url, closing(channels(("peer0", url, ()))) as metered:
        until(lambda: (problem(metered) or "").startswith(f"{url}: HTTP status 500  [2J 31mOops"))
        said = metered.states()[0].problem or ""
        assert (said.isprintable(), len(said) < 300) == (True, True)


def test_a_channel_with_a_counter_of_its_own_is_read_from_every_node() -> None:
    counts = {"red": Count("commits_total", {"kind": ("write",)})}
    page = b'commits_total{kind="write"} 5\ncommits_total{kind="read"} 90\n' + rows("red", 3, 1000)
    with answering(fixed(page)) as one, answering(fixed(page)) as two:
        nodes = [Component(n, Role.REPLICA, n, (), metrics_url=url) for n, url in (("a", one), ("b", two))]
        metered = MeteredChannels(LogChannels(nodes, ("red", "blue")), nodes, every=0.05, counts=counts)
        try:
            until(lambda: answered(metered) == ["a", "b"])
            assert metered.read(time.monotonic())["red"].committed == 0
            assert [state.commits for state in metered.states() if state.kind == "metrics"] == [1005, 1005]
            assert "red" in metered.seen()
            metered.watch(nodes[:1], ("red",))
            assert [state.component for state in metered.states() if state.kind == "metrics"] == ["a"]
        finally:
            metered.close()


@pytest.mark.parametrize(
    ("before", "after", "commits"),
    [(("red",), ("red", "blue"), 12), (("red",), ("blue",), 7), (("red", "blue"), ("red",), 5), (("red",), (), 12)],
)
def test_a_page_counts_for_the_channels_that_its_component_serves_now(
    before: tuple[str, ...], after: tuple[str, ...], commits: int
) -> None:
    counts = {"red": Count("red_total"), "blue": Count("blue_total")}
    with answering(fixed(b"red_total 5\nblue_total 7\n")) as url:
        node = Component("a", Role.REPLICA, "a", before, metrics_url=url)
        logs = LogChannels([node], ("red", "blue"))
        with closing(MeteredChannels(logs, [node], every=0.05, counts=counts)) as metered:
            until(lambda: looks(metered) > 0)
            metered.watch([replace(node, channels=after)], ("red", "blue"))
            begun = metered.states()[0].lines
            until(lambda: looks(metered) > begun + 1)
            assert metered.states()[0].commits == commits
