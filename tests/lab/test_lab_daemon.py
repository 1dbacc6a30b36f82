"""The lab's daemon, a real process: how it ends is part of what was measured."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import yaml
from refusing import read_only

from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.levers.files import Files
from qioi.controller.levers.shares import Shares
from qioi.daemon.lock import HOST_LOCK
from qioi.kernel.hierarchy import Hierarchy
from qioi.lab.daemon import Daemon, refuse_beside_another
from qioi.lab.lab import DAEMON_STATE, Lab
from qioi.processes.errors import LabError
from qioi.show.http import get_json

ORIGINAL, RAISED = 700, 4096


@pytest.fixture
def raised(lab: Lab, real_group: tuple[Hierarchy, str]) -> Path:
    """The share of a group that the lab's daemon has to restore; nothing else of a lab is there."""
    hierarchy, path = real_group
    share = hierarchy.folder(path) / hierarchy.file
    share.write_text(str(RAISED))
    state = lab.directory / DAEMON_STATE
    state.mkdir(parents=True)
    identity = Shares(hierarchy, Files(hierarchy)).identity(path)
    Journal(state).store([Entry(path, hierarchy.file, identity, ORIGINAL, (RAISED,))])
    lab.tree.create()
    return share


def started(lab: Lab, folder: Path) -> Daemon:
    """Start a daemon for a component that does nothing, and wait for its first period."""
    (folder / "peer.log").touch()
    group = lab.tree.group("peer").create()
    peer = {"name": "peer", "role": "peer", "cgroup": group.path, "log": str(folder / "peer.log"), "channels": ["ch"]}
    state = lab.directory / DAEMON_STATE
    config = {"state_dir": str(state), "components": [peer], "channels": {"ch": {"threshold": 10.0}}}
    daemon = Daemon(lab, yaml.safe_dump({**config, "metrics": {"port": 0}}), folder)
    daemon.settle()
    return daemon


@pytest.mark.slow
def test_a_daemon_that_could_not_restore_a_share_fails_what_was_measured(
    lab: Lab, raised: Path, tmp_path: Path
) -> None:
    """The next measurement would begin with the raised share."""
    with read_only(raised), pytest.raises(LabError) as said, started(lab, tmp_path):
        pass
    assert str(said.value).startswith("the daemon ended (status 1)")
    assert "should have" in str(said.value)
    assert not lab.tree.group("qioi").exists


@pytest.mark.slow
def test_an_error_of_the_measurement_goes_before_the_daemons(lab: Lab, raised: Path, tmp_path: Path) -> None:
    with read_only(raised), pytest.raises(ZeroDivisionError), started(lab, tmp_path):
        _ = 1 / 0


@pytest.mark.slow
def test_a_daemon_that_restores_all_ends_in_silence(lab: Lab, raised: Path, tmp_path: Path) -> None:
    with started(lab, tmp_path):
        pass
    assert int(raised.read_text()) == ORIGINAL


def test_a_daemon_that_is_ended_before_it_has_begun_has_changed_nothing(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy host a measurement of a second may be over before the interpreter has loaded it."""
    (tmp_path / "sitecustomize.py").write_text("import time\ntime.sleep(1000)\n")  # it gets no farther
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    lab.tree.create()
    with Daemon(lab, "", tmp_path) as daemon:
        pass
    with pytest.raises(LabError, match=rf"status -{signal.SIGTERM.value}"):
        daemon.check()


@pytest.mark.slow
def test_a_measurement_begins_once_the_daemon_observes(lab: Lab, tmp_path: Path) -> None:
    lab.tree.create()
    with started(lab, tmp_path):
        assert get_json(lab.directory / DAEMON_STATE / "qioi.sock", "/status")["loop"] > 0


@pytest.mark.slow
def test_a_daemon_that_ends_at_its_start_says_why(lab: Lab, tmp_path: Path) -> None:
    lab.tree.create()
    with pytest.raises(LabError, match="the daemon ended"), Daemon(lab, "period: 0", tmp_path) as daemon:
        daemon.settle()


def test_a_lock_that_cannot_be_looked_at_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOST_LOCK, str(tmp_path / "missing"))
    with pytest.raises(LabError, match=r"missing: No such file or directory: accepted is a folder$"):
        refuse_beside_another()
