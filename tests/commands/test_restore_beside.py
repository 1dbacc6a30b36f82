"""`qioi restore` beside a daemon that holds the host's groups: nothing that it may hold is undone."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from toy_daemon import ToySite, peer

from qioi.cli import main
from qioi.daemon.lock import HOST_LOCK, TreeLock


def restore(site: ToySite) -> Result:
    return CliRunner().invoke(main, ["restore", "--state-dir", str(site.config.state_dir)])


def test_it_is_refused_whatever_became_of_the_state_folders_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has removed the file that the daemon locked, so that another one of its name is free."""
    site = ToySite(tmp_path, [peer("peer0", "g/p")], channels={"red": {"threshold": 100, "law": "proportional"}})
    site.toy.tps, site.toy.waits = {"red": 50.0}, {"peer0": (0.1, 0.9)}
    site.run(2)
    (host := tmp_path / "host").mkdir()
    monkeypatch.setenv(HOST_LOCK, str(host))
    monkeypatch.setattr("qioi.commands.restore.find_hierarchy", lambda: site.hierarchy)
    with closing(TreeLock(host)):
        done = restore(site)
        assert (done.exit_code, site.weight("g/p")) == (1, 300)
        running = f"{host}: a QiOi daemon is running already on this host (pid {os.getpid()})"
        assert done.stderr == f"Error: {running}; stop it, and it restores by itself, unless it is a dry run\n"
    assert (restore(site).exit_code, site.weight("g/p")) == (0, 100)
