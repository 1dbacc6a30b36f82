"""`qioi restore --unless-kept`, which systemd runs after each stop: shares alone are kept on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from toy_daemon import ToySite, peer

from qioi.cli import main
from qioi.controller.guard.handover import keep


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToySite:
    """A daemon whose end was cut short: shares are marked as kept, and a group is still idle."""
    channels = {"red": {"threshold": 100, "law": "proportional"}}
    site = ToySite(tmp_path, [peer("peer0", "g/p")], channels=channels, best_effort=["batch"])
    site.group("batch", 700)
    (site.hierarchy.mount / "batch/cpu.idle").write_text("0")
    site.toy.tps, site.toy.waits = {"red": 50.0}, {"peer0": (0.1, 0.9)}
    site.run(2)
    keep(site.config.state_dir, site.guard, None)
    assert (site.weight("g/p"), idle(site)) == (300, "1")
    monkeypatch.setattr("qioi.commands.restore.find_hierarchy", lambda: site.hierarchy)
    return site


def idle(site: ToySite) -> str:
    return (site.hierarchy.mount / "batch/cpu.idle").read_text().strip()


def restore(site: ToySite) -> Result:
    return CliRunner().invoke(main, ["restore", "--state-dir", str(site.config.state_dir), "--unless-kept"])


def test_what_an_end_that_was_cut_short_has_left_goes_back_beside_kept_shares(ended: ToySite) -> None:
    """The group stayed idle until the next start, which may never come."""
    state, before = ended.config.state_dir, (ended.config.state_dir / "journal").read_bytes()
    done = restore(ended)
    assert (done.exit_code, done.stderr) == (0, "")
    kept, put_back = done.stdout.splitlines()
    assert kept.startswith(f"{state}: shares were kept on purpose (on_exit: keep); without --unless-kept")
    assert put_back == "batch: ok: cpu.idle = 0, cpu.weight = 700"
    assert (idle(ended), ended.weight("batch"), (state / "idle").exists()) == ("0", 700, False)
    assert (ended.weight("g/p"), (state / "kept").exists()) == (300, True)
    assert (state / "journal").read_bytes() == before
    assert restore(ended).stdout == f"{kept}\n"


def test_what_cannot_go_back_beside_kept_shares_makes_the_exit_status_1(ended: ToySite) -> None:
    state = ended.config.state_dir
    (state / "idle").unlink()
    (state / "idle").mkdir()
    done = restore(ended)
    assert (done.exit_code, done.stderr) == (1, "Error: not everything could be restored; see above\n")
    assert f"{state}/idle: not a regular file: no idle group could be put back" in done.stdout
    assert (ended.weight("g/p"), (state / "kept").exists()) == (300, True)
