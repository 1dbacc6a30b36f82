"""Medians, ratios, noise, and the papers' sentences beside ours."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_experiment import HOST, filled, load, row

from qioi.experiment import catalogue
from qioi.experiment.host import describe
from qioi.experiment.noise import complaints
from qioi.experiment.places import media, own_folder
from qioi.experiment.plan import Plan, make_plan
from qioi.experiment.run_files import FORMAT, Repeat, RunDocument
from qioi.experiment.session import LOSSES, Session, repeat_label
from qioi.experiment.store import Store, asked
from qioi.experiment.summary import Spread, Summary, as_json, judge, write_csv
from qioi.experiment.tables import entry
from qioi.experiment.verdicts import finely
from qioi.processes.errors import BusyError


def summarise(folder: Path, plan: Plan, *rows: object) -> Summary:
    store = Store(folder / "toy")
    filled(store, plan, list(rows))  # type: ignore[arg-type]
    return Summary(store)


def test_medians_have_their_spread_and_ratios_are_taken_within_repeats(plan: Plan, tmp_path: Path) -> None:
    summary = summarise(tmp_path, plan, row(100, 50, 100), row(200, 110, 150), row(80, 40, 60))
    alone, beside, qioi = summary.plan.cells
    assert summary.value(alone, "throughput") == Spread(100, 80, 200, 3)
    assert summary.ratio(beside, "throughput") == Spread(0.5, 0.5, 0.55, 3)
    found = summary.ratio(qioi, "throughput")
    assert found is not None
    assert (found.median, found.high) == (1.5, 2.0)
    assert summary.ratio(alone, "throughput") is None
    assert summary.value(alone, "neighbours.work") is None
    assert summary.trusted


def test_a_ratio_to_alone_stands_also_where_the_arm_between_was_starved(plan: Plan, tmp_path: Path) -> None:
    cells = row(100, 1, 50)
    starved = cells["tiny.slow.s1"]
    cells["tiny.slow.s1"] = replace(
        starved, metrics={name: one for name, one in starved.metrics.items() if name != "p95"}
    )
    summary = summarise(tmp_path, plan, cells)
    found = entry(summary, summary.plan.cells[2], "p95")
    assert (found.value, found.ratio, found.alone) == ("10.0", "", "1.00x")


def test_a_ratio_of_some_repeats_says_so_and_is_not_coloured(plan: Plan, tmp_path: Path) -> None:
    """The value is there in each repeat, and what it is compared with only in one."""
    rows = [row(100, 50, 100) for _ in range(3)]
    for cells in rows:
        cells["tiny.slow.s1"].metrics["p95"] = 40.0
    assert entry(summarise(tmp_path / "all", plan, *rows), plan.cells[2], "p95").grade == "good"
    for cells in rows[:2]:
        del cells["tiny.slow.s1"].metrics["p95"]
    found = entry(summarise(tmp_path / "one", plan, *rows), plan.cells[2], "p95")
    assert (found.value, found.spread, found.ratio) == ("10.0", "10.0 .. 10.0", "0.25x (in 1 of 3)")
    assert (found.grade, found.alone) == ("", "1.00x")
    del rows[2]["tiny.slow.alone"].metrics["p95"]
    assert entry(summarise(tmp_path / "two", plan, *rows), plan.cells[2], "p95").alone == "1.00x (in 2 of 3)"


def test_a_noisy_repeat_is_said_and_counts_for_no_median(plan: Plan, tmp_path: Path) -> None:
    summary = summarise(tmp_path, plan, row(100, 50, 100), row(1, 1, 1, steal=20.0), row(80, 40, 60))
    assert summary.value(summary.plan.cells[0], "throughput") == Spread(90, 80, 100, 2)
    assert [repeat.number for repeat in summary.noisy] == [2]
    assert not summary.trusted
    assert as_json(summary)["noisy"][2]["tiny.slow.alone"] == [
        "the hypervisor gave 20.0 % of the CPU time to others (accepted: 3 %)"
    ]


def test_where_all_is_noise_it_is_shown_as_such(plan: Plan, tmp_path: Path) -> None:
    summary = summarise(tmp_path, plan, row(100, 50, 100, steal=20.0))
    assert summary.value(summary.plan.cells[0], "throughput") == Spread(100, 100, 100, 1)
    assert not summary.trusted


def test_criteria() -> None:
    assert not complaints({"steal": 3.0, "others": 5.0})
    assert len(complaints({"steal": 3.1, "others": 5.1})) == 2
    assert not complaints({"perf.lost": 0.1, "perf.missed": 5.0})
    assert complaints({"perf.lost": 2.5, "perf.missed": 50.0}) == [
        "perf lost 2.5 % of the scheduler's events (accepted: 0.1 %)",
        "perf's file was full, and 50 % of what it was to record are not in it (accepted: 5 %)",
    ]


def test_the_neighbours_due_is_what_ledger_and_client_leave_free(plan: Plan, tmp_path: Path) -> None:
    summary = summarise(tmp_path, plan, row(100, 50, 100))
    found = summary.value(summary.plan.cells[1], "neighbours.due")
    assert found is not None
    # 2 cores less 1.0 less 0.2 leaves 0.8, and they had 0.4.
    assert found.median == pytest.approx(50)
    assert summary.value(summary.plan.cells[0], "neighbours.due") is None


def test_neighbours_beside_one_component_have_no_due(plan: Plan, tmp_path: Path) -> None:
    """They are bound to its CPU, and what is free on others is not theirs."""
    summary = summarise(tmp_path, plan, row(100, 50, 100))
    cell = summary.plan.cells[1]
    neighbours = cell.arm.neighbours.model_copy(update={"beside": "follower"})
    bound = replace(cell, arm=cell.arm.model_copy(update={"neighbours": neighbours}))
    assert summary.value(bound, "neighbours.due") is None


@pytest.mark.parametrize(
    ("paper", "ours", "agrees"),
    [
        (1.22, Spread(1.5, 1.4, 1.6, 3), True),
        (1.22, Spread(0.9, 0.8, 0.95, 3), False),
        (1.22, Spread(1.0, 0.9, 1.2, 3), None),
        (1.22, Spread(1.1, 0.7, 1.2, 3), None),
        (0.98, Spread(1.01, 1.0, 1.02, 3), True),
        (0.47, Spread(0.9, 0.8, 0.95, 3), True),
        (0.98, Spread(0.5, 0.4, 0.6, 3), False),
        (1.22, Spread(0.7, 0.7, 0.98, 3), False),
        (0.98, Spread(0.7, 0.6, 0.98, 3), None),
        (0.98, Spread(1.1, 0.9, 1.2, 3), None),
        (0.47, Spread(1.2, 1.2, 1.2, 1), False),
        (1.03, Spread(1.0, 0.98, 1.02, 3), True),
        (0.97, Spread(1.0, 0.97, 1.03, 3), True),
        (1.04, Spread(1.0, 0.98, 1.02, 3), False),
        (1.22, None, None),
    ],
)
def test_directions_are_compared(paper: float, ours: Spread | None, agrees: bool | None) -> None:
    assert judge(paper, ours, ours.count if ours else 3)[0] is agrees


def test_the_papers_sentences_are_judged(plan: Plan, tmp_path: Path) -> None:
    summary = summarise(tmp_path, plan, *([row(100, 50, 100)] * 3))
    (verdict,) = summary.verdicts()
    assert (verdict.agrees, verdict.paper) == (True, 1.2)
    assert verdict.ours is not None
    assert verdict.ours.median == 2.0


@pytest.mark.parametrize(("starved", "agrees"), [(0, True), (1, True), (2, None), (3, None)])
def test_a_sentence_is_judged_where_most_repeats_have_a_value(
    document: dict[str, Any], tmp_path: Path, starved: int, agrees: bool | None
) -> None:
    """A starved ledger has no latency: the one that is left must not speak for all."""
    document["papers"] = [{"what": "no slower", "metric": "p95", "arm": "s1", "value": 1.0}]
    rows = [row(100, 50, 100) for _ in range(4 if starved == 2 else 3)]
    for cells in rows[:starved]:
        del cells["tiny.slow.s1"].metrics["p95"]
    (verdict,) = summarise(tmp_path, make_plan(load(document, tmp_path), 2), *rows).verdicts()
    assert verdict.agrees is agrees
    assert (verdict.word == "open: too few repeats have a value") == (starved == 2)


def test_a_goal_about_goodput_is_not_reached_by_two_that_are_equally_bad(
    document: dict[str, Any], tmp_path: Path
) -> None:
    document["goals"] = [{"what": "hardly any fails", "metric": "goodput", "arm": "qioi", "least": 97.0}]
    cells = row(100, 50, 100)
    for cell in cells.values():
        cell.metrics["goodput"] = 60.0
    (outcome,) = summarise(tmp_path, make_plan(load(document, tmp_path), 2), cells).outcomes()
    assert (outcome.ours, outcome.reached) == (Spread(60, 60, 60, 1), False)


@pytest.mark.parametrize(
    ("goal", "reached", "often"),
    [
        ({"metric": "throughput", "least": 2.0}, True, 2),
        ({"metric": "throughput", "least": 2.1}, False, 0),
        ({"metric": "throughput", "of": "alone", "most": 1.0}, True, 3),
        ({"metric": "throughput", "of": "alone", "most": 0.9}, False, 1),
        ({"metric": "neighbours.due", "least": 50.0}, True, 3),
        ({"metric": "neighbours.due", "most": 49.0}, False, 0),
        ({"metric": "p99", "least": 1.0}, None, 0),
    ],
)
def test_goals_are_bounds_of_ratios_or_of_parts(
    document: dict[str, Any], tmp_path: Path, goal: dict[str, Any], reached: bool | None, often: int
) -> None:
    document["goals"] = [{"what": "a goal", "arm": "qioi", **goal}]
    plan = make_plan(load(document, tmp_path), 2)
    summary = summarise(tmp_path, plan, row(100, 50, 100), row(100, 50, 100), row(100, 50, 80))
    (outcome,) = summary.outcomes()
    assert (outcome.reached, outcome.often) == (reached, often)
    assert as_json(summary)["goals"][0]["reached"] is reached


def test_a_goal_is_missed_where_only_the_other_arm_has_the_metric(document: dict[str, Any], tmp_path: Path) -> None:
    """What commits nothing has no latency, and is not "not measured" beside one that has."""
    document["goals"] = [{"what": "a goal", "arm": "qioi", "metric": "p95", "most": 1.3}]
    plan = make_plan(load(document, tmp_path), 2)
    starved = row(100, 50, 0)
    del starved["tiny.slow.qioi"].metrics["p95"]
    (outcome,) = summarise(tmp_path, plan, starved).outcomes()
    assert (outcome.ours, outcome.reached, outcome.often) == (None, False, 0)


def test_curves_are_those_of_the_repeat_in_the_middle(plan: Plan, tmp_path: Path) -> None:
    summary = summarise(tmp_path, plan, row(100, 50, 80), row(300, 50, 80), row(200, 50, 80))
    middle = summary.figures(plan.cells[0])
    assert middle is not None
    assert middle.metrics["throughput"] == 200


def test_a_sentence_names_what_its_ratio_is_of(plan: Plan, tmp_path: Path) -> None:
    (verdict,) = summarise(tmp_path, plan, row(100, 50, 100), row(90, 40, 80)).verdicts()
    assert verdict.values == (45, 90)


def test_a_sentence_may_compare_two_arms_of_two_networks(document: dict[str, Any], tmp_path: Path) -> None:
    document["networks"]["second"] = document["networks"]["tiny"]
    document["figures"] = document["figures"][:1]
    document["papers"] = [
        {
            "what": "more",
            "metric": "throughput",
            "arm": "qioi",
            "network": "second",
            "of": "alone",
            "of_network": "tiny",
            "value": 2,
        }
    ]
    cells = row(100, 50, 200)
    cells |= {key.replace("tiny", "second"): cell for key, cell in row(400, 50, 300).items()}
    (verdict,) = summarise(tmp_path, make_plan(load(document, tmp_path), 2), cells).verdicts()
    assert verdict.values == (100, 300)


def test_claims_about_arms_that_others_stand_for_find_them(tmp_path: Path) -> None:
    plan = make_plan(catalogue.find("fig_3"), cores=2)
    store = Store(tmp_path / "x")
    cells = {cell.key: row(100, 50, 0)["tiny.slow.alone"] for cell in plan.cells}
    filled(store, plan, [cells])
    assert [verdict.word for verdict in Summary(store).verdicts()].count("not measured") == 2  # `mean` is not there


def test_arms_that_scaling_has_made_one_are_not_compared(document: dict[str, Any], tmp_path: Path) -> None:
    """Beside 13 of the paper's 24 cores' neighbours, as beside 12, there is 1 on one core: a ratio of 1, by itself."""
    document["arms"].append({**document["arms"][1], "name": "s2", "neighbours": {"sysbench": 13}})
    sentence = {"what": "a neighbour more", "arm": "s2", "of": "s1"}
    document["papers"] = [{**sentence, "metric": "throughput", "value": 1.0}]
    document["goals"] = [
        {**sentence, "metric": "throughput", "most": 1.0},
        {**sentence, "metric": "goodput", "least": 97.0},  # is of s2 by itself
    ]
    cells = row(100, 50, 100)
    cells["tiny.slow.s1"].metrics["goodput"] = 98.0
    summary = summarise(tmp_path, make_plan(load(document, tmp_path), 1), cells)
    (verdict,) = summary.verdicts()
    assert (verdict.word, verdict.ours, verdict.agrees, verdict.values) == ("not measured", None, None, None)
    assert [(outcome.ours and outcome.ours.median, outcome.reached) for outcome in summary.outcomes()] == [
        (None, None),
        (98.0, True),
    ]


@pytest.mark.parametrize("name", catalogue.names())
def test_a_plan_is_read_back_as_it_was(name: str) -> None:
    plan = make_plan(catalogue.find(name), cores=2, seed=7)
    document = json.loads(json.dumps({"format": FORMAT, **asked(plan), "host": HOST, "maxima": {}}))
    assert RunDocument(**document).plan == plan


def test_every_value_is_in_the_csv(plan: Plan, tmp_path: Path) -> None:
    summary = summarise(tmp_path, plan, row(100, 50, 100), row(1, 1, 1, steal=20.0))
    write_csv(summary, tmp_path / "metrics.csv")
    with (tmp_path / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    found = {(one["repeat"], one["quiet"], one["arm"]): one["value"] for one in rows if one["metric"] == "throughput"}
    assert found["1", "1", "s1"] == "50"
    assert found["2", "0", "alone"] == "1"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234567.0, "1234567"),
        (12345678912.0, "12345678912"),
        (999999.7, "1000000"),
        (99999.97, "100000"),
        (0.000123456789, "0.000123457"),
    ],
)
def test_a_value_in_the_csv_has_six_digits_and_all_before_the_point(
    plan: Plan, tmp_path: Path, value: float, text: str
) -> None:
    summary = summarise(tmp_path, plan, row(value, 50, 100))
    write_csv(summary, tmp_path / "metrics.csv")
    assert f"tiny,slow,alone,throughput,{text}\n" in (tmp_path / "metrics.csv").read_text()


class Starved(Session):
    """A session on a machine that has time for every second repeat only, or for none."""

    tries, every = 0, 2

    def _repeat(self, number: int, finished: Sequence[Repeat], maxima: dict[str, float]) -> Repeat:
        self.tries += 1
        if self.every == 0 or self.tries % self.every:
            raise BusyError(f"try {self.tries}: 0 samples")
        self._store.folder(number).mkdir(parents=True)
        return self._store.finish(number, row(100, 50, 100), judged=True)


@pytest.mark.parametrize(
    ("quiet", "label"),
    [
        ([], "repeat 1 of 3"),
        ([True, True], "repeat 3 of 3"),
        ([True, False], "repeat 3, of 3 quiet ones there are 1"),
        ([True, False, True], "repeat 4, of 3 quiet ones there are 2"),
    ],
)
def test_a_repeat_beyond_those_asked_for_is_called_by_the_quiet_ones(quiet: list[bool], label: str) -> None:
    finished = [Repeat(at, {}, {} if one else {"one": ["steal 9 %"]}) for at, one in enumerate(quiet, 1)]
    assert repeat_label(len(finished) + 1, finished, 3) == label


def test_a_repeat_that_could_not_be_measured_is_noted_and_tried_again(plan: Plan, tmp_path: Path) -> None:
    two = replace(plan, repeats=2, smoke=True)
    store = Store(tmp_path / "toy")
    Starved(two, store, tmp_path, 1024, lambda *_: None).run()
    assert store.document.lost == ["try 1: 0 samples", "try 3: 0 samples"]
    assert [repeat.number for repeat in store.repeats()] == [1, 2]


@pytest.mark.parametrize(
    ("steal", "left"),
    [([0.0, 0.0], 1), ([9.0, 9.0], 3), ([9.0, 9.0, 9.0], 3), ([0.0, 9.0, 9.0, 9.0, 9.0], 1)],
)
def test_the_time_left_is_that_of_the_repeats_that_are_wanting(
    plan: Plan, tmp_path: Path, steal: list[float], left: int
) -> None:
    """Three are asked for; quiet ones are measured until there are three, or six in all."""
    where = media(plan.spec.networks, tmp_path)
    store = Store(tmp_path / "toy")
    filled(store, plan, [row(100, 50, 100, steal=one) for one in steal], where)
    store.keep("host", describe(1))
    store.keep("folder", own_folder(tmp_path))
    shown: list[float] = []

    class Counted(Starved):
        def _maxima(self) -> dict[str, float]:
            return {}

        def _repeat(self, number: int, finished: Sequence[Repeat], maxima: dict[str, float]) -> Repeat:
            self._step("", 0)
            return super()._repeat(number, finished, maxima)

    session = Counted(plan, store, tmp_path, 1024, lambda _, done, total: shown.append(total - done))
    session.every = 1
    session.run(resume=True)
    assert shown == [pytest.approx(plan.repeat_seconds * one) for one in range(left, 0, -1)]


@pytest.mark.parametrize(("repeats", "tries"), [(1, LOSSES), (7, 7)])
def test_where_nothing_can_be_measured_a_run_ends(plan: Plan, tmp_path: Path, repeats: int, tries: int) -> None:
    session = Starved(
        replace(plan, repeats=repeats, smoke=True), Store(tmp_path / "toy"), tmp_path, 1024, lambda *_: None
    )
    session.every = 0
    with pytest.raises(BusyError, match=f"try {tries}:"):
        session.run()


def test_a_run_that_is_resumed_may_lose_as_many_again(plan: Plan, tmp_path: Path) -> None:
    one, store = replace(plan, repeats=1, smoke=True), Store(tmp_path / "toy")
    session = Starved(one, store, tmp_path, 1024, lambda *_: None)
    session.every = 0
    with pytest.raises(BusyError):
        session.run()
    Starved(one, store, tmp_path, 1024, lambda *_: None).run(resume=True)
    assert [repeat.number for repeat in store.repeats()] == [1]
    assert len(store.document.lost) == LOSSES + 1  # all of them are told


def test_ratios_are_coloured_where_they_may_be_trusted(plan: Plan, tmp_path: Path) -> None:
    """A smoke run's page says that its figures mean nothing."""
    smoke = make_plan(plan.spec, 2, smoke=True)
    for its, grade in ((plan, "bad"), (smoke, "")):
        rows = [row(100, 50, 100)] * its.repeats
        summary = summarise(tmp_path / str(its.smoke), its, *rows)
        shown = entry(summary, summary.plan.cells[1], "throughput")
        assert (shown.ratio, shown.grade) == ("0.50x", grade)


def test_a_goals_ratio_has_three_decimals_where_they_say_something() -> None:
    spelled = [finely(ratio) for ratio in (0.9496, 1.4999, 2.345, 0.0421, 0.0004, 1e-6)]
    assert spelled == ["0.950x", "1.500x", "2.3x", "0.042x", "0.0004x", "under 0.0001x"]
