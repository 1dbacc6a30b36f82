"""What is not as it should be stands below the tables, and in the metrics."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from followed_log import append
from msgspec.structs import replace
from toy_daemon import ToySite, peer

from qioi.commands.status import show
from qioi.controller.guard.guard import Guard
from qioi.daemon.daemon import Daemon
from qioi.discovery.base import Found
from qioi.model import Component, HostLoad, Role
from qioi.monitor.logs.component_logs import LogChannels
from qioi.roster import FoundRoster
from qioi.settings.config import load_config
from qioi.show.footnotes import footnotes
from qioi.show.metrics import render

COMMIT = "2026-01-01 10:00:00.000 UTC 0001 INFO [kvledger] commit -> [{}] Committed block [{}] with 5 transaction(s)" \
         " in 1ms (state_validation=0ms block_and_pvtdata_commit=0ms state_commit=0ms) commitHash=[ab]\n"  # fmt: skip


class Engine:
    """A discovery that has one thing to complain about."""

    def __init__(self, problems: dict[str, str]) -> None:
        self.problems = problems

    def found(self) -> Found:
        return Found(problems=self.problems)

    def close(self) -> None:
        pass


def test_what_cannot_be_found_is_said_until_it_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}}, docker={})
    engine = Engine({"container x": "label io.qioi.role: '[/pear]': accepted are peer, orderer"})
    guard: Guard = site.guard
    config = load_config(tmp_path / "qioi.yaml")
    instruments = site.toy.as_instruments(guard, site.hierarchy)
    daemon = Daemon(config, guard, instruments, FoundRoster(config, engine, None))
    first = daemon.blank("files", 2)
    snapshot = daemon.period(100.0, first)
    show(snapshot.document())
    assert "container x: label io.qioi.role: '[/pear]': accepted are peer, orderer" in capsys.readouterr().out
    assert "qioi_discovery_problems 1.0" in render(snapshot).decode()
    engine.problems = {}
    snapshot = daemon.period(101.0, snapshot)
    assert list(footnotes(snapshot.document())) == []
    assert "qioi_discovery_problems 0.0" in render(snapshot).decode()


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_a_narrow_terminal_has_numbers_and_decisions_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}})
    site.toy.tps, site.toy.waits = {"red": 50.0}, {"peer0": (0.1, 0.9)}
    document = site.run(3).document()
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    show(document)
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    (row,) = [line for line in text.splitlines() if "│ peer0" in line]
    assert len(row) <= width
    assert str(site.component("peer0").share) in row
    assert " ".join(site.component("peer0").reason.split()) in " ".join(text.replace("│", " ").split())


def test_a_long_name_is_folded_and_not_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "dev-peer0.org1.example.com-smallbank_1.0-" + "0123456789abcdef" * 4
    site = ToySite(tmp_path, [peer(name, "docker/p")], channels={"red": {"threshold": 100}})
    show(site.run(1).document())
    first = [line.split("│")[1].strip() for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert name in "".join(first)


def test_why_a_log_shows_no_commits_is_said(tmp_path: Path) -> None:
    log = tmp_path / "peer.log"
    log.touch()
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}})
    site.toy.tps = {"red": 50.0}
    channels = LogChannels([Component("peer0", Role.PEER, "docker/p", ("red",), str(log))], ["red"])
    site.toy.sources = channels.states
    with log.open("a") as file:
        file.writelines(COMMIT.format("blue", number) for number in range(3))
    channels.read(1.0)
    said = list(footnotes(site.run(1).document()))
    assert said == ["log of peer0: no commit is believed: passed over: 3 foreign-channel"]
    metric = 'qioi_log_skipped_total{component="peer0",reason="foreign-channel"} 3.0'
    assert metric in render(site.snapshot).decode()
    with log.open("a") as file:
        file.write(COMMIT.format("red", 1))
    channels.read(2.0)
    assert list(footnotes(site.run(1).document())) == []
    channels.close()


def test_a_log_that_is_written_faster_than_it_is_read_is_said(tmp_path: Path) -> None:
    log = tmp_path / "peer.log"
    log.touch()
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}})
    channels = LogChannels([Component("peer0", Role.PEER, "docker/p", ("red",), str(log))], ["red"])
    site.toy.sources = channels.states
    with log.open("a") as file:
        file.write("x\n" * 5_000_000)
    channels.read(1.0)
    (said,) = footnotes(site.run(1).document())
    assert said.startswith("log of peer0: written faster than it is read")
    assert 'qioi_log_behind{component="peer0"} 1.0' in render(site.snapshot).decode()
    (state,) = channels.states()
    site.toy.sources = lambda: [replace(state, skipped_bytes=41_000_000)]
    assert "log of peer0: 41 MB were passed over" in "\n".join(footnotes(site.run(1).document()))
    assert 'qioi_log_skipped_bytes_total{component="peer0"} 4.1e+07' in render(site.snapshot).decode()
    channels.close()


def test_files_of_a_log_that_were_rotated_away_unread_are_said(tmp_path: Path) -> None:
    (log := tmp_path / "peer.log").touch()
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}})
    channels = LogChannels([Component("peer0", Role.PEER, "docker/p", ("red",), str(log))], ["red"])
    site.toy.sources = channels.states
    channels.read(1.0)
    for number in range(4):  # two are kept beside the log
        if number:
            log.with_name("peer.log.1").rename(log.with_name("peer.log.2"))
        log.rename(log.with_name("peer.log.1"))
        append(log, b"x\n")
        time.sleep(0.05)  # as far apart as two rotations are at least
    channels.read(2.0)
    channels.close()
    said = list(footnotes(site.run(1).document()))
    assert "log of peer0: 1 files were rotated away faster than they are read" in said
    assert 'qioi_log_lost_files_total{component="peer0"} 1.0' in render(site.snapshot).decode()


def test_a_ledger_that_fills_its_cpus_without_neighbours_is_said_to_be_the_bottleneck(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}})
    site.toy.tps, site.toy.waits, site.toy.host = {"red": 50.0}, {"peer0": (0.8, 0.5)}, HostLoad(0.0, 0.02)
    show(site.run(30).document())
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "Channel red: the bottleneck is the ledger itself: its processes wait 38% of their runnable time, but" in said
    )
