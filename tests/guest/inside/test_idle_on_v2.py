"""Neighbours that the daemon makes idle on a real kernel, given back whatever happens.

The kernel takes an idle group's weight away: on cgroup v2 it reads 0 (since Linux 6.12: 1), and writes are refused.
"""

from __future__ import annotations

import signal

import pytest
from running import Site, end
from waiting import until

from qioi.kernel.hierarchy import find_hierarchy

#: A peer that has something to do for half of the time.
PEER = """
import time
while True:
    begun = time.monotonic()
    while time.monotonic() < begun + 0.02: pass
    time.sleep(0.02)
"""
BUSY = "while True: pass"
#: The weight of a group that nobody has given one, also of one that is idle no more.
DEFAULT = 100 if find_hierarchy().version == 2 else 1024


class Group:
    """A neighbour."""

    def __init__(self, site: Site, name: str, weight: int = DEFAULT) -> None:
        self.name = site.hierarchy.file
        self.path = f"{site.parent}/{name}"
        self.folder = site.hierarchy.folder(self.path)
        self.folder.mkdir(exist_ok=True)
        self.write(self.name, weight)

    def write(self, file: str, value: int) -> None:
        (self.folder / file).write_text(str(value))

    @property
    def idle(self) -> bool:
        return (self.folder / "cpu.idle").read_text() == "1\n"

    @property
    def weight(self) -> int:
        return int((self.folder / self.name).read_text())

    def is_as(self, idle: bool, weight: int) -> bool:
        return (self.idle, self.weight) == (idle, weight)


@pytest.fixture
def batches(site: Site) -> list[Group]:
    """Two neighbours whose owner calls them best-effort, beside a peer; the first one of them is busy."""
    site.component("peer0")
    site.work("peer0", PEER)
    site.work("batch0", BUSY)
    site.changes = {"best_effort": [f"{site.parent}/batch*"], "period": 0.5}
    return [Group(site, "batch0", 300), Group(site, "batch1")]


def start(site: Site, batches: list[Group]) -> None:
    site.start()
    site.commit_until(lambda: all(one.idle for one in batches))


def test_idle_while_interference_lasts_and_as_found_afterwards(site: Site, batches: list[Group]) -> None:
    start(site, batches)
    with pytest.raises(OSError, match="Invalid argument"):
        batches[0].write(site.hierarchy.file, 200)
    assert sorted((site.status() or {})["idle_groups"]) == [one.path for one in batches]
    site.processes[1].kill()  # the neighbour

    def over() -> bool:
        site.commit()
        return batches[0].is_as(False, 300) and batches[1].is_as(False, DEFAULT)

    until(over, pause=0.3)  # the test itself must leave the host room
    site.work("batch0", BUSY)
    site.commit_until(lambda: batches[0].idle)
    code, text = end(site.processes[2])
    assert code == 0, text
    assert (batches[0].is_as(False, 300), batches[1].is_as(False, DEFAULT)) == (True, True)
    assert not (site.state / "idle").exists()


@pytest.mark.parametrize("restorer", ["restore", "start"])
def test_after_a_kill_everything_comes_back_but_what_others_have_changed(
    site: Site, batches: list[Group], restorer: str
) -> None:
    start(site, batches)
    end(site.processes[-1], signal.SIGKILL)
    assert [one.idle for one in batches] == [True, True]
    batches[1].write("cpu.idle", 0)
    batches[1].write(site.hierarchy.file, 555)
    if restorer == "restore":
        done = site.qioi("restore", "--state-dir", str(site.state))
        assert done.returncode == 0, done.stdout + done.stderr
    else:
        site.changes = {}
        code, text = end(site.start())
        assert code == 0, text
    assert batches[0].is_as(False, 300)
    assert batches[1].is_as(False, 555)
    assert not (site.state / "idle").exists()


def test_what_somebody_else_has_made_of_it_is_left_alone(site: Site, batches: list[Group]) -> None:
    already = Group(site, "batch2")
    already.write("cpu.idle", 1)
    start(site, batches)
    batches[0].write("cpu.idle", 0)  # with the weight that making it idle has cost it
    site.commit_until(lambda: batches[0].is_as(False, 300))
    batches[0].write(site.hierarchy.file, 444)
    periods = (site.status() or {})["totals"]["periods"]
    site.commit_until(lambda: (site.status() or {})["totals"]["periods"] > periods + 5)
    assert batches[0].is_as(False, 444)
    code, text = end(site.processes[-1])
    assert code == 0, text
    assert f"{batches[0].path}: foreign: somebody else has ended it: left alone" in text
    assert (batches[0].is_as(False, 444), batches[1].is_as(False, DEFAULT), already.idle) == (True, True, True)
