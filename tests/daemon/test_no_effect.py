"""Neighbours that no share is anything to, on the real kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from running import BUSY, Site
from waiting import until

pytestmark = pytest.mark.slow

#: Both on the same CPU, so that the other ones go on.
ON_ONE_CPU = "import os\nos.sched_setaffinity(0, {0})\n"
#: The most that a group may weigh, by version of cgroup: what else the host does has next to nothing then of what
#: real-time work leaves, and no share wins anything from it.
HEAVIEST = {1: 262_144, 2: 10_000}
#: Microseconds of a second that real-time work may have; less where other groups have some of it.
RUNTIMES = ("800000", "500000")
#: Periods, of a tenth of a second, in which it is seen what is before the raise.
SEEN = 25


def test_beside_a_real_time_neighbour_the_share_goes_back_and_it_is_said(site: Site) -> None:
    """What is before the raise is seen, since there are no commits at first."""
    share = site.component("peer0")
    found = int(share.read_text())
    site.changes = {"channels": {"red": {"threshold": 1000, "law": "adaptive"}}}
    parent, group = (site.hierarchy.folder(path) for path in (site.parent, f"{site.parent}/fifo"))
    group.mkdir()
    (parent / site.hierarchy.file).write_text(str(HEAVIEST[site.hierarchy.version]))
    allow_real_time(parent, group)
    site.work("peer0", ON_ONE_CPU + BUSY)
    neighbour = site.work("fifo", ON_ONE_CPU + BUSY)
    os.sched_setscheduler(neighbour.pid, os.SCHED_FIFO, os.sched_param(1))
    site.start()
    until(lambda: site.periods() >= SEEN)
    site.commit_until(lambda: int(share.read_text()) >= 4 * found)
    site.commit_until(lambda: reason(site) == "no-effect")
    site.commit_until(lambda: int(share.read_text()) == found)


def allow_real_time(*groups: Path) -> None:
    """Have groups, each below the one before, take real-time work in, where they need leave for that."""
    files = [one / "cpu.rt_runtime_us" for one in groups]
    for runtime in RUNTIMES if files[0].exists() else ():
        try:
            for one in files:
                one.write_text(runtime)
        except OSError:
            continue
        return
    if files[0].exists():
        pytest.skip("other groups have all of the host's time for real-time work")


def reason(site: Site) -> str | None:
    """Say what limits the component."""
    status = site.status()
    limit = status["components"][0]["limit"] if status else None
    return limit and str(limit["reason"])
