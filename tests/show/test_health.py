"""Who asks whether the daemon is well hears of its loop, not of the thread that answers."""

from __future__ import annotations

import http.client
from contextlib import closing
from pathlib import Path

from toy_daemon import ToySite, peer
from waiting import PATIENCE

from qioi.kernel.hierarchy import find_hierarchy
from qioi.show.http import serve_tcp
from qioi.show.publisher import STALLED, Orders, Publisher


def test_a_loop_that_hangs_is_told(tmp_path: Path) -> None:
    snapshot = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}}).run(1)
    now = 100.0
    orders = Orders(print, lambda _: None, print)
    publisher = Publisher(snapshot, find_hierarchy(), orders, lambda: now)

    def asked() -> tuple[int, bytes]:
        with closing(http.client.HTTPConnection(*address, timeout=PATIENCE)) as connection:
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            return answer.status, answer.read()

    with closing(serve_tcp("127.0.0.1", 0, publisher.shown("127.0.0.1"))) as service:
        address = service.address
        assert asked() == (200, b"OK\n")
        now += STALLED + 2 * snapshot.period + 0.1
        assert asked() == (503, f"no period has ended for {STALLED + 2 * snapshot.period:.0f} s".encode())
        publisher.publish(snapshot)
        assert asked() == (200, b"OK\n")
