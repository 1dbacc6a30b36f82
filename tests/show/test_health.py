"""Who asks whether the daemon is well hears of its loop, not of the thread that answers."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console
from toy_daemon import ToySite, peer
from waiting import PATIENCE

from qioi.cli import main
from qioi.show.http import serve_tcp, serve_unix
from qioi.show.publisher import Orders, Publisher
from qioi.show.stalled import STALLED
from qioi.show.top import History, view


def shows(folder: Path, clock: Callable[[], float]) -> Publisher:
    site = ToySite(folder, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}})
    return Publisher(site.run(1), site.hierarchy, Orders(print, lambda _: None, print), clock)


def test_a_loop_that_hangs_is_told(tmp_path: Path) -> None:
    now = 100.0
    publisher = shows(tmp_path, lambda: now)
    snapshot = publisher.snapshot

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


@pytest.mark.parametrize("command", [["status"], ["top", "-n", "1"], ["explain", "peer0"]])
def test_commands_say_first_that_what_they_show_is_of_then(tmp_path: Path, command: list[str]) -> None:
    now = 100.0
    publisher = shows(tmp_path, lambda: now)
    usual = STALLED + 2 * publisher.snapshot.period

    def said(*more: str) -> str:
        asked = CliRunner().invoke(main, [*command, "--socket", str(tmp_path / "sock"), *more])
        assert asked.exit_code == 0, asked.output
        return asked.stdout

    with closing(serve_unix(tmp_path / "sock", publisher.routes())):
        now += usual
        assert "no period has ended" not in said()
        now += 13.0
        (first, *_) = said().splitlines()
        assert f"no period has ended for {usual + 13:.0f} s: what follows is of then" in first
        if command[0] != "top":
            assert json.loads(said("--output", "json"))["snapshot_age"] == usual + 13
        publisher.publish(publisher.snapshot)
        assert "no period has ended" not in said()


def test_top_says_so_in_red_and_finds_room_for_it(tmp_path: Path) -> None:
    names = [f"peer{number}" for number in range(60)]
    site = ToySite(tmp_path, [peer(name, f"g/{name}") for name in names], channels={"red": {"threshold": 100}})
    document = {**site.run(1).document(), "snapshot_age": 100.0}
    console = Console(width=80, file=StringIO(), force_terminal=True, color_system="standard", markup=False)
    console.print(view(document, History(), 80, 24))
    rows = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert rows[0].startswith("\x1b[31mno period has ended for 100 s")
    assert len(rows) <= 24


def test_metrics_tell_it_by_the_clock_that_nobody_sets(tmp_path: Path) -> None:
    now = 100.0
    publisher = shows(tmp_path, lambda: now)
    now += 45.0
    _, render = publisher.routes()["GET /metrics"]
    assert b"\nqioi_snapshot_age_seconds 45.0\n" in render({})
