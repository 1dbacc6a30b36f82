"""What a lab's daemon that was killed has left changed outside of the lab, such as the share of the engine's group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.levers.files import Files
from qioi.controller.levers.shares import Shares
from qioi.daemon.lock import HostLock
from qioi.kernel.hierarchy import Hierarchy
from qioi.lab.folder import MARKER
from qioi.lab.lab import DAEMON_STATE, Lab
from qioi.model import Owner, OwnerKind
from qioi.processes.errors import LabError

ORIGINAL, RAISED = 700, 4096


@dataclass
class Left:
    """A group beside the lab's, and the journal of the daemon that raised it."""

    share: Path
    journal: Journal


@pytest.fixture
def left(lab: Lab, real_group: tuple[Hierarchy, str]) -> Left:
    """A killed daemon has left a group raised; nothing else of the lab is there but its folder."""
    hierarchy, path = real_group
    state = lab.directory / DAEMON_STATE
    state.mkdir(parents=True)
    (lab.directory / MARKER).write_text("x\n")
    share = hierarchy.folder(path) / hierarchy.file
    share.write_text(str(RAISED))
    identity = Shares(hierarchy, Files(hierarchy)).identity(path)
    journal = Journal(state)
    journal.store([Entry(path, hierarchy.file, identity, ORIGINAL, (RAISED,))])
    return Left(share, journal)


@pytest.mark.parametrize("keep_files", [False, True])
def test_a_lab_that_is_taken_down_puts_it_back(lab: Lab, left: Left, keep_files: bool) -> None:
    assert lab.down(keep_files=keep_files)
    assert int(left.share.read_text()) == ORIGINAL
    assert lab.directory.exists() == keep_files


def test_what_somebody_else_has_changed_since_stays(lab: Lab, left: Left) -> None:
    left.share.write_text("2000")
    assert lab.down()
    assert int(left.share.read_text()) == 2000
    assert not lab.directory.exists()


def test_the_folder_stays_where_not_all_can_be_put_back(lab: Lab, left: Left) -> None:
    whole, name = left.journal.file.read_bytes(), left.share.name.encode()
    left.journal.file.write_bytes(whole.replace(name, name[:-1] + b"z"))
    with pytest.raises(LabError, match=rf"(?s)journal: line 2.*`qioi lab down --dir {lab.directory}`"):
        lab.down()
    assert left.journal.file.with_name("journal.damaged").exists()
    assert int(left.share.read_text()) == RAISED
    assert lab.down()
    assert not lab.directory.exists()


def test_the_folder_stays_while_the_owner_of_a_record_does_not_answer(lab: Lab, left: Left) -> None:
    """As with a dockerd that is stopped: the share is back, and its record is not."""
    (entry,) = left.journal.load().entries
    engine = lab.directory / "docker.sock"
    left.journal.store([replace(entry, owner=Owner(OwnerKind.DOCKER, "ab12", str(engine)))])
    with pytest.raises(LabError, match=r"(?s)the record of its owner is not put back yet: .*tries again"):
        lab.down()
    assert int(left.share.read_text()) == ORIGINAL
    assert len(left.journal.load().entries) == 1
    left.journal.store([])
    assert lab.down()


def test_a_daemon_that_still_runs_restores_by_itself(lab: Lab, left: Left) -> None:
    lock = HostLock(lab.directory / DAEMON_STATE)
    with pytest.raises(LabError, match="a QiOi daemon is running already"):
        lab.down()
    assert left.journal.file.exists()
    lock.close()


def test_a_lock_that_cannot_be_had_is_told_in_one_line(lab: Lab, left: Left) -> None:
    lock = lab.directory / DAEMON_STATE / "lock"
    lock.mkdir()
    with pytest.raises(LabError, match=f"^{lock}: Is a directory: accepted is a file"):
        lab.down()
    assert left.journal.file.exists()
    lock.rmdir()
