"""A peer's metrics endpoint as the source, on a real daemon: fallback to the log, and an endpoint that hangs."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import median
from typing import Any

import pytest
from running import Site, end
from waiting import until

pytestmark = pytest.mark.slow


class Peer(ThreadingHTTPServer):
    """Shows ten blocks a second, each of three valid and thirty invalid transactions, since it began."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Page)
        self.begun = time.monotonic()
        self.url = f"http://127.0.0.1:{self.server_port}/metrics"
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Peer)
        blocks = 1 + int(10 * (time.monotonic() - self.server.begun))
        body = (
            f'ledger_blockchain_height{{channel="red"}} {blocks}\n'
            f'ledger_transaction_count{{channel="red",validation_code="VALID"}} {3 * blocks}\n'
            f'ledger_transaction_count{{channel="red",validation_code="MVCC_READ_CONFLICT"}} {30 * blocks}\n'
        ).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.shutdown()
    peer.server_close()


def throughput(site: Site) -> float | None:
    found: float | None = (site.status() or {})["channels"][0]["throughput"]
    return found


def as_shown(tps: float | None) -> bool:
    """Whether it is that of the 30 valid ones a second. On a busy host answers come late: not in every look."""
    return 20 < (tps or 0) < 45


def over_a_window(site: Site) -> float:
    """The median of 20 periods, over the 6 s that a rate covers: one that is too high may be right for a moment."""
    looks: dict[int, float] = {}

    def are_enough() -> bool:
        if status := site.status():
            looks[status["totals"]["periods"]] = status["channels"][0]["throughput"] or 0.0
        return len(looks) >= 20

    until(are_enough, pause=0.3)
    return median(looks.values())


def source(site: Site, kind: str) -> dict[str, Any]:
    return next(one for one in (site.status() or {})["sources"] if one["kind"] == kind)


def test_the_endpoint_speaks_while_it_answers_and_then_the_log(site: Site, peer: Peer) -> None:
    site.component("peer0")
    site.components[0]["metrics_url"] = peer.url
    process = site.start()
    until(lambda: as_shown(throughput(site)))  # nothing is in the log yet
    assert as_shown(over_a_window(site))
    assert source(site, "metrics")["lines"] >= 2
    peer.shutdown()
    peer.server_close()
    # A connection that was under way is reset; those after it are refused.
    site.commit_until(lambda: "Connection refused" in (source(site, "metrics")["problem"] or ""))
    height = site.blocks
    site.commit_until(lambda: height <= ((site.status() or {})["channels"][0]["height"] or 0) <= site.blocks)
    status, text = end(process)
    assert status == 0
    assert "metrics of peer0: http://127.0.0.1" in text


def test_a_channel_of_two_peers_counts_once(site: Site, peer: Peer) -> None:
    site.component("peer0")
    site.component("peer1")
    for one in site.components:
        one |= {"metrics_url": peer.url, "source": "metrics"}
        one.pop("log", None)
    process = site.start()
    until(lambda: as_shown(throughput(site)))
    assert as_shown(over_a_window(site))
    assert [one["kind"] for one in (site.status() or {})["sources"]] == ["metrics", "metrics"]
    assert end(process)[0] == 0


def test_an_endpoint_that_never_answers_does_not_hold_up_the_loop(site: Site) -> None:
    share = site.component("peer0")
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        site.components[0]["metrics_url"] = f"http://127.0.0.1:{deaf.getsockname()[1]}/metrics"
        process = site.start()
        site.commit_until(lambda: int(share.read_text()) > 1024)  # by the log
        until(lambda: source(site, "metrics")["problem"] is not None)
        assert "timed out" in source(site, "metrics")["problem"]
        until(lambda: (site.status() or {})["loop"] < 1.0)  # and an answer may take twice as long
        assert end(process)[0] == 0


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"source": "metrics"}, "components: peer0: source metrics: accepted together with a `metrics_url` only"),
        ({"metrics_url": "127.0.0.1:9443"}, 'components.0.metrics_url: "127.0.0.1:9443": accepted is a URL such as'),
    ],
)
def test_what_is_not_accepted_is_said(site: Site, change: dict[str, str], expected: str) -> None:
    site.component("peer0")
    site.components[0] |= change
    done = site.qioi("check", "-c", str(site.config()))
    assert done.returncode == 1
    assert expected in done.stderr
