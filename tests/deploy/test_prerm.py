"""The package's removal, by its script alone, with folders of the test's own in place of the system's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.levers.lever import GroupId
from qioi.daemon.lock import HostLock
from qioi.discovery.told import Told, ToldFiles
from qioi.model import Owner, OwnerKind

PRERM = Path(__file__).resolve().parents[2] / "deploy" / "debian" / "prerm"
#: What the script names, and below which folder of the test's it is.
PLACES = ("/run/systemd", "/run/qioi", "/etc/qioi", "/var/lib/qioi", "/usr/bin/qioi", "/usr/lib/qioi")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The script, whose places are below the test's folder; the daemon's command is the real one."""
    text = PRERM.read_text()
    for place in PLACES:
        (tmp_path / place[1:]).parent.mkdir(parents=True, exist_ok=True)
        text = text.replace(place, str(tmp_path / place[1:]))
    command = tmp_path / "usr/bin/qioi"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m qioi.cli "$@"\n')
    command.chmod(0o755)
    (script := tmp_path / "prerm").write_text(text)
    return script


def remove(script: Path) -> str:
    """Run it as dpkg does, and give what it says."""
    done = subprocess.run(["sh", str(script), "remove"], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def configured(script: Path, state: str) -> Path:
    """Make the state folder that the configuration names."""
    (etc := script.parent / "etc/qioi").mkdir()
    folder = script.parent / "run/qioi" / state
    folder.mkdir(parents=True)
    (etc / "qioi.yaml").write_text(f"state_dir: {folder}\n")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("state", [".", "own", "own/deeper"])
def test_originals_stay_while_their_owner_does_not_answer(script: Path, state: str) -> None:
    """A stopped dockerd does not answer: `qioi restore` names what it holds, and ends with 3."""
    folder = configured(script, state)
    owner = Owner(OwnerKind.DOCKER, "ab12", str(script.parent / "docker.sock"))
    entry = Entry("qioi-is-gone/ab12", "cpu.shares", GroupId(1, 1), 1024, (4096,), owner)
    Journal(folder).store([entry])
    ToldFiles(folder).store(Told(entry, 0))
    said = remove(script)
    assert "qioi: CPU shares may not all be put back" in said
    assert "in the journal, or the folder records, of the state folder" in said
    assert Journal(folder).load().entries == (entry,)
    assert ToldFiles(folder).any()


@pytest.mark.slow
def test_a_folder_from_which_all_is_put_back_is_removed(script: Path) -> None:
    folder = configured(script, "own")
    entry = Entry("qioi-is-gone/ab12", "cpu.shares", GroupId(1, 1), 1024, (4096,))
    Journal(folder).store([entry])
    assert "may not all be put back" not in remove(script)
    assert not (script.parent / "run/qioi").exists()


@pytest.mark.slow
def test_the_folder_of_records_of_a_daemon_that_runs_stays(script: Path) -> None:
    """One in a container has both folders from the host, and no systemd stops it."""
    (state := script.parent / "run/qioi").mkdir(parents=True)
    (records := script.parent / "var/lib/qioi/records").mkdir(parents=True)
    lock = HostLock(state)
    try:
        said = remove(script)
    finally:
        lock.close()
    assert "a QiOi daemon is running already" in said
    assert "Docker could not be asked" not in said, "there is no record"
    assert records.is_dir()
    assert (state / "lock").exists()


@pytest.mark.slow
def test_an_empty_folder_of_records_is_removed(script: Path) -> None:
    (script.parent / "var/lib/qioi/records").mkdir(parents=True)
    remove(script)
    assert not (script.parent / "var/lib/qioi").exists()
