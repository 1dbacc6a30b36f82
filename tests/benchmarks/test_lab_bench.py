"""The frame that benchmarks on a lab share."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bench_reaction
import click
import pytest
from click.testing import CliRunner
from lab_bench import ArmInTime, Place, by_hand, placed
from ports import reserved
from waiting import until

from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan
from qioi.lab.options import LabOptions
from qioi.lab.signals import ending_signals_interrupt
from qioi.model import Role
from qioi.processes.errors import LabError
from qioi.processes.tree import Tree


@click.command()
@placed("toy")
@click.option("--count", type=int, default=3)
def toy(place: Place, count: int) -> None:
    if not count:
        raise LabError("no neighbours")
    place.write({"rows": [count]}, f"{count} of them\n")


def test_results_are_written_with_the_machine_and_printed(tmp_path: Path) -> None:
    done = CliRunner().invoke(toy, ["--count", "5", "--output", str(tmp_path / "new" / "folder")])
    assert done.exit_code == 0, done.output
    assert "5 of them" in done.output
    document = json.loads((tmp_path / "new" / "folder" / "toy.json").read_text())
    assert (document["rows"], document["machine"]["cores"] > 0) == ([5], True)
    assert (tmp_path / "new" / "folder" / "toy.md").read_text() == "5 of them\n"


def test_a_labs_error_is_the_commands(tmp_path: Path) -> None:
    done = CliRunner().invoke(toy, ["--count", "0", "--output", str(tmp_path)])
    assert (done.exit_code, done.output) == (1, "Error: no neighbours\n")


@pytest.mark.parametrize("found", [1024, 400, 2048])
def test_shares_by_hand_end_with_what_was_found(found: int) -> None:
    tree = Tree(f"qioi-test-{uuid.uuid4().hex[:8]}")
    tree.create()
    try:
        group = tree.group("peer0").create(found)
        lab: Any = SimpleNamespace(tree=tree)
        network: Any = SimpleNamespace(nodes=[SimpleNamespace(name="peer0")])
        with by_hand(lab, network, None):
            assert group.shares() == found
        with contextlib.suppress(LabError), by_hand(lab, network, 5120):
            assert group.shares() == 5120
            raise LabError("ended")
        assert group.shares() == found
    finally:
        tree.remove()


@pytest.mark.parametrize("gone", ["peer0", "peer1", "peer2"])
def test_shares_by_hand_are_put_back_though_a_group_is_gone(gone: str) -> None:
    tree = Tree(f"qioi-test-{uuid.uuid4().hex[:8]}")
    tree.create()
    try:
        groups = {name: tree.group(name).create(400) for name in ("peer0", "peer1", "peer2")}
        lab: Any = SimpleNamespace(tree=tree)
        network: Any = SimpleNamespace(nodes=[SimpleNamespace(name=name) for name in groups])
        with pytest.raises(FileNotFoundError), by_hand(lab, network, 5120):
            groups.pop(gone).directories[0].rmdir()
        assert {name: group.shares() for name, group in groups.items()} == dict.fromkeys(groups, 400)
    finally:
        tree.remove()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_until_shares_by_hand_are_put_back(number: signal.Signals) -> None:
    tree = Tree(f"qioi-test-{uuid.uuid4().hex[:8]}")
    tree.create()
    try:
        groups = [tree.group(name).create(400) for name in ("peer0", "peer1")]

        class Interrupted:
            """A group whose restore a signal interrupts."""

            def __init__(self, name: str) -> None:
                self._group = tree.group(name)
                self.shares = self._group.shares

            def set_shares(self, shares: int) -> None:
                if shares == 400:
                    os.kill(os.getpid(), number)
                self._group.set_shares(shares)

        lab: Any = SimpleNamespace(tree=SimpleNamespace(group=Interrupted))
        network: Any = SimpleNamespace(nodes=[SimpleNamespace(name=name) for name in ("peer0", "peer1")])
        with pytest.raises(KeyboardInterrupt), ending_signals_interrupt(), by_hand(lab, network, 5120):
            assert [group.shares() for group in groups] == [5120, 5120]
        assert [group.shares() for group in groups] == [400, 400]
    finally:
        tree.remove()


def test_a_network_that_is_up_is_measured_by_one_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qioi.lab.lock.PATIENCE", 0.0)
    up = tmp_path / "up"
    with (
        Lab(up).locked(),
        pytest.raises(LabError, match=f"at work on {up}"),
        Place("toy", 17_000, None, tmp_path).network(up),
    ):
        pass


def test_a_network_whose_groups_have_other_names_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(f"qioi-test-{uuid.uuid4().hex[:8]}")
    tree.create()
    network = SimpleNamespace(nodes=[SimpleNamespace(name="peer0"), SimpleNamespace(name="orderer0")])
    monkeypatch.setattr(Lab, "state", lambda _lab: {"cgroup_root": tree.name})
    monkeypatch.setattr(Lab, "network", lambda _lab: network)
    place = Place("toy", 17_000, None, tmp_path)
    try:
        tree.group("peer0").create()
        with pytest.raises(LabError, match=f"no group {tree.name}/orderer0 of the network"), place.network(tmp_path):
            pass
        tree.group("orderer0").create()
        with place.network(tmp_path) as (lab, found):
            assert (lab.tree.name, found) == (tree.name, network)
    finally:
        tree.remove()


@pytest.mark.parametrize("options", [("--dir", "/dev/shm/qioi"), ("--base-port", "17000")])  # the usual port as well
def test_what_only_a_new_network_takes_is_refused_with_one_that_is_up(tmp_path: Path, options: tuple[str, str]) -> None:
    done = CliRunner().invoke(bench_reaction.main, ["--up", str(tmp_path), *options, "--output", str(tmp_path / "new")])
    assert (done.exit_code, "--up: accepted without --dir and --base-port" in done.output) == (2, True)
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_a_killed_node_of_a_network_that_is_up_is_noticed(tmp_path: Path) -> None:
    up = Lab(tmp_path / "up")
    with reserved() as port:
        up.up(LabOptions(peers_per_org=1, orderers=1, consenter="solo", base_port=port), die_with_parent=True)
        try:
            with Place("toy", port, None, tmp_path).network(up.directory) as (lab, network):
                lab.check()
                peer = next(node.name for node in network.nodes if node.role is Role.PEER)
                lab.tree.group(peer).signal(signal.SIGKILL)
                until(lambda: not lab.tree.group(peer).pids())
                with pytest.raises(LabError, match=rf"{peer} \(process \d+\) ended; its log ends:"):
                    lab.check()
        finally:
            up.down()


@pytest.mark.parametrize(("warmup", "come", "arrival"), [(5, None, 1.5), (20, None, 3), (8, 0.3, 8.3), (20, -10, 10)])
def test_interferers_come_early_in_the_warm_up_or_when_they_are_told_to(
    warmup: float, come: float | None, arrival: float
) -> None:
    assert ArmInTime("x", "x", LoadPlan(30, warmup), come=come).arrival == pytest.approx(arrival)
