"""A daemon that comes to a real ledger beside real sysbench which were there long before it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import until

from qioi.controller.laws.unheard import LASTS
from qioi.interference import Sysbench
from qioi.lab.daemon import Daemon, daemon_config
from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan, LoadRun
from qioi.lab.network import Network
from qioi.lab.options import LabOptions
from qioi.model import DEFAULT_SHARES, Role
from qioi.show.http import UnreachableError, get_json

pytestmark = pytest.mark.slow


@contextmanager
def watched(lab: Lab, network: Network, folder: Path) -> Iterator[Path]:
    """Have a daemon of half a second; give its log."""
    folder.mkdir()
    with Daemon(lab, daemon_config(lab, network, law="adaptive", threshold=1000.0, period=0.5), folder) as daemon:
        until(lambda: daemon.check() or periods(lab) > 0)
        yield daemon.log


def periods(lab: Lab) -> int:
    try:
        return int(get_json(lab.directory / "daemon" / "qioi.sock", "/status")["totals"]["periods"])
    except UnreachableError:
        return 0


def shares(lab: Lab, network: Network) -> list[int]:
    return [lab.tree.group(node.name).shares() for node in network.nodes]


def test_it_raises_what_works_and_starves_without_a_commit_and_nothing_of_an_idle_ledger(
    lab: Lab, base_port: int, tmp_path: Path
) -> None:
    network = lab.up(LabOptions(mode="block", base_port=base_port), die_with_parent=True)
    count = 16 * (os.cpu_count() or 1)
    with Sysbench(lab.tree, count, tmp_path), watched(lab, network, tmp_path / "idle") as log:
        while periods(lab) < 2 * (LASTS + 8):
            assert set(shares(lab, network)) == {DEFAULT_SHARES}
        assert "trial" not in log.read_text()
    logs = [one.log for one in lab.status() if one.node.role is Role.PEER]

    def committed() -> int:
        return sum(log.read_text().count("Committed block") for log in logs)

    def silent() -> bool:
        before = committed()
        time.sleep(5)
        return committed() == before

    plan = LoadPlan(duration=300, warmup=1, rate=600)
    (tmp_path / "load").mkdir()
    with LoadRun(lab, plan, tmp_path / "load"):
        before = committed()
        until(lambda: committed() > before + 10)
        # Without most orderers nothing is committed, however much is sent.
        followers = [one for one in lab.status() if one.node.role is Role.ORDERER][1:]
        for pid in (pid for one in followers for pid in one.pids):
            os.kill(pid, signal.SIGSTOP)
        until(silent)
        with Sysbench(lab.tree, count, tmp_path), watched(lab, network, tmp_path / "starving") as log:
            until(lambda: max(shares(lab, network)) > DEFAULT_SHARES)
            assert "a trial begins" in log.read_text()
        assert set(shares(lab, network)) == {DEFAULT_SHARES}
