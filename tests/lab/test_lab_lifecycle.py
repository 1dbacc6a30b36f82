"""`qioi lab`: up, status, down, and every way of not leaving anything behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from node_names import named
from stuck_ledger import stuck_ledger
from waiting import PATIENCE, until

from qioi.commands.lab import command
from qioi.lab.folder import MARKER
from qioi.lab.lab import CLIENT_SHARES, STATE, Lab
from qioi.lab.network import find_binary
from qioi.lab.options import LabOptions
from qioi.model import Role
from qioi.processes.errors import LabError
from qioi.processes.tree import Program

#: No orderer ever serves.
NO_ORDERER = '[ "$1" = orderer ]'
SMALL = ("--peers-per-org", "1", "--orderers", "1", "--consenter", "solo")


def small(base_port: int) -> LabOptions:
    return LabOptions(peers_per_org=1, orderers=1, consenter="solo", base_port=base_port)


def gone(lab: Lab) -> bool:
    return not any(directory.exists() for directory in lab.tree.root.directories) and not lab.directory.exists()


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, arguments)
    return result.exit_code, result.output


@pytest.mark.slow
def test_every_node_serves_from_a_group_of_its_own(lab: Lab, base_port: int) -> None:
    network = lab.up(LabOptions(base_port=base_port))
    assert [len(named(network, role)) for role in (Role.PEER, Role.ORDERER, Role.CHAINCODE)] == [4, 3, 4]
    found = lab.status()
    assert all(entry.ready and len(entry.pids) == 1 and entry.shares == 1024 for entry in found)
    state = json.loads(lab.state_file.read_text())
    assert state["runtime"] == "process"
    assert state["cgroup_root"] == lab.tree.name
    *nodes, client = state["components"]
    assert (client["role"], client["cgroup"]) == ("client", f"{lab.tree.name}/client")
    for component in nodes:
        assert component["cgroup"] == f"{lab.tree.name}/{component['name']}"
        assert component["channels"] == ["mychannel"]
        assert component["log_format"] == "plain"
        assert Path(component["log"]).is_file()
        assert component["cgroup"] in Path(f"/proc/{state['pids'][component['name']]}/cgroup").read_text()
    pids = lab.tree.pids()
    assert Lab(lab.directory).down()
    assert gone(lab)
    assert not [pid for pid in pids if serving(pid)]


@pytest.mark.slow
def test_a_second_up_says_that_one_is_running(lab: Lab, base_port: int) -> None:
    lab.up(small(base_port))
    with pytest.raises(LabError, match="already running"):
        Lab(lab.directory).up(small(base_port))
    assert all(entry.ready for entry in lab.status())


@pytest.mark.slow
def test_down_is_repeatable_and_says_when_there_is_nothing(lab: Lab, base_port: int) -> None:
    assert not lab.down()
    lab.up(small(base_port))
    assert lab.down()
    assert not lab.down()
    assert gone(lab)


@pytest.mark.slow
def test_ports_of_another_lab_are_not_mistaken_for_ones_own(lab: Lab, base_port: int, tmp_path: Path) -> None:
    lab.up(small(base_port))
    second = Lab(tmp_path / "second")
    with pytest.raises(LabError, match=r"cannot have 127.0.0.1:\d+: Address already in use; `--base-port`"):
        second.up(small(base_port))
    assert gone(second)
    assert all(entry.ready for entry in lab.status())


@pytest.mark.slow
def test_a_node_that_fails_shows_its_log_and_takes_all_down(
    lab: Lab, base_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = tmp_path / "ledger"
    real = find_binary()
    wrapper.write_text(f'#!/bin/sh\n[ "$1" != peer ] || {{ echo broken on purpose >&2; exit 3; }}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("QIOI_LEDGER", str(wrapper))
    with pytest.raises(LabError, match=r"peer0-org\d ended \(status 3\); its log ends:\nbroken on purpose"):
        lab.up(small(base_port))
    assert gone(lab)


@pytest.mark.slow
def test_a_node_that_never_serves_is_named(
    lab: Lab, base_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QIOI_LEDGER", str(stuck_ledger(tmp_path, NO_ORDERER)))
    for timeout in (2, 8, 32, 128):  # on a busy host the others may need longer to serve
        with pytest.raises(LabError, match=rf" does not serve after {timeout} s") as caught:
            lab.up(small(base_port), timeout=timeout)
        assert gone(lab)
        if str(caught.value).startswith("orderer1 "):
            return
    pytest.fail(f"another one is named: {caught.value}")


@pytest.mark.slow
def test_a_node_killed_later_is_seen(lab: Lab, base_port: int) -> None:
    lab.up(small(base_port))
    lab.check()
    lab.tree.group("orderer1").signal(signal.SIGKILL)
    until(lambda: not lab.tree.group("orderer1").pids())
    with pytest.raises(LabError, match="orderer1 ended"):
        lab.check()
    assert [entry.node.name for entry in lab.status() if not entry.ready] == ["orderer1"]


@pytest.mark.slow
def test_a_node_killed_on_purpose_is_not_missed(lab: Lab, base_port: int) -> None:
    lab.up(small(base_port))
    other = Lab(lab.directory)
    other.check()
    for one in (lab, other):
        one.kill("orderer1")
        until(lambda: not lab.tree.group("orderer1").pids())
        one.check()


def test_a_folder_with_other_files_is_refused_and_untouched(lab: Lab, base_port: int) -> None:
    lab.directory.mkdir()
    precious = lab.directory / "precious"
    precious.write_text("x")
    with pytest.raises(LabError, match="not empty and no lab's folder"):
        lab.up(small(base_port))
    lab.down()
    assert precious.read_text() == "x"


@pytest.mark.slow
def test_down_may_keep_the_files(lab: Lab, base_port: int) -> None:
    network = lab.up(small(base_port))
    lab.down(keep_files=True)
    assert network.nodes[0].log.exists()
    assert not lab.tree.root.exists
    assert not lab.running
    with pytest.raises(LabError, match="not empty"):
        lab.up(small(base_port))


@pytest.mark.parametrize("keep", [True, False])
def test_a_database_whose_files_stay_is_asked_to_end(lab: Lab, keep: bool) -> None:
    """Where they go it is killed, as nodes of some systems wait for each other."""
    lab.directory.mkdir()
    (lab.directory / MARKER).write_text("x\n")
    lab.tree.create()
    server = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(0)); print(flush=True); signal.pause()"
    begun = lab.directory.parent / "log"
    process = lab.tree.start(Program("replica1", [sys.executable, "-c", server], log=begun))
    until(lambda: (begun.exists() and begun.read_text()) or process.poll() is not None)
    lab.down(keep_files=keep)
    assert process.wait() == (0 if keep else -signal.SIGKILL)


@pytest.mark.slow
def test_a_folder_that_is_a_mount_is_emptied_and_stays(lab: Lab, base_port: int) -> None:
    lab.directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", str(lab.directory)], check=True)
    try:
        for _ in range(2):
            lab.up(small(base_port))
            assert lab.down()
            assert list(lab.directory.iterdir()) == []
    finally:
        subprocess.run(["umount", "--lazy", str(lab.directory)], check=True)


@pytest.mark.slow
def test_down_finds_the_processes_of_a_lab_whose_folder_is_gone(lab: Lab, base_port: int) -> None:
    lab.up(small(base_port))
    subprocess.run(["rm", "-rf", str(lab.directory)], check=True)
    assert lab.down()
    assert gone(lab)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_up_leaves_nothing(lab: Lab, base_port: int, number: signal.Signals) -> None:
    with coming_up(lab, base_port) as process:
        process.send_signal(number)
        assert process.wait(timeout=PATIENCE) != 0
    assert gone(lab)


@pytest.mark.slow
def test_after_a_killed_up_both_down_and_up_work(lab: Lab, base_port: int) -> None:
    for repair in (lambda: lab.down(), lambda: lab.up(small(base_port))):
        with coming_up(lab, base_port):
            pass  # its end is SIGKILL
        repair()
    assert all(entry.ready for entry in lab.status())
    lab.down()
    assert gone(lab)


@pytest.mark.slow
def test_two_commands_at_once_do_not_mix(lab: Lab, base_port: int) -> None:
    with coming_up(lab, base_port) as process:
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(LabError, match="at work"):
            lab.down()
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(timeout=PATIENCE)
    assert gone(lab)


@pytest.mark.slow
def test_the_command_line_walks_through_a_whole_life(lab: Lab, base_port: int) -> None:
    where = ("--dir", str(lab.directory))
    assert run("status", *where)[0] == 1
    code, output = run("up", *where, "--base-port", str(base_port), *SMALL)
    assert code == 0, output
    assert "up: 5 nodes" in output
    code, output = run("status", *where, "--output", "json")
    assert code == 0
    assert {entry["name"] for entry in json.loads(output)} >= {"orderer1", "peer0-org1", "peer0-org2"}
    assert "peer0-org1" in run("status", *where)[1]
    code, output = run("up", *where)
    assert code == 1
    assert "already running" in output
    assert run("down", *where) == (0, f"down: {lab.directory}\n")
    assert "nothing to do" in run("down", *where)[1]


@pytest.mark.slow
def test_the_load_client_has_a_group_and_a_high_share(lab: Lab, base_port: int, tmp_path: Path) -> None:
    lab.up(small(base_port))
    committed = tmp_path / "committed"
    command_line = [sys.executable, "-m", "qioi.cli", "lab", "load", "--dir", str(lab.directory)]
    times = ("--warmup", "0s", "--duration", "1000s", "--record", str(committed))
    client = subprocess.Popen([*command_line, "--rate", "10", *times], stdout=subprocess.PIPE, text=True)
    until(lambda: lab.tree.group("client").pids() or client.poll() is not None)
    assert lab.tree.group("client").pids() == (client.pid,)
    assert lab.client_group().shares() == CLIENT_SHARES
    until(lambda: client.poll() is not None or (committed.exists() and committed.read_text()))
    client.send_signal(signal.SIGINT)
    output, _ = client.communicate(timeout=PATIENCE)
    assert client.returncode == 0, output
    assert "tps" in output


def test_a_load_on_a_lab_that_a_reboot_has_ended_says_so(lab: Lab, tmp_path: Path) -> None:
    """A reboot leaves the folder and takes the groups."""
    lab.directory.mkdir()
    (lab.directory / MARKER).write_text("x\n")
    (lab.directory / STATE).write_text("{}")
    document = {"channels": ["mychannel"], "mode": "stream", "consenter": "solo", "nodes": []}
    (lab.directory / "network.json").write_text(json.dumps(document))
    assert run("load", "--dir", str(lab.directory), "--rate", "10") == (
        1,
        f"Error: the lab in {lab.directory} is not running (`qioi lab up --dir {lab.directory}` starts it)\n",
    )


@contextlib.contextmanager
def coming_up(lab: Lab, base_port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run `qioi lab up`, from when its first node runs; it does not come to its end by itself."""
    command_line = [sys.executable, "-m", "qioi.cli", "lab", "up", "--dir", str(lab.directory), "--timeout", "1000"]
    environment = {**os.environ, "QIOI_LEDGER": str(stuck_ledger(lab.directory.parent, NO_ORDERER))}
    process = subprocess.Popen(
        [*command_line, "--base-port", str(base_port)], env=environment, stdout=subprocess.DEVNULL
    )
    try:
        until(lambda: lab.tree.pids() or process.poll() is not None)
        assert process.poll() is None
        yield process
    finally:
        process.kill()
        process.wait()


def serving(pid: int) -> bool:
    """Whether a process lives; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_labs_in_other_folders_have_other_groups(tmp_path: Path) -> None:
    assert Lab(tmp_path / "a").tree.name != Lab(tmp_path / "b").tree.name
    assert Lab(tmp_path / "a").tree.name == Lab(Path(os.path.relpath(tmp_path / "a"))).tree.name
