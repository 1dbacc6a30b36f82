"""The law `adaptive` on cgroup v2, beside work that wants all of the CPU: it acts, it helps, it goes back."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from running import BUSY, Site, end
from waiting import until

#: A peer: it commits after every 4 ms of CPU time, and could have most of a processor.
PEER = """
import datetime, time
block = 0
with open({log!r}, "a", buffering=1) as log:
    while True:
        time.sleep(0.004)
        until = time.thread_time() + 0.004
        while time.thread_time() < until: pass
        block += 1
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        log.write(f"{{stamp}} UTC 002b INFO [kvledger] commit -> [red] Committed block [{{block}}] with 1 "
                  "transaction(s) in 1ms (state_validation=0ms "
                  "block_and_pvtdata_commit=0ms state_commit=0ms) commitHash=[ab]\\n")
"""
#: Seconds over which commits are counted.
WINDOW = 8.0
FOUND, HEAVY = 100, 400


@pytest.fixture
def weight(site: Site) -> Path:
    """A peer beside two neighbours for every processor, each four times as heavy; give the file of its weight."""
    weight = site.component("peer0")
    for number in range(2 * (os.cpu_count() or 1)):
        site.work(f"hog{number}", BUSY)
        (site.hierarchy.folder(f"{site.parent}/hog{number}") / site.hierarchy.file).write_text(str(HEAVY))
    site.work("peer0", PEER.format(log=str(site.log)))
    site.changes = {"period": 0.5, "channels": {"red": {"law": "adaptive"}}}
    return weight


def value(weight: Path) -> int:
    return int(weight.read_text())


def rate(site: Site) -> float:
    """Commits a second, counted in the peer's log."""

    def count() -> int:
        return site.log.read_text().count("Committed block")

    began, first = time.monotonic(), count()
    time.sleep(WINDOW)
    last = count()
    return (last - first) / (time.monotonic() - began)


def test_beside_hogs_it_commits_more_than_twice_what_it_does_without(site: Site, weight: Path) -> None:
    """Without, with, and without again, so that nothing else that changes on the machine passes for help."""
    without = rate(site)
    process = site.start()
    until(lambda: value(weight) >= 4 * FOUND)
    helped = rate(site)
    code, text = end(process)
    assert (code, value(weight)) == (0, FOUND), text
    again = rate(site)
    print(f"commits a second: {without:.1f} without, {helped:.1f} with, {again:.1f} without")  # with pytest -s
    assert helped > 2 * max(without, again), (without, helped, again)


def test_the_weight_goes_back_when_the_hogs_leave(site: Site, weight: Path) -> None:
    process = site.start()
    until(lambda: value(weight) > FOUND)
    for one in site.processes:
        if BUSY in str(one.args):
            one.kill()
    until(lambda: value(weight) == FOUND)
    code, text = end(process)
    assert code == 0, text
    assert not (site.state / "journal").exists()
