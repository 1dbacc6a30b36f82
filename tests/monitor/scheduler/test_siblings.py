"""What neighbours weigh: those that want more CPU than they have, and nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from qioi.kernel.cpu_accounts import CpuAccounts
from qioi.kernel.hierarchy import Hierarchy
from qioi.model.groups import branches
from qioi.monitor.scheduler.foreign_groups import ForeignGroups
from qioi.monitor.scheduler.siblings import Siblings, competing

SHARES = {"sysbench1": 1024, "sysbench2": 2048, "daemon": 8192, "asleep": 1024, "peer": 1024}


class Site:
    """A folder that looks like cgroup v1, of which a test says who has used what."""

    def __init__(self, folder: Path) -> None:
        self.hierarchy = Hierarchy(1, folder)
        self.used = dict.fromkeys(SHARES, 0.0)
        self.foreign = ForeignGroups(CpuAccounts(1, folder), folder)
        self.siblings = Siblings(self.foreign, self.hierarchy)
        self.branches = branches(["docker/peer"])
        for name, shares in SHARES.items():
            (folder / "docker" / name).mkdir(parents=True)
            (folder / "docker" / name / "cpu.shares").write_text(f"{shares}\n")
        self.now = 0.0
        self.look()

    def look(self, **cores: float) -> None:
        self.now += 1.0
        for name in self.used:
            self.used[name] += cores.get(name, 0.0)
            (self.hierarchy.mount / "docker" / name / "cpuacct.usage").write_text(f"{self.used[name] * 1e9:.0f}\n")
        (self.hierarchy.mount / "docker" / "cpuacct.usage").write_text("0\n")
        (self.hierarchy.mount / "cpuacct.usage").write_text("0\n")
        self.foreign.look(self.now, self.branches)


def test_neighbours_that_run_are_weighed_and_components_and_small_users_are_not(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert site.siblings.read() == {}
    site.look(sysbench1=0.2, sysbench2=0.4, daemon=0.01, peer=0.5)
    assert site.siblings.read() == {"docker": {"docker/sysbench1": 1024, "docker/sysbench2": 2048}}
    assert site.siblings.read() == {}  # nothing new was seen


def test_one_that_has_gone_is_left_out(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.look(sysbench1=0.2, sysbench2=0.4)
    (tmp_path / "docker/sysbench2/cpu.shares").unlink()
    assert site.siblings.read() == {"docker": {"docker/sysbench1": 1024}}


@pytest.mark.parametrize(
    ("cores", "weight", "counts"),
    [(0.1, 1024, True), (0.02, 1024, True), (0.01, 1024, False), (0.1, 262_144, False), (0.3, 262_144, True)],
)
def test_who_gets_far_less_for_its_weight_than_another_wants_no_more(cores: float, weight: int, counts: bool) -> None:
    assert ("one" in competing({"other": (0.15, 1024), "one": (cores, weight)})) is counts
