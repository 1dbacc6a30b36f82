"""What the comparison of the laws says of its raw figures."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from bench_reaction import Others, recovery
from laws_figures import ALONE, Row, account, accounts, due, idle, movement, part_of, row_of, table, within
from published.readers import taken

from qioi.lab.figures import ArmFigures, InterfererFigures, LoadFigures, RoleFigures, SeriesFigures
from qioi.lab.flush_probe import FlushFigures
from qioi.lab.machine import Quiet, machine
from qioi.model import Role

NOBODY = InterfererFigures(0, 0.0, 0.0)
#: Alone: ledger and client use 1.25 CPUs, and a tenth of one is used outside of the lab.
ROW = Row("fixed", 0, 1, ALONE, 500.0, 300.0, 600.0, 700.0, 0, 0.2, 1.0, 0.25, 0.0, 1.35, 0.0, None, 0, 25.0, 0, 0.0)


@pytest.mark.parametrize(
    ("series", "widest"),
    [
        ([(0, 1024), (30, 1024)], 0.0),
        ([(0, 1024), (30, 2048), (50, 512)], 3.0),
        ([(0, 1000), (61, 2000)], 0.0),  # more than a minute apart
        ([(0, 1000), (30, 1050), (80, 1100)], 0.05),
    ],
)
def test_the_widest_move_is_looked_for_within_any_minute(series: list[tuple[float, float]], widest: float) -> None:
    assert within(series) == pytest.approx(widest)


def test_only_the_window_and_components_count(tmp_path: Path) -> None:
    file = tmp_path / "samples.csv"
    lines = ["unix,name,role,shares", "99,a,peer,9999", "100,a,peer,1024", "110,a,peer,1126.4", "110,sysbench1,,"]
    file.write_text("\n".join(lines) + "\n")
    assert movement(file, 100, 120) == pytest.approx(0.1)


def condensed(folder: Path, seconds: float, interferers: InterfererFigures) -> Row:
    """Give the row of a window of so many seconds, in which a tenth of all cores went to others."""
    (folder / "samples.csv").write_text("unix,name,role,shares\n")
    result = {
        "started": "2026-11-25T12:00:00Z", "seconds": seconds, "intended_rate": 500, "throughput_tps": 500,
        "latency_ms": {"mean": 3, "p50": 3, "p95": 6, "p99": 7, "max": 9},
        "committed": 5000, "failed": 0, "unsent": 0, "timeseries": [],
    }  # fmt: skip
    (folder / "load.json").write_text(json.dumps(result))
    figures = ArmFigures(
        ALONE,
        ALONE,
        LoadFigures(500, 500, 3, 3, 6, 7, 9, 5000, 0),
        {Role.PEER: RoleFigures(0.2, 0.1, 0.2, 1000, 1.0)},
        0.25,
        0.0,
        interferers,
        FlushFigures(200, 0.2, 0.9, 4.0),
        Quiet(10.0, 0.1, 1.5, None),
        SeriesFigures((), (), (), (), ()),
    )
    return row_of("fixed", interferers.count, 1, ALONE, figures, folder)


def test_a_window_longer_than_shares_are_looked_at_keeps_its_length(tmp_path: Path) -> None:
    row = condensed(tmp_path, 90, NOBODY)
    assert (row.seconds, row.looked_at) == (90.0, 60.0)
    assert condensed(tmp_path, 10, NOBODY).looked_at == 10.0


def test_what_the_hypervisor_takes_is_counted_in_cpus_as_all_else(tmp_path: Path) -> None:
    row = condensed(tmp_path, 10, NOBODY)
    assert row.steal == pytest.approx(0.1 * machine().cores)
    assert taken(row) == pytest.approx(0.25 + 0.1 * machine().cores)


def test_what_sysbench_used_is_no_others_though_it_reported_nothing(tmp_path: Path) -> None:
    """Of 1.5 CPUs ledger and client used 1.25."""
    row = condensed(tmp_path, 10, InterfererFigures(16, 0.0, 0.2))
    assert (row.events_per_core, row.outside) == (0.0, pytest.approx(0.05))


def test_due_is_what_the_ledger_leaves_free_alone() -> None:
    beside = replace(ROW, sysbench=8, condition="adaptive", events=2600.0, events_per_core=4000.0)  # 0.65 CPUs
    beside = replace(beside, undisturbed=5000.0)
    assert (due(ROW, cores=2), idle(ROW, cores=2)) == (pytest.approx(0.75), pytest.approx(0.65))
    assert (due(replace(ROW, ledger_cores=1.74), cores=2), idle(replace(ROW, busy_cores=1.96), cores=2)) == (0.0, 0.0)
    assert part_of(0.0, beside) is None
    assert part_of(0.65, ROW) is None
    text = table([ROW, beside], cores=2)
    assert "| fixed | 8 | adaptive | 500 | 100 % |" in text
    assert "| 2600 | 87 % | 69 % | 100 % |" in text


def test_the_account_of_what_is_due_adds_up_to_it() -> None:
    beside = replace(ROW, sysbench=8, condition="adaptive", events=2000.0, events_per_core=4000.0)  # 0.5 of 0.75 CPUs
    beside = replace(beside, ledger_cores=1.03, client_cores=0.24, daemon_cores=0.01)
    found = account(beside, ROW, cores=2)
    assert found is not None
    assert (found.got, found.ledger, found.client) == pytest.approx((2 / 3, 0.04, -0.01 / 0.75))
    assert found.always == pytest.approx(0.1 / 0.75)
    assert found.outside == pytest.approx((2 - 1.03 - 0.24 - 0.01 - 0.5 - 0.1) / 0.75)
    assert sum((found.got, found.ledger, found.client, found.daemon, found.always, found.outside)) == pytest.approx(1)
    assert account(beside, replace(ROW, ledger_cores=1.74), cores=2) is None
    assert "| fixed | 8 | adaptive | 2.06 ms | 1.03x | 67 % | 4 % | -1 % | 1 % | 13 % | 16 % |" in accounts(
        [ROW, beside], 2
    )


def test_recovered_is_when_two_seconds_together_have_enough() -> None:
    throughput = ((-1.0, 500.0), (0.0, 100.0), (1.0, 480.0), (2.0, 480.0), (3.0, 500.0), (4.0, 500.0))
    assert recovery(throughput, 0.0, 10.0, 475.0) == 1.0
    assert recovery(throughput, 0.0, 3.0, 490.0) is None


@pytest.mark.slow
def test_what_runs_outside_of_the_lab_is_told_by_whole_seconds() -> None:
    begun = time.monotonic()
    others = Others(lambda: 0.0)
    while others.most is None:  # this test itself is what runs
        others.look()
    assert time.monotonic() - begun >= 1.0
    assert others.most > 0.0
