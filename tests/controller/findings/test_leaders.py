"""A Raft leader change in an orderer's log, on its way to the orderers' floor."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from msgspec.structs import replace
from toy_daemon import ToySite, peer

from qioi.commands.explain import lines
from qioi.commands.status import notes
from qioi.model import Component, HostLoad, LeaderChange, Role
from qioi.monitor.logs.component_logs import LogChannels
from qioi.show.explain import explain
from qioi.show.explanation import Leadership
from qioi.show.metrics import render

LINE = "2026-01-01 10:00:00.000 UTC 0001 INFO [etcdraft] run -> Raft leader changed: {} channel={} node=1\n"


def test_it_is_read_from_the_orderers_log_once(tmp_path: Path) -> None:
    log = tmp_path / "orderer.log"
    log.touch()
    channels = LogChannels([Component("o", Role.ORDERER, "g/o", (), str(log))], ["red"])
    with log.open("a") as file:
        file.write(LINE.format("2 -> 0", "red"))
    channels.read(1.0)
    assert [(one.old, one.new, one.channel, one.orderer) for one in channels.elections()] == [(2, 0, "red", "o")]
    assert channels.elections() == []
    channels.close()


def test_orderers_keep_a_floor_until_the_interference_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site = ToySite(
        tmp_path,
        [peer("peer0", "g/p"), peer("o", "g/o", role="orderer"), peer("p", "g/q", "blue", role="orderer")],
        channels={"red": {"threshold": 100}, "blue": {}},
    )
    site.toy.tps, site.toy.waits = {"red": 100.0, "blue": 5.0}, {name: (0.1, 0.0) for name in ("peer0", "o", "p")}
    with caplog.at_level(logging.INFO, "qioi"):
        site.run(2)
        assert site.weight("g/o") == 100
        # Forged: a peer is no orderer, and an orderer speaks for its own channels only. A first leader is no loss.
        site.toy.elections = [LeaderChange(1, 0, None, "red", "peer0"), LeaderChange(1, 0, None, "red", "p"),
                              LeaderChange(0, 1, None, "red", "o")]  # fmt: skip
        site.run(1)
        assert site.weight("g/o") == 100
        site.toy.elections = [LeaderChange(1, 0, None, "red", "o")]
        site.run(1)
    assert (site.weight("g/o"), site.weight("g/p"), site.weight("g/q")) == (200, 100, 100)
    assert any("Raft leader changed: 1 -> 0 (o) beside interference" in one.message for one in caplog.records)
    document = explain(site.snapshot, "o", site.hierarchy)
    assert document.leadership == Leadership(lost=1, orderer_floor=2.0)
    assert "orderers keep 2 times their default" in dict(lines(document))["leaders"]
    assert any("leaders lost beside interference: 1; orderers" in note for note in notes(site.snapshot.document()))
    assert 'qioi_channel_orderer_floor_ratio{channel="red"} 2.0' in render(site.snapshot).decode()
    site.run(20)
    assert site.weight("g/o") == 200
    site.toy.host = HostLoad(0.9, 0.0)
    site.run(10)
    assert site.weight("g/o") == 100
    site.toy.elections = [LeaderChange(1, 0, None, None, "o")]
    with caplog.at_level(logging.INFO, "qioi"):
        site.run(10)
    site.toy.elections = [LeaderChange(1, 0, None, None, "o")]
    with caplog.at_level(logging.INFO, "qioi"):
        site.run(1)
    assert site.weight("g/o") == 100
    assert any("with room on its orderers' CPUs" in one.message for one in caplog.records)


def test_a_leader_that_changes_when_nothing_is_known_of_the_host_yet_was_not_starved(tmp_path: Path) -> None:
    site = ToySite(
        tmp_path, [peer("peer0", "g/p"), peer("o", "g/o", role="orderer")], channels={"red": {"threshold": 100}}
    )
    site.toy.host, site.toy.waits = HostLoad(0.9, 0.0), {}  # without delays, what is foreign is not known
    site.run(1)
    site.toy.waits = {name: (0.1, 0.0) for name in ("peer0", "o")}
    site.run(2)
    site.toy.elections = [LeaderChange(1, 0, None, "red", "o")]
    site.run(1)
    assert site.weight("g/o") == 100


def test_a_floor_is_in_defaults_of_the_policy_not_in_what_was_found(tmp_path: Path) -> None:
    site = ToySite(
        tmp_path,
        [peer("peer0", "g/p"), peer("o", "g/o", role="orderer")],
        channels={"red": {"threshold": 100, "default": 4096}},
    )
    site.toy.tps, site.toy.waits = {"red": 100.0}, {name: (0.1, 0.0) for name in ("peer0", "o")}
    site.run(2)
    assert site.weight("g/o") == 400
    site.toy.elections = [LeaderChange(1, 0, None, "red", "o")]
    site.run(2)
    assert site.channel().orderer_floor == 2.0
    assert site.weight("g/o") == 800


def test_of_a_channel_of_algorithm_1_losses_are_said_and_no_floor(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was said, and shown, that orderers keep twice their default, and they did not."""
    site = ToySite(
        tmp_path,
        [peer("peer0", "g/p"), peer("o", "g/o", role="orderer")],
        channels={"red": {"threshold": 100, "law": "proportional"}},
    )
    site.toy.tps, site.toy.waits = {"red": 100.0}, {name: (0.1, 0.0) for name in ("peer0", "o")}
    site.run(2)
    site.toy.elections = [LeaderChange(1, 0, None, "red", "o")]
    with caplog.at_level(logging.INFO, "qioi"):
        site.run(1)
    assert site.weight("g/o") == 100
    assert (site.channel().leaders_lost, site.channel().orderer_floor) == (1, 1.0)
    said = [one.message for one in caplog.records if "Raft leader" in one.message]
    assert [text.endswith("beside interference: its law has no floor under its orderers' shares") for text in said] == [
        True
    ]
    assert dict(lines(explain(site.snapshot, "o", site.hierarchy)))["leaders"] == "1 lost beside interference"
    assert any(note.endswith("lost beside interference: 1") for note in notes(site.snapshot.document()))
    site.configure(channels={"red": {"threshold": 100}})
    site.snapshot = site.daemon.adopt(site.config, site.snapshot)
    site.run(1)
    assert site.weight("g/o") == 200  # its law now has a floor, for what was lost before, too
    site.configure(channels={"red": {"threshold": 100, "law": "proportional"}})
    site.snapshot = site.daemon.adopt(site.config, site.snapshot)
    caplog.clear()
    site.toy.host = HostLoad(0.9, 0.0)
    with caplog.at_level(logging.INFO, "qioi"):
        site.run(10)
    assert site.channel().leaders_lost == 0
    assert not [one.message for one in caplog.records if "floor" in one.message]


@pytest.mark.parametrize(
    ("host", "pinned", "weight"),
    [
        (HostLoad(0.9, 0.0), HostLoad(0.0, 0.9), 200),
        (HostLoad(0.0, 0.9), HostLoad(0.9, 0.0), 100),
    ],
)
def test_an_orderer_with_cpus_of_its_own_is_starved_where_these_are_full(
    host: HostLoad, pinned: HostLoad, weight: int, tmp_path: Path
) -> None:
    site = ToySite(
        tmp_path, [peer("peer0", "g/p"), peer("o", "g/o", role="orderer")], channels={"red": {"threshold": 100}}
    )
    site.toy.host = replace(host, pinned={"o": pinned})
    site.toy.tps, site.toy.waits = {"red": 100.0}, {name: (0.1, 0.0) for name in ("peer0", "o")}
    site.run(2)
    site.toy.elections = [LeaderChange(1, 0, None, "red", "o")]
    site.run(10)
    assert site.weight("g/o") == weight
