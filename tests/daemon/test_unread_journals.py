"""A journal that cannot be read at the start is not replaced: the originals in it are for a later start."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest
from raised_component import raise_one, value
from running import Site, end
from toy_daemon import ToySite, peer
from waiting import PATIENCE

from qioi.controller.best_effort import best_effort
from qioi.controller.guard.guard import Guard
from qioi.controller.guard.handover import keep
from qioi.controller.guard.journal import Journal, Loaded
from qioi.controller.guard.left import UnreadError
from qioi.controller.levers.files import Files
from qioi.daemon.inherit import inherit


def fails(*_: object) -> Loaded:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.fixture
def killed(tmp_path: Path) -> ToySite:
    """A peer's group that is raised and one that is idle, left by a daemon that was killed."""
    channels = {"red": {"threshold": 100, "law": "proportional"}}
    site = ToySite(tmp_path, [peer("peer0", "g/p")], channels=channels, best_effort=["batch"])
    site.group("batch")
    (site.hierarchy.mount / "batch/cpu.idle").write_text("0")
    site.toy.tps, site.toy.waits = {"red": 50.0}, {"peer0": (0.1, 0.9)}
    site.run(2)
    assert (site.weight("g/p"), idle(site)) == (300, "1")
    return site


def idle(site: ToySite) -> str:
    return (site.hierarchy.mount / "batch/cpu.idle").read_text().strip()


def contents(site: ToySite) -> dict[str, bytes]:
    return {name: (site.config.state_dir / name).read_bytes() for name in ("journal", "idle")}


def start(site: ToySite) -> Guard:
    """Do what the next daemon does first."""
    guard = Guard(site.hierarchy, Files(site.hierarchy), Journal(site.config.state_dir))
    inherit(site.config, guard, site.hierarchy)
    return guard


@pytest.mark.parametrize("times", [1, 2, 100])
@pytest.mark.parametrize("kept", [False, True])
def test_a_start_ends_where_the_journal_cannot_be_read_however_often(
    killed: ToySite, times: int, kept: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A raised share was taken for the original, and the journal with the original was replaced."""
    if kept:
        keep(killed.config.state_dir, killed.guard, None)
    before, load, left = contents(killed), Journal.load, times

    def fails_at_first(self: Journal) -> Loaded:
        nonlocal left
        if self.file.name != "journal" or left == 0:
            return load(self)
        left -= 1
        raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))

    file = killed.config.state_dir / "journal"
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "load", fails_at_first)
        if kept and times == 1:  # the second look finds all that there is
            start(killed)
        else:
            with pytest.raises(UnreadError, match=f"^{file}: Too many open files in system: the originals in it would"):
                start(killed)
            assert f"{file}: Too many open files in system: no share that it names could be restored" in caplog.text
            assert (killed.weight("g/p"), file.read_bytes()) == (300, before["journal"])
    assert idle(killed) == "0"  # it has a journal of its own
    start(killed).restore()
    assert (killed.weight("g/p"), file.exists()) == (100, False)


def test_a_start_ends_where_a_damaged_journal_cannot_be_set_aside(
    killed: ToySite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its readable entries are restored. A daemon that went on removed it, and the others, at its end."""
    file = killed.config.state_dir / "journal"
    file.write_bytes(file.read_bytes() + b"half")
    content = file.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "set_aside", fails)
        with pytest.raises(UnreadError, match=f"^{file}: damaged, and cannot be set aside: Input/output error: the or"):
            start(killed)
    assert (killed.weight("g/p"), idle(killed), file.read_bytes()) == (100, "0", content)
    start(killed).restore()
    assert (file.exists(), file.with_name("journal.damaged").read_bytes()) == (False, content)


def test_a_journal_of_idle_groups_that_cannot_be_read_is_not_replaced(
    killed: ToySite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that went on removed it at its end, and the groups in it stayed idle for good."""
    before = contents(killed)["idle"]
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "load", fails)
        with (
            pytest.raises(UnreadError, match="idle: Input/output error: the originals in it would be lost"),
            best_effort(["batch"], killed.config.state_dir, killed.hierarchy),
        ):
            pytest.fail("it has begun")
    assert contents(killed)["idle"] == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["journal", "slices", "idle"])
def test_a_daemon_says_in_one_line_which_journal_it_cannot_read_and_the_next_start_restores(
    site: Site, name: str
) -> None:
    process, share = raise_one(site)
    raised = value(share)
    end(process, signal.SIGKILL)  # type: ignore[arg-type]
    file, aside = site.state / name, site.state / "aside"
    if file.exists():
        file.rename(aside)
    file.mkdir()
    process = site.begin()
    _, text = process.communicate(timeout=PATIENCE)
    said = [line for line in text.splitlines() if line.startswith("Error: ")]
    lost = "the originals in it would be lost: accepted is a journal that can be read, or none"
    assert (process.returncode, said) == (1, [f"Error: {file}: not a regular file: {lost}"]), text
    assert "Traceback" not in text
    assert value(share) == (raised if name == "journal" else 1024)
    dry = site.start("--dry-run")
    assert dry.poll() is None, dry.communicate()[1]
    assert end(dry)[0] == 0
    file.rmdir()
    if aside.exists():
        aside.rename(file)
    assert end(site.start())[0] == 0
    assert value(share) == 1024
