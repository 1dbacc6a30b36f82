"""A busy component beside a SCHED_FIFO neighbour on the same CPU, as a kernel's own numbers have it.

The recording (tests/data/beside-real-time.csv) is of 405 periods of 0.1 s that a daemon had on Linux 6.18, cgroup v1.
The neighbour had 0.9 s of each second. A share is nothing to it, so the numbers are the same whatever the share.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from toy_trial import MOST, REST, Site

from qioi.controller.findings.limits import Reason
from qioi.controller.laws.adaptive import Adaptive
from qioi.controller.laws.law import Seen
from qioi.model import Bounds, DelayReading, HostLoad

RECORDING = Path(__file__).parents[2] / "data" / "beside-real-time.csv"
#: The neighbour leaves the CPU once in so many periods.
SECOND = 10


def recorded() -> list[tuple[DelayReading, HostLoad]]:
    with RECORDING.open() as lines:
        return [read(row) for row in csv.DictReader(lines)]


def read(row: dict[str, str]) -> tuple[DelayReading, HostLoad]:
    run, wait, interval = (float(row[key]) for key in ("run", "wait", "interval"))
    lasting = HostLoad(float(row["lasting_idle"]), float(row["lasting_foreign"])) if row["lasting_idle"] else None
    host = HostLoad(float(row["idle"]), float(row["foreign"]), lasting)
    return DelayReading("peer0", run, wait, int(row["slices"]), interval), host


@pytest.mark.parametrize("first", range(0, 300, 7))
def test_its_waiting_counts_in_whichever_moment_it_ends(first: int) -> None:
    law, now, shares = Adaptive.start(REST, Bounds(REST, MOST)), 0.0, []
    for delay, host in recorded()[first : first + 2 * SECOND]:
        now += delay.interval
        law, verdict = law.step(Seen(now, commit_age=0.0, delay=delay, host=host))
        shares.append(verdict.shares)
    assert shares[-1] == MOST


def test_its_share_goes_back() -> None:
    site = Site(owed=1000.0, tps=20.0)
    for number, (delay, host) in enumerate(recorded()):
        site.period(delay.interval, [delay], host, written=number >= SECOND)
    assert max(shares[0] for shares in site.history) == MOST
    assert (site.share, site.reasons[-1]) == (REST, [Reason.NO_EFFECT])
