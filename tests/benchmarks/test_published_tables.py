"""What the published tables make of a benchmark's results."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import psutil
import pytest
from bench_daemon import cpu_seconds
from fixed_load import Found, keep_load
from laws_figures import Row as LawRow
from published import curves, spell
from published.growth import DAEMON, KUBERNETES, LEDGER, LENGTH, Growth, growth
from published.ledgers import leader, ordering
from published.neighbours import neighbours
from published.pictures import is_current
from published.readers import OTHERS, bursts, daemon, discovery, disturbed, reaction
from published.record import Code, Form, Machine, Record
from published.shares import enough, owed, tenants

from qioi.experiment.calibration import Calibration

SPEED = Calibration(49.0, 22.0, 300.0, 2.0, 360.0)


@pytest.mark.parametrize(
    ("value", "form", "written"),
    [
        (1234.5, Form.COUNT, "1,234"),
        (0.995, Form.PERCENT, "100 %"),
        (0.0098, Form.PERCENT, "0.98 %"),
        (1.184, Form.TIMES, "1.18x"),
        (41.7, Form.TIMES, "42x"),
        (0.0041, Form.TIMES, "under 0.01x"),
        (0.0051, Form.TIMES, "0.01x"),
        (0.0, Form.TIMES, "0x"),
        (1.914, Form.MILLISECONDS, "1.91 ms"),
        (2009.2, Form.MILLISECONDS, "2,009 ms"),
        (0.394, Form.SECONDS, "0.39 s"),
        (1.2512, Form.NUMBER, "1.25"),
        (3456.7, Form.NUMBER, "3,457"),
        (999.6, Form.NUMBER, "1,000"),
        (0.0, Form.PERCENT, "0 %"),
    ],
)
def test_figures_are_spelled(value: float, form: Form, written: str) -> None:
    assert spell.one(value, form) == written


@pytest.mark.parametrize(
    ("values", "form", "written"),
    [
        ([1.13, 1.08, 1.28], Form.TIMES, "1.13x (1.08 .. 1.28)"),
        ([0.38, 1.0, 0.004], Form.TIMES, "0.38x (under 0.01 .. 1.00)"),
        ([36.4, 33.2, 37.0], Form.TIMES, "36x (33 .. 37)"),
        ([0.92, 0.78, 1.26], Form.PERCENT, "92 % (78 .. 126)"),
        ([0.0, 0.0, 0.0151], Form.PERCENT, "0 % (0 .. 1.51)"),
        ([0.998, 1.0, 1.001], Form.PERCENT, "100 %"),  # written alike: nothing to tell apart
        ([327.0, 301.0, 13918.0], Form.MILLISECONDS, "327 ms (301 .. 13,918)"),
        ([1490, 1390, 1600], Form.COUNT, "1,490 (1,390 .. 1,600)"),
        ([1.74], Form.SECONDS, "1.74 s"),
        ([1.74, None, 1.9], Form.SECONDS, "1.82 s (1.74 .. 1.90), - in 1 of 3"),
        ([None, None], Form.SECONDS, "-"),
    ],
)
def test_the_spread_of_repeats_is_spelled(values: list[float | None], form: Form, written: str) -> None:
    assert spell.spread(values, form) == written


def test_the_daemon_s_repeats_stand_beside_each_other(tmp_path: Path) -> None:
    folders = []
    for number, used in enumerate((0.9, 1.1)):
        folder = tmp_path / str(number)
        folder.mkdir()
        result = f'[{{"shape": "50", "cpu_percent": {used}, "rss_mb": 47, "loop_ms": 3, "seconds": 20}}]'
        (folder / "daemon.json").write_text(result)
        folders.append(folder)
    one_visit, two_visits = (
        [dataclasses.replace(SPEED, verify_us=us) for us in took] for took in ((49, 51, 59), (49, 51, 99, 101))
    )
    (row,) = daemon(folders, one_visit).rows
    assert row.values["cpu"] == pytest.approx((0.009, 0.011))
    assert row.values["verifications"] == pytest.approx((180, 200))
    (row,) = daemon(folders, two_visits).rows
    assert row.values["verifications"] == pytest.approx((180, 110))


def test_the_daemon_s_cpu_time_is_told_finer_than_in_hundredths() -> None:
    process = psutil.Process()
    begun, before = time.process_time(), cpu_seconds(process)
    while time.process_time() < begun + 0.002:
        pass
    after, ended = cpu_seconds(process), time.process_time()
    assert 0.0 < after - before <= ended - begun


def test_growth_is_told_by_ratios_and_an_exponent_of_each_repeat(tmp_path: Path) -> None:
    folders = []
    for number, factor in enumerate((1.0, 2.0)):
        folder = tmp_path / str(number)
        folder.mkdir()
        sizes = {str(size): {"cpu_percent": factor * size**0.5, "rss_mb": 40.0} for size in (4, 16, 64)}
        (folder / "growth.json").write_text(json.dumps({"threads": sizes}))
        folders.append(folder)
    found = {row.key: row for row in growth(DAEMON)(folders, [SPEED]).rows}
    assert found["threads-64"].title == "64 threads of each of 100 components"
    assert found["threads-64"].values["cpu"] == pytest.approx((0.08, 0.16))
    assert found["threads-64"].values["cpu_to_least"] == pytest.approx((4.0, 4.0))
    assert found["threads-64"].values["cpu_exponent"] == pytest.approx((0.5, 0.5))
    assert found["threads-64"].values["memory_exponent"] == pytest.approx((0.0, 0.0))
    assert found["threads-16"].values["cpu_exponent"] == (None, None)


@pytest.mark.slow
@pytest.mark.parametrize("of", [DAEMON, LEDGER, LENGTH, KUBERNETES], ids=["daemon", "ledger", "length", "kubernetes"])
def test_curves_show_each_kind_of_growth_with_its_exponent(of: Growth, tmp_path: Path) -> None:
    costs = {size: {cost.field: int(size) / cost.unit for cost in of.costs} for size in ("4", "16", "64")}
    (tmp_path / "growth.json").write_text(json.dumps(dict.fromkeys(of.titles, costs)))
    figures = growth(of)([tmp_path], [SPEED])
    machine = Machine("6.18", "a CPU", 2, 24.0, 1)
    its = Record("x", "x", "", "", "", Code((), ""), machine, (SPEED,), figures.columns, figures.rows)
    columns = tuple(cost.key for cost in of.costs)
    drawn = curves.Curves("x.svg", "x", of, columns)
    curves.draw(drawn, its, tmp_path)
    assert (tmp_path / "x.svg").read_text().count("exponent 1.00<") == len(columns) * len(of.titles)
    assert is_current(tmp_path / "x.svg", drawn, its)
    assert not is_current(tmp_path / "x.svg", drawn._replace(columns=columns[1:]), its)


def test_a_file_may_have_several_repeats(tmp_path: Path) -> None:
    repeats = [
        {"length": {size: {"start_s": start, "rss_mb": 10.0, "disk_mb": 1.0} for size in ("10", "100")}}
        for start in (0.1, 0.3)
    ]
    (tmp_path / "growth.json").write_text(json.dumps(repeats))
    assert [row.values["start"] for row in growth(LENGTH)([tmp_path], [SPEED]).rows] == [(0.1, 0.3), (0.1, 0.3)]


def test_a_cost_of_nothing_has_no_exponent(tmp_path: Path) -> None:
    sizes = {size: {"start_s": 0.0, "rss_mb": 10.0, "disk_mb": 1.0} for size in (4, 16)}
    (tmp_path / "growth.json").write_text(json.dumps({"length": sizes}))
    last = growth(LENGTH)([tmp_path], [SPEED]).rows[-1]
    assert (last.values["start_exponent"], last.values["start_to_least"]) == ((None,), (None,))


def test_ways_to_order_stand_beside_raft_of_the_same_repeat(tmp_path: Path) -> None:
    def run(tps: float, cpu: float, others: float = 0.0) -> dict[str, object]:
        return {
            "throughput": tps,
            "p50": 2.0,
            "p95": 3.0,
            "order": 1.0,
            "cpu": {"orderers": cpu, "peers": 0.5},
            "cores": 1.8,
            "others": others,
            "steal": 0.0,
            "success": 1.5,
        }

    speed = dataclasses.asdict(SPEED)
    repeats = [
        {
            "calibration": speed,
            "figures": {"raft": {"many": run(1000, 0.5)}, "pbft, one dead": {"many": run(600, 1.0)}},
        },
        {
            "calibration": speed,
            "figures": {
                "raft": {"many": run(500, 0.5, others=OTHERS + 0.1)},
                "pbft, one dead": {"many": run(400, 0.75)},
                "pbft": {"many": run(320, 1.5)},
            },
        },
    ]
    (tmp_path / "ordering.json").write_text(json.dumps({"machine": {"cores": 2}, "repeats": repeats}))
    found = ordering([tmp_path], [SPEED])
    assert [row.key for row in found.rows] == ["many-raft", "many-pbft-one-dead", "many-pbft"]
    dead = found.rows[1].values
    # The fourth took a quarter of 1.5 ms out of 2: without it the same cores would do 1.23 times as much.
    assert dead["left"] == (None, pytest.approx(400 / 320 * 1.625 / 2))
    assert found.rows[2].values["tps"] == (None, 320)
    assert dead["tps_to_raft"] == pytest.approx((0.6, 0.8))
    assert dead["cpu_to_raft"] == pytest.approx((1.5, 1.25))
    assert dead["success"] == (1.5, 1.5)
    assert [one.repeat for one in found.left_out] == [2]


def test_an_outage_that_did_not_end_has_no_time(tmp_path: Path) -> None:
    outages = [
        {"ordered_by": "raft", "how": "killed", "back": back, "longest": 2.5, "failed": 3} for back in (1.2, None)
    ]
    (tmp_path / "leader.json").write_text(json.dumps({"outages": outages}))
    (row,) = leader([tmp_path], [SPEED]).rows
    assert (row.key, row.title) == ("raft-killed", "raft, its leader killed")
    assert row.values == {"back": (1.2, None), "longest": (2.5, 2.5), "failed": (3, 3)}


def test_starts_beside_neighbours_stand_below_those_alone(tmp_path: Path) -> None:
    visits = [{"sysbench": count, "known": 0.5, "gone": 0.25} for count in (0, 0, 16)]
    (tmp_path / "discovery.json").write_text(json.dumps({"visits": visits}))
    alone, beside = discovery([tmp_path], [SPEED]).rows
    assert (alone.title, alone.values) == ("alone", {"known": (0.5, 0.5), "gone": (0.25, 0.25)})
    assert (beside.key, beside.title) == ("16", "16 sysbench")


def test_what_is_owed_is_held_against_t_of_the_same_repeat(tmp_path: Path) -> None:
    folders = []
    for number, outside in enumerate((0.1, OTHERS + 0.1)):
        row = LawRow(
            *("saturating", 8, 1, "40%", 820, 3, 6, 7, 900, 0.2, 1.0, 0.25, 0, 1.75 + outside, 0, None, 0.05, 25, 0),
            sysbench_cores=0.5,
        )
        alone = {
            "row": dataclasses.asdict(dataclasses.replace(row, condition="alone before 40%", tps=2000.0)),
            "owed": None,
            "of_left": None,
        }
        folder = tmp_path / str(number)
        folder.mkdir()
        most = {
            "row": dataclasses.asdict(dataclasses.replace(row, condition="100%", sysbench_cores=0.6)),
            "owed": 2000.0,
            "of_left": 51.0,
        }
        rows = [alone, {"row": dataclasses.asdict(row), "owed": 800.0, "of_left": 0.7}, most]
        (folder / "owed.json").write_text(json.dumps({"rows": rows}))
        folders.append(folder)
    found = owed(folders, [SPEED])
    assert [(row.key, row.title) for row in found.rows] == [
        ("alone before 40", "alone, before T = 40 %"),
        ("40", "T = 40 % of that"),
        ("100", "T = 100 % of that"),
    ]
    assert found.rows[1].values["owed"] == pytest.approx((1.025, 1.025))
    assert found.rows[0].values["owed"] == (None, None)
    assert found.rows[1].values["left"] == (0.7, 0.7)
    assert found.rows[2].values["left"] == (None, None)
    assert [one.repeat for one in found.left_out] == [2]


def test_what_settles_is_held_against_the_least_share_that_does_as_well(tmp_path: Path) -> None:
    def tried(name: str, shares: int | None, settled: int, p95: float | None) -> dict[str, object]:
        count = 0 if name == "alone" else 4
        row = LawRow("fixed", count, 1, name, 900, p95, p95, p95, 0, 0.2, 1.0, 0.25, 0, 1.25, 80, None, 0, 7, 0, 0.0)
        return {
            "row": dataclasses.asdict(row),
            "shares": shares,
            "settled": [1024, settled, settled],
            "delay": 1.0,
            "waiting": 0.1,
        }

    def enough_of(number: int, *, quick: float, own: float | None) -> Path:
        rows = [
            tried("alone", None, 1024, 100.0),
            tried("4-1024", 1024, 1024, None),
            tried("4-2048", 2048, 2048, quick),
            tried("4-4096", 4096, 4096, 105.0),
            tried("4-adaptive", None, 4096, own),
        ]
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "enough.json").write_text(json.dumps({"rows": rows}))
        return folder

    folders = [enough_of(1, quick=109.0, own=100.0), enough_of(2, quick=200.0, own=100.0)]
    folders += [enough_of(3, quick=200.0, own=90.0), enough_of(4, quick=200.0, own=None)]
    found = {row.key: row for row in enough(folders, [SPEED]).rows}
    assert [row.title for row in found.values()][:3] == [
        "alone",
        "4 sysbench, 1,024 by hand",
        "4 sysbench, 2,048 by hand",
    ]
    own = found["4-adaptive"].values
    assert own["least"] == (2048, 4096, None, None)
    assert own["settled"] == (2.0, 1.0, None, None)
    assert found["4-2048"].values["slower"] == (1.09, 2.0, 2.0, 2.0)
    assert found["4-1024"].values["p95"] == (None,) * 4


def test_bursts_are_held_against_alone_s_of_the_same_repeat(tmp_path: Path) -> None:
    def burst(p95: float, throughput: float = 700.0) -> dict[str, float]:
        return {"p95": p95, "throughput": throughput, "committed": 6 * throughput}

    arms = {"rate": 700.0, "alone": [burst(100), burst(300)], "qioi": [burst(400), burst(200, 350)]}
    arms["nothing"] = [burst(0, 0)]
    (tmp_path / "bursts.json").write_text(json.dumps(arms))
    found = {row.key: row.values for row in bursts([tmp_path], [SPEED]).rows}
    assert {key: values["slower"] for key, values in found.items()} == {
        "alone-1": (0.5,), "alone-2": (1.5,), "nothing-1": (None,), "qioi-1": (2.0,), "qioi-2": (1.0,)
    }  # fmt: skip
    assert found["qioi-2"]["throughput"] == (0.5,)


def test_a_repeat_counts_by_what_others_took_alone() -> None:
    def alone(repeat: int, outside: float, steal: float) -> LawRow:
        return LawRow(
            "fixed", 0, repeat, "alone", 500, 3, 6, 7, 0, 0.2, 1.0, 0.25, 0, 1.25 + outside, 0, None, 0, 25, steal, 0.0
        )

    rows = [alone(1, 0.1, 0.1), alone(2, OTHERS + 0.01, 0.0), alone(3, 0.0, OTHERS + 0.01), alone(4, 0.3, 0.3)]
    assert [one.repeat for one in disturbed(rows)] == [2, 3, 4]


def keep_neighbours(folder: Path, repeat: int, speed: float) -> Path:
    """Keep a repeat of bench_laws.py in which each of 4 neighbours has so many events, and each of 16 half of that."""
    for condition, count, events in (("alone", 0, 0.0), ("nothing", 4, 4 * speed), ("nothing", 16, 8 * speed)):
        row = LawRow(
            "fixed", count, repeat, condition, 100, 50, 50, 50, 0, 0.2, 1.0, 0.2, 0, 1.2, events, 100.0, 0, 18, 0, 0.0
        )
        file = folder / f"fixed-{count}-repeat{repeat}" / condition / "row.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(dataclasses.asdict(row)))
    keep_load(Found(100.0 * repeat, []), folder, repeat)
    (folder / "laws.json").write_text(json.dumps({"machine": {"cores": 2}}))
    return folder


@pytest.mark.parametrize("numbers", [(1, 1, 1), (1, 2, 3), (4, 5, 6)])
def test_repeats_of_several_folders_are_numbered_on(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    """Each folder may have its own count of them, or begin where the one before it ended."""
    speeds = (100.0, 200.0, 300.0)
    folders = [
        keep_neighbours(tmp_path / str(speed), number, speed) for number, speed in zip(numbers, speeds, strict=True)
    ]
    found = {row.key: row.values for row in neighbours(folders, [SPEED]).rows}
    assert found["fixed-4-nothing"]["each"] == speeds
    assert found["fixed-4-nothing"]["offered"] == tuple(100.0 * number for number in numbers)


def test_what_each_neighbour_gets_stands_beside_what_all_get(tmp_path: Path) -> None:
    keep_neighbours(tmp_path, 1, 200.0)
    found = {row.key: row.values for row in neighbours([tmp_path], [SPEED]).rows}
    assert (found["fixed-4-nothing"]["events"], found["fixed-4-nothing"]["each"]) == ((800.0,), (200.0,))
    assert (found["fixed-16-nothing"]["events"], found["fixed-16-nothing"]["each"]) == ((1600.0,), (100.0,))
    assert "events" not in found["fixed-alone"]


def test_a_reaction_beside_others_does_not_count(tmp_path: Path) -> None:
    def visit(period: float, others: float | None) -> dict[str, float | None]:
        return {"period": period, "raised": 0.5, "recovered": 1.0, "back": 20.0, "others": others}

    visits = [visit(1.0, 0.1), visit(1.0, OTHERS), visit(1.0, None), visit(0.1, OTHERS + 0.1), visit(0.1, 0.1)]
    (tmp_path / "reaction.json").write_text(json.dumps({"reactions": visits}))
    found = reaction([tmp_path], [SPEED])
    assert [(row.key, row.values["others"]) for row in found.rows] == [
        ("1", (0.1, OTHERS, None)),
        ("0.1", (OTHERS + 0.1, 0.1)),
    ]
    assert [(one.repeat, "0.50 CPUs" in one.reason) for one in found.left_out] == [(1, True)]


def test_tenants_are_held_against_their_own_numbers(tmp_path: Path) -> None:
    folders = []
    for number, alpha in enumerate((1000.0, 1250.0)):
        folder = tmp_path / str(number)
        folder.mkdir()
        before = {"condition": "nothing", "tps": {"alpha": 1000.0, "beta": 900.0}, "owed": {}, "raised": 1.0}
        after = {
            "condition": "adaptive",
            "tps": {"alpha": alpha, "beta": 500.0},
            "owed": {"alpha": 1250.0, "beta": 400.0},
            "raised": 4.5,
        }
        (folder / "tenants.json").write_text(json.dumps({"rows": [before, after]}))
        folders.append(folder)
    without, beside = tenants(folders, [SPEED]).rows
    assert (without.key, without.title) == ("nothing", "without QiOi")
    assert without.values["alpha_owed"] == (None, None)
    assert beside.values["alpha_owed"] == (0.8, 1.0)
    assert beside.values["beta_owed"] == (1.25, 1.25)
    assert beside.values["raised"] == (4.5, 4.5)
