"""The demo from end to end, short: real ledger, real sysbench, real daemon. No figure is judged here."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from stuck_ledger import SENDS, stuck_ledger
from waiting import PATIENCE, until

from qioi.kernel.errors import CgroupError
from qioi.lab.arms import Arm, Runner
from qioi.lab.daemon import daemon_config
from qioi.lab.demo import DemoOptions, clear_others, default_threshold, demo_directory
from qioi.lab.figures import ArmFigures
from qioi.lab.flush_probe import file_system
from qioi.lab.folder import MARKER
from qioi.lab.lab import DAEMON_STATE, Lab
from qioi.lab.load import LoadPlan, parse_result
from qioi.lab.options import LabOptions
from qioi.model import Role
from qioi.processes.errors import BusyError, LabError
from qioi.processes.launch import launch

pytestmark = pytest.mark.slow


@pytest.fixture
def demo_lab() -> Iterator[Lab]:
    """Where a demo would stand, in a folder of the test's own."""
    usual = demo_directory()
    lab = Lab(usual.with_name(f"{usual.name}-{uuid.uuid4().hex[:8]}"))
    yield lab
    lab.down()


def start_demo(lab: Lab, base_port: int, output: Path) -> subprocess.Popen[str]:
    short = ("--duration", "5", "--warmup", "2", "--rate", "40", "--sysbench", "2")
    command = [sys.executable, "-m", "qioi.cli", "demo", *short, "--base-port", str(base_port)]
    command += ["--dir", str(lab.directory), "--output", str(output)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture
def stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a demo with its results in ``tmp_path/results`` stay in its second arm, the first one with sysbench."""
    ledger = stuck_ledger(tmp_path, f'[ "$1" = load ] && [ -e {tmp_path}/results/alone/arm.json ]', SENDS)
    monkeypatch.setenv("QIOI_LEDGER", str(ledger))


#: What the load client says where a node has stood still for the whole of a short window.
NO_COMMIT = "nothing was committed"
#: What a demo's output has where the machine has.
STOOD_STILL = ("the machine is too busy", NO_COMMIT, "the window ended before the neighbours came")


def clean(lab: Lab) -> bool:
    return not lab.tree.root.exists and not lab.tree.pids() and not lab.directory.exists()


def test_the_demo_measures_three_arms_and_writes_a_report(demo_lab: Lab, base_port: int, tmp_path: Path) -> None:
    for number in range(5):
        results = tmp_path / str(number)
        demo = start_demo(demo_lab, base_port, results)
        output, _ = demo.communicate(timeout=3 * PATIENCE)
        if not any(text in output for text in STOOD_STILL):
            break
    assert demo.returncode == 0, output
    assert "2 sysbench, QiOi" in output
    assert clean(demo_lab)
    result = json.loads((results / "result.json").read_text())
    assert [arm["name"] for arm in result["arms"]] == ["alone", "together", "protected"]
    for arm in result["arms"]:
        assert arm["load"]["committed"] > 0
        assert set(arm["roles"]) == {"peer", "orderer", "chaincode"}
        assert all(role["cores"] > 0 for role in arm["roles"].values())
        assert (arm["interferer"]["events"] > 0) == (arm["name"] != "alone")
        assert (arm["daemon_cores"] > 0) == (arm["name"] == "protected")
        with (results / arm["name"] / "samples.csv").open() as file:
            names = {row["name"] for row in csv.DictReader(file)}
        assert {"client", "orderer1", "peer0-org1"} <= names
    page = (results / "report.html").read_text()
    assert page.count("<svg") == 5
    links = page.split('href="')[1:]
    assert links
    for link in links:
        assert (results / link.split('"', 1)[0]).is_file()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_the_host_clean(
    demo_lab: Lab, base_port: int, tmp_path: Path, stays: None, number: signal.Signals
) -> None:
    demo = start_demo(demo_lab, base_port, tmp_path / "results")
    until(lambda: demo_lab.tree.group("sysbench1").pids() or demo.poll() is not None)
    assert demo.poll() is None
    demo.send_signal(number)
    output, _ = demo.communicate(timeout=PATIENCE)
    assert demo.returncode != 0, output
    assert "Traceback" not in output
    assert clean(demo_lab)


def test_nothing_outlives_a_killed_demo_and_the_next_one_clears_up(
    demo_lab: Lab, base_port: int, tmp_path: Path, stays: None
) -> None:
    demo = start_demo(demo_lab, base_port, tmp_path / "results")
    until(lambda: demo_lab.tree.group("sysbench1").pids() or demo.poll() is not None)
    assert demo.poll() is None
    demo.kill()
    demo.communicate()
    until(lambda: not demo_lab.tree.pids())
    demo_lab.up(LabOptions(peers_per_org=1, orderers=1, consenter="solo", base_port=base_port))
    assert all(status.ready for status in demo_lab.status())


def test_an_arm_without_interferers_and_one_with(lab: Lab, base_port: int, tmp_path: Path) -> None:
    network = lab.up(LabOptions(peers_per_org=1, orderers=1, consenter="solo", base_port=base_port))
    runner = Runner(lab, network, tmp_path)
    load = LoadPlan(duration=3, warmup=1, rate=30)
    seconds: list[float] = []
    alone = measured(runner, Arm("alone", "alone", load), seconds)
    assert seconds == sorted(seconds)
    assert alone.interferer.count == 0
    assert alone.load.offered == 30
    together = measured(runner, Arm("together", "beside one", load, sysbench=1), [])
    assert together.interferer.cores > 0
    assert together.roles[Role.PEER].switches > 0
    assert not lab.tree.group("sysbench1").exists
    assert [entry.shares for entry in lab.status()] == [1024] * len(network.nodes)


def measured(runner: Runner, arm: Arm, seconds: list[float]) -> ArmFigures:
    """Run an arm; again, where the machine is too busy for a second sample, or a commit, within its few seconds."""
    for _ in range(5):
        seconds.clear()
        try:
            return runner.run(arm, seconds.append)
        except BusyError:
            continue
        except LabError as error:
            if NO_COMMIT not in str(error):
                raise
    return runner.run(arm)


def test_a_load_that_fails_ends_the_arm_with_its_words(lab: Lab, base_port: int, tmp_path: Path) -> None:
    network = lab.up(LabOptions(peers_per_org=1, orderers=1, consenter="solo", base_port=base_port))
    broken = Arm("broken", "broken", LoadPlan(1, 1, rate=10, extra=("--chaincode", "nosuch")), sysbench=1)
    with pytest.raises(LabError, match=r"the load client failed(.|\n)*nosuch"):
        Runner(lab, network, tmp_path).run(broken)
    assert not lab.tree.group("sysbench1").exists


def test_a_node_that_dies_during_an_arm_ends_it(lab: Lab, base_port: int, tmp_path: Path) -> None:
    network = lab.up(LabOptions(peers_per_org=1, orderers=1, consenter="solo", base_port=base_port))
    killed = []

    def kill_once(seconds: float) -> None:
        if seconds > 1 and not killed:
            killed.append(lab.tree.group("orderer1").signal(signal.SIGKILL))

    with pytest.raises(LabError, match="orderer1 ended"):
        Runner(lab, network, tmp_path).run(Arm("x", "x", LoadPlan(300, 1, rate=10)), kill_once)
    assert not lab.tree.group("client").pids()


def test_a_daemon_that_cannot_start_is_reported_with_its_words(lab: Lab, base_port: int, tmp_path: Path) -> None:
    network = lab.up(LabOptions(peers_per_org=1, orderers=1, consenter="solo", base_port=base_port))
    config = daemon_config(lab, network, law="adaptive", threshold=10.0).replace("adaptive", "no-such-law")
    arm = Arm("x", "x", LoadPlan(300, 1, rate=10), config=config)
    with pytest.raises(LabError, match=r"the daemon ended \(status \d+\)(.|\n)*no-such-law"):
        Runner(lab, network, tmp_path).run(arm)
    assert not lab.tree.group("qioi").exists


def test_the_daemon_puts_every_share_back(lab: Lab, base_port: int, tmp_path: Path) -> None:
    network = lab.up(LabOptions(peers_per_org=1, orderers=1, consenter="solo", base_port=base_port))
    # Owed far more than is offered, Algorithm 1 raises at once.
    config = daemon_config(lab, network, law="proportional", threshold=10_000.0)
    # Where others on the host are busy meanwhile, the weight that competes with them is the whole lab's.
    lab_group, peer = lab.tree.root, lab.tree.group("peer0-org1")
    for duration in (14, 100):  # on a busy host the daemon may take long to start, and to see a whole window
        seen: list[tuple[int, int]] = []
        load = LoadPlan(duration=duration, warmup=1, rate=30)
        figures = Runner(lab, network, tmp_path).run(
            Arm(f"x{duration}", "x", load, config=config),
            lambda _seconds, seen=seen: seen.append((lab_group.shares(), peer.shares())),
        )
        raised = [max(shares) > 1024 for shares in zip(*seen, strict=True)]
        if any(raised):
            break
    assert any(raised)
    assert (lab_group.shares(), peer.shares()) == (1024, 1024)
    # It may be raised at last while the client drains, after the window that the figures are of.
    result = parse_result(json.loads((tmp_path / figures.name / "load.json").read_text()), tmp_path)
    with (tmp_path / figures.name / "samples.csv").open() as file:
        samples = [(float(row["unix"]), int(row["shares"])) for row in csv.DictReader(file) if row["role"] == "peer"]
    assert (max(share for _, share in samples) > 1024) == raised[1]
    shown = [share for at, share in samples if result.start - load.warmup <= at <= result.end]
    assert (max(share for _, share in dict(figures.series.shares)["peer"]) > 1024) == (max(shown) > 1024)


def test_thresholds_are_chosen_by_the_law() -> None:
    assert default_threshold("adaptive", 99.96, 300.0) == 100.0
    assert default_threshold("proportional", 99.96, 299.7) == 300
    assert default_threshold("proportional", 99.96, None) == 100.0
    assert DemoOptions().law == "adaptive"


def test_the_demo_stands_in_memory_where_there_is_room(tmp_path: Path) -> None:
    memory, disk = Path("/dev/shm/x"), tmp_path
    in_memory = file_system(memory.parent) == "tmpfs"
    assert demo_directory(memory, disk, room=0) == (memory if in_memory else disk)
    assert demo_directory(memory, disk, room=1 << 60) == disk
    assert demo_directory(tmp_path / "no" / "x", disk) == disk


def test_a_folder_of_somebody_else_s_in_memory_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (memory := tmp_path / "memory").mkdir()
    disk = tmp_path / "disk"
    assert demo_directory(memory, disk) == memory
    memory.chmod(0o777)
    assert demo_directory(memory, disk, room=0) == disk
    assert f"{memory} is not this user's own folder: the ledgers stand on the disk, in {disk}" in caplog.text
    (link := tmp_path / "link").symlink_to(memory)
    assert demo_directory(link, disk, room=0) == disk


def test_what_a_killed_run_has_left_in_the_other_usual_folder_is_removed(tmp_path: Path) -> None:
    left, lives, others, own = usual = [tmp_path / name for name in ("left", "lives", "others", "own")]
    for folder in usual:
        folder.mkdir()
        (folder / MARKER).write_text("x\n")
    others.chmod(0o777)
    lab = Lab(lives)
    lab.state_file.write_text("{}")
    lab.tree.create()
    try:
        running = launch(["sleep", "1000"], lab.tree.group("peer").create(), die_with_parent=True)
        clear_others(tmp_path / "chosen by the user", usual)
        assert all(folder.exists() for folder in usual)
        clear_others(own, usual)
        assert [folder.name for folder in usual if folder.exists()] == ["lives", "others", "own"]
        assert running.poll() is None
    finally:
        lab.down()
    assert not left.exists()


def test_what_cannot_be_removed_from_the_other_folder_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    left, own = tmp_path / "left", tmp_path / "own"
    (left / DAEMON_STATE / "lock").mkdir(parents=True)
    (left / MARKER).write_text("x\n")
    clear_others(own, (left, own))
    assert f"{left}: what a killed run has left there stays: " in caplog.text


@pytest.mark.parametrize("error", [LabError("x"), CgroupError("x"), OSError("x")])
@pytest.mark.parametrize("of", ["__init__", "down"])
def test_nothing_that_is_left_in_the_other_folder_ends_todays_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: Exception, of: str
) -> None:
    """The hierarchy cannot be used, a group cannot be removed, or the disk is read-only."""
    left, own = tmp_path / "left", tmp_path / "own"
    left.mkdir()
    (left / MARKER).touch()

    def fail(*_words: Any, **_more: Any) -> None:
        raise error

    monkeypatch.setattr(Lab, of, fail)
    clear_others(own, (left, own))
    assert f"{left}: what a killed run has left there stays: x" in caplog.text


@pytest.fixture
def roomy(tmp_path: Path) -> Iterator[Path]:
    """A file system in memory that may hold twice as much as the machine has."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a file system")
    (folder := tmp_path / "roomy").mkdir()
    size = f"size={2 * psutil.virtual_memory().total}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_the_room_in_memory_is_no_more_than_the_memory_that_is_free(roomy: Path, tmp_path: Path) -> None:
    """A file system in memory tells how much it may hold, not how much there is."""
    assert demo_directory(roomy / "x", tmp_path, room=1) == roomy / "x"
    assert demo_directory(roomy / "x", tmp_path, room=psutil.virtual_memory().total + 1) == tmp_path
