"""How busy the host is, from /proc/stat, over a period and over a second."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from stat_file import write_stat

from qioi.model import DelayReading, HostLoad
from qioi.monitor.scheduler.host import HostWatch

ALONE, BESIDE = (0.0, 0.5), (0.5, 0.5)  # parts of the host that foreigners and the ledger have


@pytest.mark.parametrize(
    ("periods", "load", "lasting"),
    [
        ([(1.0, *ALONE), (1.0, *BESIDE)], (0.0, 0.5), None),
        ([(1.0, *ALONE), (5.0, *BESIDE)], (0.0, 0.5), None),
        ([(1.0, *BESIDE), (0.95, *ALONE)], (0.5, 0.0), None),  # the next period began a little late
        ([(1.0, *BESIDE), (1.0, *ALONE), (0.25, *BESIDE)], (0.0, 0.5), (0.4, 0.1)),
        ([(1.0, *BESIDE), (1.0, *ALONE), (0.5, *ALONE), (0.25, *BESIDE)], (0.0, 0.5), (3 / 7, 1 / 14)),
        ([(1.0, *BESIDE), (0.5, *BESIDE), (0.25, *BESIDE), (1.0, *ALONE)], (0.5, 0.0), None),
        ([*[(0.1, *BESIDE)] * 10, *[(0.1, *ALONE)] * 8], (0.5, 0.0), (4 / 9, 1 / 18)),
        ([*[(0.1, *BESIDE)] * 10, *[(0.1, *ALONE)] * 9], (0.5, 0.0), (0.5, 0.0)),
        ([(0.25, *ALONE), (0.25, *BESIDE)], (0.0, 0.5), (0.25, 0.25)),  # it has not been looked at for a second yet
    ],
)
def test_a_short_period_comes_with_the_load_over_a_second(
    tmp_path: Path,
    periods: list[tuple[float, float, float]],
    load: tuple[float, float],
    lasting: tuple[float, float] | None,
) -> None:
    total, idle = 1_000_000, 500_000
    write_stat(tmp_path / "stat", total, idle)
    watch, found = HostWatch(tmp_path / "stat"), None
    for seconds, foreign, ledger in periods:
        ticks = round(seconds * 2 * os.sysconf("SC_CLK_TCK"))
        total, idle = total + ticks, idle + round(ticks * (1 - foreign - ledger))
        write_stat(tmp_path / "stat", total, idle)
        found = watch.read([DelayReading("peer0", 2 * ledger * seconds, 0.0, 10, seconds)])
    assert isinstance(found, HostLoad)
    assert (found.idle, found.foreign) == pytest.approx(load)
    assert (found.lasting is None) == (lasting is None)
    if found.lasting is not None:
        assert (found.lasting.idle, found.lasting.foreign) == pytest.approx(lasting)
    assert watch.read([]) is None  # the clock has not ticked since


def test_a_processor_that_leaves_takes_its_time_along_and_the_host_is_known_again(tmp_path: Path) -> None:
    """The kernel counts the idle time of processors that are offline in another way: its total may fall by hours."""
    file = tmp_path / "stat"
    write_stat(file, 1_000_000, 900_000)
    watch = HostWatch(file)
    write_stat(file, 400_000, 300_000)
    assert watch.read([]) is None
    write_stat(file, 400_200, 300_050)
    assert watch.read([]) == HostLoad(0.25, 0.75)


def test_the_load_says_that_somebody_has_come(tmp_path: Path) -> None:
    write_stat(tmp_path / "stat", 1_000_000, 500_000)
    come = [False]
    watch = HostWatch(tmp_path / "stat", sudden=lambda: come[0])
    for number, come[0] in enumerate((False, True, False), 1):
        write_stat(tmp_path / "stat", 1_000_000 + 20 * number, 500_000 + 10 * number)
        found = watch.read([])
        assert found is not None
        assert found.sudden == come[0]
