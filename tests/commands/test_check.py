"""`qioi check` says whose processes a daemon would see, and what the host lacks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from qioi.cli import main
from qioi.commands import check
from qioi.daemon.lock import HOST_LOCK, HostLock, TreeLock
from qioi.kernel.errors import CgroupError
from qioi.kernel.hierarchy import Hierarchy
from qioi.settings.config import load_config
from qioi.show.http import BusyError, serve_unix

#: The file of one who has components found.
FOUND = "docker: {}\nchannels:\n  pay: {threshold: 400}\n"
PEER = "components:\n- {name: peer0, role: peer, cgroup: q/peer0, log: peer0.log, channels: [pay]}\n"

CHECK = [sys.executable, "-m", "qioi.cli", "check", "--output", "json"]


def processes(*prefix: str) -> str:
    done = subprocess.run([*prefix, *CHECK], capture_output=True, text=True, check=False)
    return str(json.loads(done.stdout)["facts"]["processes"])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a PID namespace")
def test_in_a_pid_namespace_of_its_own_it_names_what_is_missing() -> None:
    assert "--pid host" in processes("unshare", "--pid", "--fork", "--mount-proc")


def test_a_host_without_a_cpu_controller_is_told_to_programs_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere() -> None:
        raise CgroupError("no CPU controller in /proc/self/mountinfo")

    monkeypatch.setattr(check, "find_hierarchy", nowhere)
    file = tmp_path / "qioi.yaml"
    file.write_text("nonsense: 1\n")
    said = CliRunner().invoke(main, ["check", "-c", str(file), "--output", "json"])
    found = json.loads(said.stdout)
    assert said.exit_code == 1
    assert found["facts"]["cpu controller"] == "none"
    assert "no CPU controller in /proc/self/mountinfo" in found["problems"]
    assert any("nonsense: unknown key" in one for one in found["problems"])
    said = CliRunner().invoke(main, ["check", "-c", str(file)])
    assert (said.exit_code, "cpu controller: none" in said.stdout) == (1, True)
    assert "Error: no CPU controller in /proc/self/mountinfo\n" in said.stderr


def test_no_name_reaches_the_terminal_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a group's, which any user may have made; here it is a folder's. The second one cannot be made."""
    monkeypatch.setenv(HOST_LOCK, str(tmp_path))
    monkeypatch.setattr(check, "PATIENCE", 0.0)
    (tmp_path / "bell\a").touch()
    file = tmp_path / "qioi.yaml"
    for folder, status, shown in (("wide\\u009b2J", 0, "wide 2J, socket"), ("bell\\a/state", 1, "bell : ")):
        file.write_text(f'state_dir: "{folder}"\nmetrics: {{port: 0}}\ndocker: {{}}\n')
        said = CliRunner().invoke(main, ["check", "-c", str(file)])
        assert (said.exit_code, shown in (said.stderr if status else said.stdout)) == (status, True), said.output
        assert all(one.isprintable() for one in said.output.split("\n"))


def test_what_a_daemon_that_stands_still_has_is_its_own(tmp_path: Path) -> None:
    """One that is stopped (SIGSTOP), as the kernel goes on to accept for it; or one whose loop has stalled."""
    lock = HostLock(tmp_path)
    with closing(lock), socket.socket(socket.AF_UNIX) as daemon, socket.create_server(("127.0.0.1", 0)) as metrics:
        daemon.bind(str(tmp_path / "qioi.sock"))
        daemon.listen()
        file = tmp_path / "qioi.yaml"
        port = metrics.getsockname()[1]
        file.write_text(f"state_dir: .\nsocket: qioi.sock\nmetrics: {{port: {port}}}\ndocker: {{}}\n")
        config = load_config(file)
        assert list(check.obstacles(config)) == []
        daemon.close()
        (problem,) = check.obstacles(config)
        assert "Address already in use" in problem


def test_who_answers_without_the_lock_is_another_process(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other, socket.create_server(("127.0.0.1", 0)) as metrics:
        other.bind(str(tmp_path / "qioi.sock"))
        other.listen()
        port = metrics.getsockname()[1]
        file = tmp_path / "qioi.yaml"
        file.write_text(f"state_dir: .\nsocket: qioi.sock\nmetrics: {{port: {port}}}\ndocker: {{}}\n")
        for _ in range(2):
            said = list(check.obstacles(load_config(file)))
            assert [one.partition(": ")[2] for one in said] == [
                f"socket {tmp_path}/qioi.sock: another process answers there: accepted is a path of the daemon's own",
                f"metrics 127.0.0.1:{port}: Address already in use; name a free one with `metrics.port`, or 0 for none",
            ]
            HostLock(tmp_path).close()  # one has run, and has ended


def test_a_daemon_with_another_state_folder_is_in_the_way_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host := tmp_path / "host").mkdir()
    monkeypatch.setenv(HOST_LOCK, str(host))
    file = tmp_path / "qioi.yaml"
    file.write_text("state_dir: state\nmetrics: {port: 0}\ndocker: {}\n")
    config, hierarchy = load_config(file), Hierarchy(2, tmp_path)
    running = (
        f"{host}: a QiOi daemon is running already on this host (pid {os.getpid()}), with another state_dir: stop it "
        "first; restart it if it is the one that reads this file"
    )
    with closing(TreeLock(host)):
        assert list(check.another_daemon(config, hierarchy)) == [running]
        assert list(check.another_daemon(replace(config, dry_run=True), hierarchy)) == []
        said = CliRunner().invoke(main, ["check", "-c", str(file)])
        assert (said.exit_code, f"Error: {running}\n" in said.stderr) == (1, True)
        config.state_dir.mkdir()
        with closing(HostLock(config.state_dir)):  # that daemon is this configuration's own
            assert list(check.another_daemon(config, hierarchy)) == []
    for _ in range(2):  # asking leaves it free
        assert list(check.another_daemon(config, hierarchy)) == []
    TreeLock(host).close()
    host.rmdir()
    assert list(check.another_daemon(config, hierarchy)) == [f"{host}: No such file or directory: accepted is a folder"]


@pytest.mark.parametrize(
    ("socket", "made"), [("below/qioi.sock", True), ("below/state/qioi.sock", True), ("elsewhere/qioi.sock", False)]
)
def test_a_folder_that_is_made_with_the_state_folder_may_hold_the_socket(
    tmp_path: Path, socket: str, made: bool
) -> None:
    file = tmp_path / "qioi.yaml"
    file.write_text(f"state_dir: below/state\nsocket: {socket}\nmetrics: {{port: 0}}\ndocker: {{}}\n")
    refused = f"{file}: socket {tmp_path / socket}: accepted is a path in a folder that is there and can be written"
    assert list(check.obstacles(load_config(file))) == ([] if made else [refused])


@pytest.mark.parametrize("kind", ["file", "folder", "link to nothing"])
def test_a_socket_in_the_place_of_something_else_is_refused_as_by_the_daemon(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "qioi.sock"
    if kind == "file":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("nothing")
    file = tmp_path / "qioi.yaml"
    file.write_text("state_dir: state\nsocket: qioi.sock\nmetrics: {port: 0}\ndocker: {}\n")
    assert list(check.obstacles(load_config(file))) == [
        f"{file}: socket {path}: no socket: accepted is a path at which there is nothing else"
    ]
    with pytest.raises(BusyError, match="Address already in use"):
        serve_unix(path, {})


@pytest.mark.parametrize(
    ("text", "raised"),
    [
        (FOUND, "whatever is found"),
        (PEER + FOUND, "peer0, and whatever is found"),
        (PEER, "peer0"),
        (PEER + "mine: [q/client]\n", "peer0"),
        (FOUND.replace("docker", "kubernetes").partition("channels")[0], None),
    ],
)
def test_a_channel_may_raise_what_is_listed_and_what_is_found(tmp_path: Path, text: str, raised: str | None) -> None:
    file = tmp_path / "qioi.yaml"
    file.write_text(text)
    facts = check.config_facts(load_config(file))
    assert facts["components"] == ("peer0 (peer)" if "peer0" in text else "whatever is found")
    assert (facts["channel pay"].partition("may raise ")[2] if raised else facts.get("channel pay")) == raised


@pytest.fixture
def public() -> Iterator[Path]:
    """Give a folder that everybody may look into."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_what_root_alone_may_write_is_no_problem_of_somebody_elses_check(public: Path) -> None:
    state = public / "state"
    state.mkdir(mode=0o755)
    (state / "journal").touch(mode=0o600)
    file = public / "qioi.yaml"
    file.write_text("state_dir: state\nsocket: qioi.sock\nmetrics: {port: 0}\ndocker: {}\n")
    config, problems = load_config(file), list[str]()
    os.setresuid(65534, 65534, 0)
    try:
        facts = check.config_facts(config) | check.journal_facts(config.state_dir, problems)
        problems += check.obstacles(config)
    finally:
        os.setresuid(0, 0, 0)
    assert problems == []
    assert facts["state"].endswith(f": this user may not write {state}")
    assert facts["records"] == str(state)
    assert facts["journal"] == "this user may not read it"
    assert check.config_facts(config)["state"] == f"{state}, socket {public}/qioi.sock"
