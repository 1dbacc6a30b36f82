"""What cannot be restored: it is said, tried again, kept in its journal, and the exit status tells."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest
from refusing import read_only
from running import Site, end
from toy_daemon import ToySite, peer
from waiting import until

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.restore import Result
from qioi.controller.levers.files import Files
from qioi.controller.levers.idle import IDLE, Idle
from qioi.controller.levers.lever import Identity
from qioi.daemon.ending import keep_shares, put_back
from qioi.daemon.recover import recover
from qioi.kernel.errors import CgroupError
from qioi.kernel.hierarchy import Hierarchy


def left_idle(hierarchy: Hierarchy, group: str, state: Path) -> Path:
    """Have a group that a daemon that died has made idle; give its ``cpu.idle``."""
    file = hierarchy.folder(group) / "cpu.idle"
    if not file.exists():
        pytest.skip("this kernel has no cpu.idle (5.15)")
    file.write_text("1")
    entry = Entry(group, "cpu.idle", Idle(hierarchy, Files(hierarchy)).identity(group), 700, (IDLE,))
    Journal(state, name="idle").store([entry])
    return file


@pytest.mark.slow
@pytest.mark.parametrize("lasts", [True, False])
def test_a_group_that_stays_idle_makes_the_exit_status_1_and_one_that_does_not_makes_it_0(
    site: Site, lasts: bool
) -> None:
    site.component("peer0")
    site.component("batch")
    site.state.mkdir()
    group = f"{site.parent}/batch"
    file = left_idle(site.hierarchy, group, site.state)
    with read_only(file):
        process = site.start()
        until(lambda: site.periods() > 3)
        if lasts:
            status, text = end(process)
            assert status == 1, text
            assert f"WARNING restore {group}: failed: {file}: Read-only file system; it has cpu.idle = 1, " in text
            assert f"should have cpu.idle = 0, {site.hierarchy.file} = 700" in text
            assert [one.path for one in Journal(site.state, name="idle").load().entries] == [group]
    if not lasts:
        until(lambda: file.read_text() == "0\n")
        status, text = end(process)
        assert status == 0, text
        assert not (site.state / "idle").exists()
        assert (file.parent / site.hierarchy.file).read_text() == "700\n"
    assert text.count(f"best effort: {group}: failed: ") == 1


def test_a_journal_that_cannot_be_read_keeps_nothing_else_from_being_restored(tmp_path: Path) -> None:
    hierarchy, state = Hierarchy(2, tmp_path / "cgroup"), tmp_path / "state"
    (batch := hierarchy.mount / "batch").mkdir(parents=True)
    (batch / "cpu.weight").write_text("700")
    (batch / "cpu.idle").write_text("0")
    (state / "journal").mkdir(parents=True)
    file = left_idle(hierarchy, "batch", state)
    recovery = recover(state, tmp_path / "records", hierarchy)
    assert recovery.problems == (f"{state}/journal: not a regular file: no share that it names could be restored",)
    assert ([one.result for one in recovery.outcomes], recovery.clean) == ([Result.OK], False)
    assert (file.read_text(), (state / "journal").is_dir()) == ("0", True)


@pytest.fixture
def raised(tmp_path: Path) -> ToySite:
    """A component that is raised, and a group of the daemon's own that is."""
    channels = {"red": {"threshold": 100, "law": "proportional"}}
    site = ToySite(tmp_path, [peer("peer0", "g/p")], channels=channels)
    site.toy.tps = {"red": 50.0}
    site.group("own")
    site.guard.hold("own")
    site.guard.apply({"own": 8192})
    site.run(2)
    assert (site.weight("g/p"), site.weight("own")) == (300, 800)
    return site


def test_where_the_journal_cannot_be_written_the_end_says_what_was_restored_and_what_was_not(
    raised: ToySite, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write = Files.write

    def refuse(self: Files, path: str, value: int, identity: Identity) -> None:
        if path == "own":
            raise CgroupError("own: Read-only file system")
        write(self, path, value, identity)

    def full(*_: object, durable: bool = True) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Files, "write", refuse)
    monkeypatch.setattr(Journal, "store", full)
    with caplog.at_level(logging.INFO, "qioi"):
        assert not put_back(raised.guard)
    assert (raised.weight("g/p"), raised.weight("own")) == (100, 800)
    assert sorted(caplog.messages) == [
        f"restore {raised.config.state_dir}/journal: failed: the journal cannot be written "
        "(No space left on device): it names what was restored, too",
        "restore g/p: ok: 300 -> 100, its original",
        "restore own: failed: own: Read-only file system; it has cpu.weight = 800, and should have cpu.weight = 100",
    ]


@pytest.mark.parametrize("works", [True, False])
def test_the_daemons_own_group_is_restored_also_where_shares_are_kept(
    raised: ToySite, works: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(self: Files, path: str, value: int, identity: Identity) -> None:
        raise CgroupError(f"{path}: Read-only file system")

    if not works:
        monkeypatch.setattr(Files, "write", refuse)
    with caplog.at_level(logging.INFO, "qioi"):
        assert keep_shares(raised.guard, raised.config.state_dir, "own") is works
    assert (raised.weight("g/p"), raised.weight("own")) == (300, 100 if works else 800)
    assert f"restore own: {'ok' if works else 'failed'}: " in caplog.text
    assert (raised.config.state_dir / "kept").exists()
