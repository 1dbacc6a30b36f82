"""Neighbours that no share is anything to, on the real kernel.

How much of a CPU real-time work leaves to others, and when, is for the kernel and the hypervisor to say. So this needs
a host to itself (make test-host); tests/controller/laws/test_beside_real_time.py goes by a recording.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from running import BUSY, Site
from waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.host]

#: Both on the same CPU, so that the other ones go on.
ON_ONE_CPU = "import os\nos.sched_setaffinity(0, {0})\n"
#: The most that a group may weigh, by version of cgroup: what else the host does has next to nothing then of what
#: real-time work leaves, and no share wins anything from it.
HEAVIEST = {1: 262_144, 2: 10_000}
#: Microseconds of a second that real-time work may have: so much that its neighbour waits for half of its time, and no
#: more, since what a hypervisor takes comes out of the rest and must not be most of it.
RUNTIME = "500000"
#: Seconds of a period: a whole one of the kernel's for real-time work, which comes before all other in each of these.
PERIOD = 1.0
#: Periods in which it is seen what is before the raise.
SEEN = 4
#: Seconds within which there are several trials, each of which a busy host may end.
PATIENCE = 600.0


def test_beside_a_real_time_neighbour_the_share_goes_back_and_it_is_said(site: Site) -> None:
    """What is before the raise is seen, since there are no commits at first."""
    share = site.component("peer0")
    found = int(share.read_text())
    site.changes = {"period": PERIOD, "channels": {"red": {"threshold": 1000, "law": "adaptive"}}}
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
    site.commit_until(lambda: reason(site) == "no-effect", PATIENCE)
    site.commit_until(lambda: int(share.read_text()) == found)


def allow_real_time(*groups: Path) -> None:
    """Have groups, each below the one before, take real-time work in, where they need leave for that."""
    files = [one / "cpu.rt_runtime_us" for one in groups]
    try:
        for one in files if files[0].exists() else ():
            one.write_text(RUNTIME)
    except OSError:
        pytest.skip("other groups have the host's time for real-time work")


def reason(site: Site) -> str | None:
    """Say what limits the component."""
    status = site.status()
    limit = status["components"][0]["limit"] if status else None
    return limit and str(limit["reason"])
