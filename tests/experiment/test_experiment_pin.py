"""Neighbours of one component: it and they have one CPU, while they are there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from qioi.experiment import catalogue
from qioi.experiment.pin import Pin
from qioi.experiment.plan import make_plan, make_smoke
from qioi.kernel.threads import threads_of
from qioi.lab import readiness
from qioi.lab.network import Network, Node
from qioi.model import Role
from qioi.processes.cgroups import Group
from qioi.processes.errors import LabError
from qioi.processes.tree import Tree

#: Starts a thread, then one more for each line that it is sent, and says so.
PROGRAM = """
import sys, threading
for _ in range(2):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    print("started", flush=True)
    sys.stdin.readline()
"""


def allowed(group: Group) -> list[set[int]]:
    return [os.sched_getaffinity(int(thread)) for thread in threads_of(group.directories[0])]


def test_threads_of_a_pinned_group_have_one_cpu_until_it_is_released(tree: Tree) -> None:
    group = tree.group("orderer4").create()
    everywhere = os.sched_getaffinity(0)
    if len(everywhere) == 1:
        pytest.skip("on one CPU there is nothing to pin")
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        try:
            for file in group.procs_files:
                file.write_text(str(program.pid))
            program.stdout.readline()
            assert allowed(group) == [everywhere] * 2
            pin = Pin([group], max(everywhere))
            pin.hold()
            assert allowed(group) == [{max(everywhere)}] * 2
            program.stdin.write(b"\n")
            program.stdin.flush()
            program.stdout.readline()
            assert allowed(group) == [{max(everywhere)}] * 3
            pin.hold()
            pin.release()
            assert allowed(group) == [everywhere] * 3
        finally:
            program.kill()
    pin.release()  # nobody is left


def test_neighbours_of_one_cpu_are_not_scaled_and_have_an_orderer_to_disturb() -> None:
    spec = catalogue.find("protect_ordering")
    arms = {cell.arm.name: cell.arm for cell in make_plan(spec, cores=2).cells}
    assert {name: arm.neighbours.sysbench for name, arm in arms.items()} == {
        "alone": 0,
        "s16": 2,
        "adaptive": 2,
        "one": 4,
        "one_adaptive": 4,
    }
    assert arms["one"].title == "4 sysbench on one follower's CPU"
    assert {cell.network_name: cell.network.orderers for cell in make_smoke(spec, cores=2).cells} == {
        "raft": 2,
        "zyzzyva": 4,
    }


def test_the_follower_is_the_first_after_the_leader_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    follows = 'consensus_etcdraft_is_leader{channel="c"} 0\n'
    leads = 'consensus_etcdraft_is_leader{channel="a"} 0\nconsensus_etcdraft_is_leader{channel="c"} 1\n'
    pages = {"1": follows, "2": leads, "3": None, "4": follows}
    monkeypatch.setattr(readiness, "ask", lambda address, path: pages[address])
    assert readiness.follower(network(pages)) == "orderer4"
    pages["4"] = None
    assert readiness.follower(network(pages)) == "orderer1"
    pages["2"] = follows
    assert readiness.follower(network(pages)) == "orderer1"
    pages["1"] = pages["2"] = leads
    with pytest.raises(LabError, match="no orderer answers that leads no channel"):
        readiness.follower(network(pages))


def network(addresses: Iterable[str]) -> Network:
    nodes = [Node(f"orderer{each}", Role.ORDERER, "", each, (), Path(f"{each}.log")) for each in addresses]
    return Network(Path("network.json"), ("c",), "stream", "raft", (*nodes, replace(nodes[0], role=Role.PEER)))
