"""The file of what was enough: a daemon that is started anew knows it, and a damaged file is no harm."""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path

import pytest
from planted import KINDS, plant
from toy_daemon import ToySite, peer
from waiting import PATIENCE

from qioi.controller.enough import ANY
from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Journal
from qioi.controller.levers.files import Files
from qioi.daemon.known_shares import NAME, KnownShares
from qioi.model import HostLoad


def test_a_restart_takes_up_what_was_enough_although_nobody_sends(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "g/p")], channels={"red": {}})
    site.toy.tps, site.toy.waits = {"red": 100.0}, {"peer0": (0.4, 0.6)}
    site.run(10)
    raised = site.weight("g/p")
    assert raised > 300
    site.guard.restore()  # as at the daemon's end
    assert site.weight("g/p") == 100
    site.guard = Guard(site.hierarchy, Files(site.hierarchy), Journal(tmp_path / "state"), clock=lambda: site.now)
    site.toy.ages, site.toy.waits = {"red": 600.0}, {"peer0": (0.004, 0.001)}
    site.restart()
    site.run(2)
    assert site.weight("g/p") == pytest.approx(raised, rel=0.15)
    site.run(120)
    assert site.weight("g/p") == pytest.approx(raised, rel=0.15)
    site.toy.host = HostLoad(0.5, 0.0)
    site.run(20)
    assert site.weight("g/p") == 100
    assert KnownShares(tmp_path / "state").load() == {}


def test_a_group_that_a_reload_gives_another_name_keeps_its_share_and_what_was_enough(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "g/p"), peer("peer1", "g/q")], channels={"red": {}})
    site.toy.tps, site.toy.waits = {"red": 100.0}, {"peer0": (0.4, 0.6), "peer1": (0.4, 0.6)}
    site.run(10)
    raised = site.weight("g/p")
    assert raised > 300
    site.toy.ages, site.toy.waits = {"red": 600.0}, {"org1-peer": (0.004, 0.001)}  # nobody sends
    site.configure(components=[peer("org1-peer", "g/p")])
    site.snapshot = site.daemon.adopt(site.config, site.snapshot)
    assert (site.weight("g/p"), site.weight("g/q")) == (raised, 100)
    site.run(120)
    assert site.weight("g/p") == pytest.approx(raised, rel=0.15)
    assert site.component("org1-peer").original == 1024
    site.guard.restore()
    assert site.weight("g/p") == 100


def test_a_restart_on_a_host_with_room_raises_nobody_before_it_knows_who_works(tmp_path: Path) -> None:
    """Before the first accounts of its own components, all work looks foreign."""
    site = ToySite(tmp_path, [peer("peer0", "g/p")], channels={"red": {}})
    KnownShares(tmp_path / "state").store({"peer0": {"red": 8.0}})
    site.restart()
    site.toy.tps, site.toy.waits, site.toy.host = {"red": 100.0}, {}, HostLoad(0.0, 1.0)
    site.run(1)
    assert site.weight("g/p") == 100
    site.toy.waits, site.toy.host = {"peer0": (0.4, 0.01)}, HostLoad(0.5, 0.0)
    site.run(3)
    assert site.weight("g/p") == 100


def test_it_is_written_when_something_is_new(tmp_path: Path) -> None:
    file = KnownShares(tmp_path)
    assert file.load() == {}
    file.store({})
    assert not (tmp_path / NAME).exists()
    file.store({"peer0": {"red": 8.0}})
    before = (tmp_path / NAME).stat().st_mtime_ns
    file.store({"peer0": {"red": 8.5}})
    assert (tmp_path / NAME).stat().st_mtime_ns == before
    file.store({"peer0": {"red": 16.0}, "peer1": {"red": 2.0}})
    assert KnownShares(tmp_path).load() == {"peer0": {"red": 16.0}, "peer1": {"red": 2.0}}


def test_what_each_channel_asked_for_is_kept_and_an_earlier_daemons_file_is_read(tmp_path: Path) -> None:
    known = {"peer0": {"red": 16.0, "blue": 2.0}, "peer1": {ANY: 4.0}}
    KnownShares(tmp_path).store(known)
    assert KnownShares(tmp_path).load() == known
    written = json.loads((tmp_path / NAME).read_text())
    assert written["factors"] == {"peer0": 16.0, "peer1": 4.0}  # all that an earlier daemon reads
    del written["channels"]
    (tmp_path / NAME).write_text(json.dumps(written))
    file = KnownShares(tmp_path)
    assert file.load() == {"peer0": {ANY: 16.0}, "peer1": {ANY: 4.0}}
    file.store(known)
    assert KnownShares(tmp_path).load() == known


def test_what_could_not_be_written_is_written_once_it_can_be(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = KnownShares(tmp_path)
    file.store({"peer0": {"red": 2.0}})
    (tmp_path / NAME).unlink()
    (tmp_path / NAME / "in the way").mkdir(parents=True)
    for _ in range(3):
        file.store({"peer0": {"red": 8.0}})
    assert len(caplog.records) == 1
    assert [one.name for one in tmp_path.iterdir()] == [NAME]
    shutil.rmtree(tmp_path / NAME)
    file.store({"peer0": {"red": 8.0}})
    assert KnownShares(tmp_path).load() == {"peer0": {"red": 8.0}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff\xfe",
        b'{"version": 2, "factors": {"peer0": 8}}',
        b'{"version": 1, "factors": {"peer0": "8"}}',
        b'{"version": 1, "factors": {"peer0": 1e300, "peer1": -3, "peer2": 0.5, "peer3": 1}}',
        b'{"version": 1, "factors": {"peer0": 8}, "channels": {"peer0": {"red": 1e300, "blue": 1}}}',
        b'{"version": 1, "factors": {}, "channels": {"peer0": {"red": 8}}}',
    ],
)
def test_what_is_not_ours_is_not_believed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    assert KnownShares(tmp_path).load() == {}


def test_a_file_that_cannot_be_written_or_read_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = KnownShares(tmp_path / "missing")
    with caplog.at_level(logging.WARNING, "qioi"):
        file.store({"peer0": {"red": 8.0}})
        file.store({"peer0": {"red": 16.0}})
    assert len(caplog.records) == 1
    (tmp_path / NAME).mkdir()
    assert KnownShares(tmp_path).load() == {}


def test_a_link_in_its_place_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (target := tmp_path / "target").write_text("whole\n")
    (temporary := tmp_path / f"{NAME}.new").symlink_to(target)
    file = KnownShares(tmp_path)
    file.store({"peer0": {"red": 8.0}})
    assert target.read_text() == "whole\n"
    assert not caplog.records
    assert not temporary.is_symlink()
    assert KnownShares(tmp_path).load() == {"peer0": {"red": 8.0}}


@pytest.mark.timeout(PATIENCE)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_planted_in_its_place_is_not_read(tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    plant(tmp_path / NAME, kind)
    assert KnownShares(tmp_path).load() == {}
    assert "not a regular file: what was enough before is not known" in caplog.text
