"""SIGHUP, `on_exit: keep` and the talk with systemd, on a real daemon."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from bad_documents import BAD, as_bytes
from running import Site, end
from waiting import PATIENCE, until

pytestmark = pytest.mark.slow


def value(file: Path) -> int:
    return int(file.read_text())


def reloads(site: Site) -> tuple[int, int]:
    configuration = (site.status() or {})["configuration"]
    return configuration["reloads"], configuration["refused"]


def raised(site: Site, *shares: Path) -> None:
    site.commit_until(lambda: all(value(share) > 1024 for share in shares))


def test_a_broken_configuration_keeps_the_old_one_and_says_so(site: Site) -> None:
    share = site.component("peer0")
    process = site.start()
    raised(site, share)
    (site.folder / "qioi.yaml").write_text("period: 0\nperiod: 1\n")
    process.send_signal(signal.SIGHUP)
    until(lambda: reloads(site) == (0, 1))
    assert "key 'period' stands twice" in site.status()["configuration"]["problems"][0]  # type: ignore[index]
    assert "Reload refused" in site.qioi("status", "--socket", str(site.socket)).stdout
    assert value(share) > 1024
    site.config()
    process.send_signal(signal.SIGHUP)
    until(lambda: reloads(site) == (1, 1))
    assert site.status()["configuration"]["problems"] == []  # type: ignore[index]
    status, text = end(process)
    assert status == 0, text
    assert "reload refused: " in text
    assert "stays in force" in text


def test_a_fifo_as_the_configuration_is_refused_at_once(site: Site) -> None:
    share = site.component("peer0")
    process = site.start()
    raised(site, share)
    (site.folder / "qioi.yaml").unlink()
    os.mkfifo(site.folder / "qioi.yaml")
    process.send_signal(signal.SIGHUP)
    until(lambda: reloads(site) == (0, 1))
    (problem,) = site.status()["configuration"]["problems"]  # type: ignore[index]
    assert "not a regular file" in problem
    assert end(process)[0] == 0
    done = site.qioi("run", "-c", str(site.folder / "qioi.yaml"))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "not a regular file" in done.stderr


def test_no_file_ends_a_daemon_that_reads_it_again(site: Site) -> None:
    share = site.component("peer0")
    process = site.start()
    raised(site, share)
    for number, (content, said) in enumerate(BAD.values(), 1):
        (site.folder / "qioi.yaml").write_bytes(as_bytes(content))
        process.send_signal(signal.SIGHUP)
        until(lambda number=number: reloads(site) == (0, number))  # type: ignore[misc]
        (problem,) = site.status()["configuration"]["problems"]  # type: ignore[index]
        assert problem.startswith(f"{site.folder / 'qioi.yaml'}: {said}")
    (site.folder / "qioi.yaml").unlink()
    (site.folder / "qioi.yaml").mkdir()
    process.send_signal(signal.SIGHUP)
    until(lambda: reloads(site) == (0, len(BAD) + 1))
    (site.folder / "qioi.yaml").rmdir()
    site.config()
    process.send_signal(signal.SIGHUP)
    until(lambda: reloads(site) == (1, len(BAD) + 1))
    assert value(share) > 1024
    assert end(process)[0] == 0


@pytest.mark.parametrize(
    ("group", "counts"), [("x" * 256, (0, 1)), ("/".join(["x" * 200] * 20), (1, 0))], ids=["name", "path"]
)
def test_a_group_that_no_kernel_could_have_ends_no_daemon(site: Site, group: str, counts: tuple[int, int]) -> None:
    """Below the mount the path is too long, where a start takes it for a group that is not there yet."""
    site.component("peer0")
    process = site.start()
    site.components.append({**site.components[0], "name": "peer1", "cgroup": group})
    site.config()
    process.send_signal(signal.SIGHUP)
    until(lambda: reloads(site) == counts)
    last = site.periods()
    until(lambda: site.periods() > last)
    assert end(process)[0] == 0


def test_a_good_one_takes_effect_and_no_share_falls_back(site: Site) -> None:
    stays, goes = site.component("peer0"), site.component("peer1")
    process = site.start()
    raised(site, stays, goes)
    gone = site.components.pop()
    comes = site.component("peer2")
    site.changes = {"period": 0.2, "channels": {"red": {"threshold": 900, "law": "proportional", "ceiling": 8000}}}
    site.config()
    seen: list[int] = []

    def done() -> bool:
        seen.append(value(stays))
        return reloads(site) == (1, 0) and value(comes) > 1024

    process.send_signal(signal.SIGHUP)
    site.commit_until(done)
    assert min(seen) > 1024
    assert value(goes) == 1024
    document = site.status()
    assert document is not None
    assert document["period"] == 0.2
    assert [one["name"] for one in document["components"]] == ["peer0", "peer2"]
    assert document["channels"][0]["threshold"] == 900
    assert document["components"][0]["original"] == 1024
    assert document["components"][0]["working"]["ceiling"] == 8000
    status, text = end(process)
    assert status == 0, text
    assert f"{gone['name']}: let go: ok: " in text
    assert value(stays) == value(goes) == value(comes) == 1024


def test_what_is_used_at_the_start_only_is_named(site: Site) -> None:
    site.component("peer0")
    process = site.start()
    site.changes = {"state_dir": str(site.folder / "elsewhere"), "own": {"nice": 0}}
    site.config()
    process.send_signal(signal.SIGHUP)
    until(lambda: reloads(site) == (1, 0))
    assert site.status()["configuration"]["at_next_start"] == ["state_dir", "record_dir", "socket", "own"]  # type: ignore[index]
    assert end(process)[0] == 0


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_dry_run_begins_and_ends_at_a_start_only(site: Site, dry_run: bool) -> None:
    share = site.component("peer0")
    site.changes = {"dry_run": dry_run}
    process = site.start()
    site.changes = {"dry_run": not dry_run}
    site.config()
    process.send_signal(signal.SIGHUP)
    until(lambda: reloads(site) == (1, 0))
    document = site.status()
    assert document is not None
    assert (document["configuration"]["at_next_start"], document["dry_run"]) == (["dry_run"], dry_run)
    if dry_run:
        site.commit_until(lambda: site.status()["totals"]["decisions"] > 0)  # type: ignore[index]
        site.stays(lambda: value(share) == 1024)
    else:
        raised(site, share)
    assert end(process)[0] == 0
    assert value(share) == 1024


def test_a_group_that_is_not_there_is_taken_up_when_it_comes(site: Site) -> None:
    site.component("peer0")
    process = site.start()
    share = site.component("peer1")
    share.parent.rmdir()
    site.changes = {"channels": {"red": {"threshold": 900, "law": "proportional"}}}
    site.config()
    process.send_signal(signal.SIGHUP)
    until(lambda: site.status()["channels"][0]["threshold"] == 900)  # type: ignore[index]
    share.parent.mkdir()
    raised(site, share)
    status, text = end(process)
    assert status == 0
    assert f"peer1: cgroup: {share.parent}: no such control group: accepted is a group that exists; it is taken" in text


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"cgroup": "qioi-nobody"}, "no such control group"),  # of all that are listed none is there
        ({"log": "/nowhere/peer0.log"}, "no such file, or no right to look"),
    ],
)
def test_a_reload_is_refused_for_what_a_start_is(site: Site, change: dict[str, str], why: str) -> None:
    site.component("peer0")
    process = site.start()
    site.components[0] |= change
    site.config()
    process.send_signal(signal.SIGHUP)
    until(lambda: reloads(site) == (0, 1))
    (problem,) = site.status()["configuration"]["problems"]  # type: ignore[index]
    assert why in problem
    assert end(process)[0] == 0


def test_a_discovery_that_waits_for_a_restart_leaves_nothing_unwatched(site: Site) -> None:
    share = site.component("peer0")
    process = site.start()
    raised(site, share)
    docker = {"docker": {"socket": str(site.folder / "docker.sock")}}
    site.changes = {**docker, "components": [], "channels": {}}
    site.config()
    process.send_signal(signal.SIGHUP)
    until(lambda: reloads(site) == (0, 1))
    (problem,) = site.status()["configuration"]["problems"]  # type: ignore[index]
    assert problem.startswith(f"{site.folder / 'qioi.yaml'}: components: none: accepted is at least one")
    assert problem.endswith("; docker: takes effect at the next start only")
    # A start with it would be well: `check` does not know which discovery runs now.
    assert site.qioi("check", "-c", str(site.folder / "qioi.yaml")).returncode == 0
    site.stays(lambda: value(share) > 1024)
    site.changes = docker
    site.config()
    process.send_signal(signal.SIGHUP)
    until(lambda: reloads(site) == (1, 1))
    assert site.status()["configuration"]["at_next_start"] == ["docker"]  # type: ignore[index]
    site.stays(lambda: value(share) > 1024)
    assert end(process)[0] == 0


def test_kept_shares_are_gone_on_with_by_the_next_daemon(site: Site) -> None:
    site.changes = {"on_exit": "keep"}
    share, dropped = site.component("peer0"), site.component("peer1")
    process = site.start()
    raised(site, share, dropped)
    status, text = end(process)
    assert status == 0, text
    kept = value(share)
    assert kept > 1024
    spared = site.qioi("restore", "--state-dir", str(site.state), "--unless-kept")
    assert "kept on purpose" in spared.stdout
    assert value(share) == kept
    site.components.pop()
    process = site.start()
    until(lambda: site.status()["totals"]["periods"] > 2)  # type: ignore[index]
    assert value(share) == kept  # nothing was committed since: no rule has moved it
    assert value(dropped) == 1024
    assert site.status()["components"][0]["original"] == 1024  # type: ignore[index]
    end(process)
    assert site.qioi("restore", "--state-dir", str(site.state)).returncode == 0
    assert value(share) == 1024


def test_shares_are_not_kept_for_a_daemon_that_looks_elsewhere(site: Site) -> None:
    """It would take the raised shares for the originals."""
    site.changes = {"on_exit": "keep"}
    share = site.component("peer0")
    process = site.start()
    raised(site, share)
    site.changes["state_dir"] = str(site.folder / "other")
    site.config()
    process.send_signal(signal.SIGHUP)
    until(lambda: reloads(site) == (1, 0))
    status, text = end(process)
    assert status == 0, text
    assert value(share) == 1024
    assert "which would not find kept shares" in text


def test_keep_is_not_for_a_daemon_that_was_killed(site: Site) -> None:
    site.changes = {"on_exit": "keep"}
    share = site.component("peer0")
    process = site.start()
    raised(site, share)
    end(process, signal.SIGKILL)
    assert site.qioi("restore", "--state-dir", str(site.state), "--unless-kept").returncode == 0
    assert value(share) == 1024


@pytest.fixture
def manager(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """What listens on systemd's side."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(site.folder / "notify"))
        listener.settimeout(PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", str(site.folder / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "400000")
        yield listener


def test_systemd_is_told_of_every_turn(site: Site, manager: socket.socket) -> None:
    site.component("peer0")
    site.changes = {"period": 60.0}  # the watchdog is fed in between
    process = site.start()

    def words() -> list[str]:
        return manager.recv(4096).decode().split("\n")

    def until_said(first: str) -> list[str]:
        return until(lambda: said if (said := words())[0] == first else [], what=first)

    assert until_said("READY=1")[1].startswith("STATUS=watching 1 component and 1 channel")
    assert [until_said("WATCHDOG=1") for _ in range(5)] == [["WATCHDOG=1"]] * 5
    assert site.periods() == 1
    process.send_signal(signal.SIGHUP)
    assert until_said("RELOADING=1")[1].startswith("MONOTONIC_USEC=")
    until_said("READY=1")
    process.send_signal(signal.SIGTERM)
    until_said("STOPPING=1")
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
