"""The fixed load of the laws' benchmark is one by the CPU that it takes, which each repeat looks for anew."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from fixed_load import BUSY, LOOKS, NEAR, Found, Lengths, estimate, keep_load, kept_load, look_for_load, spell_load
from laws_figures import ALONE, Row
from published.readers import laws

from qioi.experiment.calibration import Calibration
from qioi.lab.arms import PROBE_SECONDS

CORES = 2
SOUGHT = CORES * BUSY


def host(idle: float, cost: float) -> Callable[[float], float]:
    """Give what a rate takes where a transaction costs the more the fewer there are, up to all of the CPUs."""
    return lambda rate: min(float(CORES), idle + cost * rate)


@pytest.mark.parametrize("first", [600.0, 1300.0, 1990.0])
@pytest.mark.parametrize("idle", [0.0, 0.3, 0.6])
def test_it_is_found_though_a_transaction_costs_the_more_the_fewer_there_are(idle: float, first: float) -> None:
    took = host(idle, 0.0007)
    found = look_for_load(took, first, CORES)
    assert took(found.tps) == pytest.approx(SOUGHT, rel=0.06)
    assert 1 <= len(found.looks) <= LOOKS
    assert found.looks[0] == (first, took(first))


@pytest.mark.parametrize("speed", [0.5, 0.75, 1.0, 1.33, 2.0])
def test_a_repeat_on_a_host_of_another_speed_has_a_load_of_its_own(speed: float) -> None:
    last = look_for_load(host(0.3, 0.0007), 1300.0, CORES).tps
    took = host(0.3 / speed, 0.0007 / speed)
    found = look_for_load(took, last, CORES)
    assert took(found.tps) == pytest.approx(SOUGHT, rel=0.06)
    assert (found.tps > last) - (found.tps < last) == (speed > 1.0) - (speed < 1.0)


@pytest.mark.parametrize(
    ("off", "looks", "moves"),
    [(0.0, 1, False), (0.9 * NEAR, 1, False), (-0.9 * NEAR, 1, False), (1.2 * NEAR, 2, True), (-1.2 * NEAR, 2, True)],
)
def test_a_look_that_takes_what_is_sought_is_the_last(off: float, looks: int, moves: bool) -> None:
    took = host(0.0, SOUGHT * (1 + off) / 1000)
    found = look_for_load(took, 1000.0, CORES)
    assert len(found.looks) == looks
    assert (found.tps != 1000.0) == moves


def test_another_part_of_the_cpus_may_be_sought() -> None:
    took = host(0.3, 0.0007)
    found = look_for_load(took, 1300.0, CORES, 0.5)
    assert took(found.tps) == pytest.approx(0.5 * CORES, rel=0.06)
    assert found.busy == 0.5


def test_a_load_that_is_too_much_for_every_rate_is_no_division_by_nothing() -> None:
    assert look_for_load(lambda _rate: 2.0, 3.0, CORES).tps == 10.0


def test_a_repeat_s_load_is_kept_beside_the_others(tmp_path: Path) -> None:
    one, two = Found(1400.0, [(1200.0, 1.2), (1400.0, 1.41)], 0.6), Found(1100.0, [(1400.0, 1.8), (1100.0, 1.4)])
    keep_load(one, tmp_path, 1)
    keep_load(two, tmp_path, 2)
    assert (kept_load(tmp_path, 1), kept_load(tmp_path, 2), kept_load(tmp_path, 3)) == (one, two, None)
    assert spell_load(two, 2, CORES) == "Repeat 2: 1100 tps; of the CPUs, 1400 tps took 90 %, 1100 tps took 70 %."


@pytest.mark.parametrize(
    ("cells", "conditions", "counts", "repeats", "probe", "seconds"),
    [
        ({"fixed": 30.0}, 4, 1, 3, True, 3 * (5 * 30 + LOOKS * 10 + 7.5) + PROBE_SECONDS),
        ({"fixed": 30.0}, 4, 1, 3, False, 3 * (5 * 30 + LOOKS * 10 + 7.5)),
        ({"saturating": 20.0}, 2, 2, 1, False, 5 * 20 + 2 * 7.5),  # nothing looks for a closed loop's load
        ({"fixed": 30.0, "saturating": 20.0}, 1, 1, 1, False, 2 * 50 + LOOKS * 10 + 7.5),
    ],
)
def test_an_estimate_has_the_looks_in_it(
    cells: dict[str, float], conditions: int, counts: int, repeats: int, probe: bool, seconds: float
) -> None:
    assert estimate(Lengths(cells, look=10.0), conditions, counts, repeats, probe=probe) == pytest.approx(seconds)


def test_each_repeat_s_load_and_what_it_took_are_published(tmp_path: Path) -> None:
    alone = Row("fixed", 0, 1, ALONE, 500.0, 3.0, 6.0, 7.0, 0, 0.2, 1.0, 0.4, 0.0, 1.5, 0.0, None, 0.0, 18.0, 0.0, 0.0)
    loads = {1: (1400.0, 1.0), 2: (1100.0, 1.1)}
    rows = [replace(alone, repeat=repeat, ledger_cores=used) for repeat, (_, used) in loads.items()]
    rows.append(replace(rows[1], load="saturating"))
    for row in rows:
        file = tmp_path / f"{row.load}-0-repeat{row.repeat}" / ALONE / "row.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(asdict(row)))
    for repeat, (tps, _) in loads.items():
        keep_load(Found(tps, [(tps, 1.4)]), tmp_path, repeat)
    (tmp_path / "laws.json").write_text(json.dumps({"machine": {"cores": CORES}}))
    # Two folders, whose repeats are numbered on.
    found = {row.key: row.values for row in laws([tmp_path, tmp_path], [Calibration(49, 22, 300, 2, 360)] * 2).rows}
    assert found["fixed-alone"]["offered"] == (1400.0, 1100.0, 1400.0, 1100.0)
    assert found["fixed-alone"]["cpus"] == pytest.approx((0.7, 0.75, 0.7, 0.75))
    assert found["saturating-alone"]["offered"] == (None, None, None, None)
