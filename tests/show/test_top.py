"""The live view: its sparklines, and the command on a real terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec import convert, to_builtins
from rich.console import Console
from running import Site, end
from toy_daemon import ToySite, peer
from waiting import PATIENCE

from qioi.cli import main
from qioi.commands.explain import lines
from qioi.commands.status import show
from qioi.show.explain import explain
from qioi.show.explanation import Explanation
from qioi.show.http import Service, serve_unix
from qioi.show.top import BARS, PLAIN, WIDTH, WITH_REASONS, History, bars_for, head, sparkline, view


def status(periods: int, share: int | None, name: str = "peer0") -> dict[str, object]:
    component = {"name": name, "share": share, "delay": 0.001}
    return {"totals": {"periods": periods}, "channels": [{"name": "red", "throughput": 5.0}], "components": [component]}


def test_a_sparkline_goes_from_nothing_to_the_largest_with_gaps_for_the_unknown() -> None:
    assert sparkline([0, 50, None, 100]) == f"{BARS[0]}{BARS[4]} {BARS[-1]}"
    assert sparkline([]) == ""
    assert sparkline([0.0, 0.0]) == BARS[0] * 2


def test_a_period_that_is_seen_twice_counts_once() -> None:
    history = History()
    for periods in (1, 1, 2):
        history.take(status(periods, 1024))
    assert len(history.line("share", "peer0")) == 2


def test_it_is_bounded_and_forgets_who_is_gone() -> None:
    history = History()
    for periods in range(3 * WIDTH):
        history.take(status(periods, periods))
    assert len(history.line("share", "peer0")) == WIDTH
    history.take(status(1000, 5, "peer1"))
    assert history.line("share", "peer0") == ""


def test_a_daemon_of_an_older_version_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that has no early periods, and says nothing of them."""
    site = ToySite(tmp_path, [peer("peer0", "g/p")], channels={"red": {"threshold": 100}})
    document = site.run(1).document()
    explained = to_builtins(explain(site.snapshot, "peer0", site.hierarchy))
    del document["totals"]["early"], explained["early"], explained["limit"], explained["inputs"]["foreigners"]
    show(document)
    assert "1 periods, - early, 0 late" in capsys.readouterr().out
    assert "1 periods, - early, 0 late" in head(document).plain
    assert dict(lines(convert(explained, Explanation)))["component"] == "peer0 (peer)"


@pytest.mark.parametrize(("width", "whole"), [(80, False), (WITH_REASONS, True)])
def test_whose_it_is_can_be_read_on_a_terminal_of_any_width(tmp_path: Path, width: int, whole: bool) -> None:
    name = "cc-smallbank-peer0-org1"
    site = ToySite(tmp_path, [peer(name, "g/p")], channels={"red": {"threshold": 100}})
    history = History()
    for _ in range(WIDTH):
        history.take(document := site.run(1).document())
    document["components"][0]["problem"] = "it is gone"
    console = Console(width=width)
    with console.capture() as capture:
        console.print(view(document, history, width))
    text = capture.get()
    assert name in text
    assert all(len(line) <= width for line in text.splitlines())
    assert "it is gone" in text
    assert ("Last decision" in text) == whole


@pytest.mark.parametrize(("width", "height"), [(40, 24), (80, 24), (80, 16), (120, 24), (200, 50)])
def test_whatever_the_terminals_size_names_and_shares_are_whole_and_trouble_is_seen(
    tmp_path: Path, width: int, height: int
) -> None:
    names = [f"peer{number}.org" for number in range(60)]
    site = ToySite(tmp_path, [peer(name, f"g/{name}") for name in names], channels={"red": {"threshold": 100}})
    site.toy.tps = {"red": 50.0}
    site.toy.waits = dict.fromkeys(names, (0.5, 0.0)) | {names[20]: (0.1, 0.9)}
    (site.hierarchy.mount / "g" / names[25] / "cpu.weight").unlink()
    document, history = site.run(3).document(), History()
    history.take(document)
    text = drawn(document, history, width, height)
    for word in (names[20], names[25], "90%", str(site.component(names[20]).share), "more components"):
        assert word in text
    rows = text.splitlines()
    assert len(rows) <= height
    assert max(map(len, rows)) <= width
    everything = drawn(document, history, width, None)
    assert all(name in everything for name in names)


@pytest.mark.parametrize(("width", "height"), [(50, 24), (80, 24), (120, 40), (200, 50)])
def test_a_long_name_takes_no_room_from_numbers(tmp_path: Path, width: int, height: int) -> None:
    """Fabric's chaincode containers have the peer, the label and a hash of 64 digits in their names."""
    names = ["peer0", *(f"dev-peer0.org1.example.com-smallbank_1.0-{digit * 64}" for digit in "ab")]
    site = ToySite(tmp_path, [peer(name, f"g/{name}") for name in names], channels={"red": {"threshold": 100}})
    site.toy.tps = {"red": 50.0}
    site.toy.waits = dict.fromkeys(names, (0.1, 0.9))
    document, history = site.run(3).document(), History()
    history.take(document)
    rows = drawn(document, history, width, height).splitlines()
    assert max(map(len, rows)) <= width
    for one, last in zip(names, ("peer0", "aaaa", "bbbb"), strict=True):
        (row,) = [row for row in rows if row.startswith(f"│ {one[:4]}") and last in row]
        for word in (str(site.component(one).share), "90%", *(["0.10"] if width >= WITH_REASONS else [])):
            assert word in row, row


def drawn(document: dict[str, object], history: History, width: int, height: int | None) -> str:
    console = Console(width=width, file=StringIO(), markup=False)
    console.print(view(document, history, width, height))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.slow
def test_away_from_a_terminal_each_look_is_printed(site: Site) -> None:
    site.component("peer0")
    process = site.start()
    done = site.qioi("top", "--socket", str(site.socket), "-i", "0.1", "-n", "2")
    assert (done.returncode, done.stdout.count("Component"), done.stdout[-1]) == (0, 2, "\n")
    assert end(process)[0] == 0


@pytest.mark.slow
def test_on_a_terminal(site: Site) -> None:
    share = site.component("peer0")
    process = site.start()
    site.commit_until(lambda: int(share.read_text()) > 1024)
    master, slave = pty.openpty()
    top = subprocess.Popen(
        site.command("top", "--socket", str(site.socket), "-i", "0.2", "-n", "3"),
        stdout=slave, stdin=slave, env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
    )  # fmt: skip
    site.processes.append(top)
    os.close(slave)
    screen = b""
    while True:
        try:
            screen += os.read(master, 65536)
        except OSError:  # the other side is closed and all is read
            break
    os.close(master)
    assert top.wait(PATIENCE) == 0
    text = screen.decode()
    for word in ("peer0", "red", "Share over time", BARS[-1], "\x1b[?1049h", "\x1b[?1049l"):
        assert word in text
    assert end(process)[0] == 0


@pytest.mark.slow
def test_without_a_daemon(site: Site) -> None:
    done = site.qioi("top", "--socket", str(site.folder / "none.sock"))
    assert done.returncode == 1
    assert "no daemon answers" in done.stderr


def test_a_terminal_without_blocks_has_other_bars(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("pe\u00e9r0 \u2605", "docker/p")], channels={"red": {"threshold": 100}})
    status = json.dumps(site.run(3).document()).encode()
    command = [sys.executable, "-m", "qioi.cli", "top", "-n", "1", "--socket", str(tmp_path / "sock")]
    with closing(serve_unix(tmp_path / "sock", {"GET /status": ("application/json", lambda _: status)})):
        environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
        done = subprocess.run(command, capture_output=True, env=environment, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "pe\u00e9r0 ?".encode("latin-1") in done.stdout
    assert PLAIN[-1].encode() in done.stdout
    assert bars_for("utf-8") == BARS


def serving(tmp_path: Path, status: bytes) -> Service:
    return serve_unix(tmp_path / "sock", {"GET /status": ("application/json", lambda _: status)})


def test_top_ends_with_an_error_where_its_last_look_found_no_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}})
    service = serving(tmp_path, json.dumps(site.run(1).document()).encode())
    monkeypatch.setattr("qioi.commands.top.time.sleep", lambda _: service.close())
    said = CliRunner().invoke(main, ["top", "--socket", str(tmp_path / "sock"), "-n", "2"])
    assert said.exit_code == 1
    assert said.stdout.count("no daemon answers") == 0
    assert said.stderr.startswith(f"Error: {tmp_path / 'sock'}: no daemon answers")
    assert said.stderr.count("\n") == 1


def test_top_ends_well_where_the_daemon_is_back_at_the_last_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}})
    answer = json.dumps(site.run(1).document()).encode()
    services = [serving(tmp_path, answer)]

    def away_and_back(_: float) -> None:
        if len(services) == 1:
            services[0].close()
            services.append(services[0])
        else:
            services.append(serving(tmp_path, answer))

    monkeypatch.setattr("qioi.commands.top.time.sleep", away_and_back)
    said = CliRunner().invoke(main, ["top", "--socket", str(tmp_path / "sock"), "-n", "3"])
    services[-1].close()
    assert (said.exit_code, said.stderr) == (0, "")
    assert said.stdout.count("no daemon answers") == 1
