"""A daemon that comes to a real ledger beside real sysbench which were there long before it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import PATIENCE, until

from qioi.controller.laws.unheard import LASTS
from qioi.interference import Sysbench
from qioi.lab.daemon import Daemon, daemon_config
from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan, LoadRun
from qioi.lab.network import Network
from qioi.lab.options import LabOptions
from qioi.model import DEFAULT_SHARES, Role
from qioi.show.http import get_json

pytestmark = [pytest.mark.slow, pytest.mark.alone]

#: Of the CPUs, the part that the lab must have had for its idle ledger to say something. The law's bounds are measured
#: beside neighbours in the lab; where others have the CPUs, an idle orderer waits as long as what is sent to.
MOST = 0.7
#: The share of the lab, with which it has that part beside others' work.
PREFERRED = 8192
TRIES = 5
CPUS = os.cpu_count() or 1


@contextmanager
def watched(lab: Lab, network: Network, folder: Path) -> Iterator[Daemon]:
    """Have a daemon of half a second."""
    folder.mkdir()
    with Daemon(lab, daemon_config(lab, network, law="adaptive", threshold=1000.0, period=0.5), folder) as daemon:
        daemon.settle()
        yield daemon


def periods(lab: Lab) -> int:
    return int(get_json(lab.directory / "daemon" / "qioi.sock", "/status")["totals"]["periods"])


def shares(lab: Lab, network: Network) -> list[int]:
    return [lab.tree.group(node.name).shares() for node in network.nodes]


def leaves_idle_alone(lab: Lab, network: Network, folder: Path) -> bool:
    """See that nothing of an idle ledger is raised beside a crowd that is there before the daemon.

    ``False``: others had the CPUs, and it says nothing.
    """
    folder.mkdir()
    # Fewer than beside what starves: others work on this machine, too.
    with Sysbench(lab.tree, 4 * CPUS, folder), watched(lab, network, folder / "idle") as daemon:
        begun, used, raised = time.monotonic(), lab.tree.root.cpu_seconds(), False

        def is_over() -> bool:
            nonlocal raised
            daemon.check()
            raised = raised or set(shares(lab, network)) != {DEFAULT_SHARES}
            return periods(lab) >= 2 * (LASTS + 8)

        until(is_over, pause=0.05, what="the daemon has looked for longer than the law asks for")
        part = (lab.tree.root.cpu_seconds() - used) / (time.monotonic() - begun) / CPUS
        raised = raised or "trial" in daemon.log.read_text()
    assert part < MOST or not raised, f"an idle ledger is raised; the lab had {part:.0%} of the CPUs"
    return part >= MOST


def test_it_raises_what_works_and_starves_without_a_commit_and_nothing_of_an_idle_ledger(
    lab: Lab, base_port: int, tmp_path: Path
) -> None:
    network = lab.up(LabOptions(mode="block", base_port=base_port), die_with_parent=True)
    lab.tree.root.set_shares(PREFERRED)
    judged = any(leaves_idle_alone(lab, network, tmp_path / f"try{number}") for number in range(TRIES))
    logs = [one.log for one in lab.status() if one.node.role is Role.PEER]

    def committed() -> int:
        return sum(log.read_text().count("Committed block") for log in logs)

    def silent() -> bool:
        """Whether nothing is committed for a while; of a machine that stands still, one of these rounds is all."""
        before = committed()
        for _ in range(20):
            time.sleep(0.25)
            if committed() != before:
                return False
        return True

    plan = LoadPlan(duration=1200, warmup=1, rate=600)
    (tmp_path / "load").mkdir()
    with LoadRun(lab, plan, tmp_path / "load"):
        before = committed()
        until(lambda: committed() > before + 10)
        # Without most orderers nothing is committed, however much is sent.
        followers = [one for one in lab.status() if one.node.role is Role.ORDERER][1:]
        for pid in (pid for one in followers for pid in one.pids):
            os.kill(pid, signal.SIGSTOP)
        until(silent)
        with Sysbench(lab.tree, 16 * CPUS, tmp_path), watched(lab, network, tmp_path / "starving") as daemon:

            def is_raised() -> bool:
                daemon.check()
                return max(shares(lab, network)) > DEFAULT_SHARES

            # Where others have the CPUs, what starves gets none for seconds, and is taken to be idle in them.
            until(is_raised, pause=0.05, what="what starves is raised", patience=2 * PATIENCE)
            assert "a trial begins" in daemon.log.read_text()
        assert set(shares(lab, network)) == {DEFAULT_SHARES}
    if not judged:
        pytest.skip("others had the CPUs of this machine all the time: of an idle ledger this run says nothing")
