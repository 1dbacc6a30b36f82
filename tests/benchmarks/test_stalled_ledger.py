"""A ledger that commits nothing in a benchmark's window: a finding, of a real one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from laws_figures import row_of
from ports import reserved

from qioi.lab.arms import Arm, Runner
from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan
from qioi.lab.options import LabOptions
from qioi.processes.errors import LabError

pytestmark = pytest.mark.slow


def test_a_ledger_that_commits_nothing_has_a_row_without_latencies(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    with reserved() as port:
        try:
            network = lab.up(LabOptions(peers_per_org=1, orderers=1, consenter="solo", base_port=port))
            (orderer,) = (one for one in lab.status() if one.node.name == "orderer1")
            load = LoadPlan(4, 4, rate=20, extra=("--timeout", "1s"))

            def freeze(_seconds: float) -> None:
                for pid in orderer.pids:
                    os.kill(pid, signal.SIGSTOP)

            runner = Runner(lab, network, tmp_path)
            arm = Arm("nothing", "nothing", load, may_stall=True)
            row = row_of("fixed", 0, 1, "nothing", runner.run(arm, freeze), tmp_path / "nothing")
            assert (row.tps, row.p50, row.p95, row.p99) == (0.0, None, None, None)
            assert row.failed > 0
            with pytest.raises(LabError, match="nothing was committed"):
                runner.run(Arm("refused", "refused", load))
        finally:
            lab.down()
