"""What a daemon takes over from the one before it."""

from __future__ import annotations

from pathlib import Path

from toy_daemon import ToySite, peer

from qioi.controller.guard.handover import mark
from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.levers.files import Files
from qioi.controller.levers.idle import IDLE, Idle
from qioi.daemon.inherit import inherit


def test_shares_kept_on_purpose_keep_nothing_else(tmp_path: Path) -> None:
    """A neighbour that could not be made an ordinary group again at the stop is so at the next start."""
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}}, on_exit="keep")
    site.group("batch")
    idle = site.hierarchy.mount / "batch" / "cpu.idle"
    idle.write_text("1\n")
    entry = Entry("batch", "cpu.idle", Idle(site.hierarchy, Files(site.hierarchy)).identity("batch"), 100, (IDLE,))
    Journal(site.config.state_dir, name="idle").store([entry])
    mark(site.config.state_dir).touch()
    assert inherit(site.config, site.guard, site.hierarchy) == ()
    assert idle.read_text() == "0"
    assert not (site.config.state_dir / "idle").exists()
