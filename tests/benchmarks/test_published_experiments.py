"""Experiments in documents: tables and words are those of the kept run."""

from __future__ import annotations

from pathlib import Path

import pytest
from publish import EXPERIMENT_FIGURES, documents
from published.experiments import ExperimentDrawer, said_today
from toy_experiment import DOCUMENT, filled, load, row

from qioi.experiment import catalogue
from qioi.experiment.plan import make_plan
from qioi.experiment.store import Store

GOAL = {"what": "keeps up", "metric": "throughput", "arm": "qioi", "of": "alone", "least": 0.95}
CLAIMS = "<!-- experiment toy claims -->\n<!-- /experiment -->\n"
OUTCOME = "| toy | <!-- outcome toy --><!-- /outcome --> |\n"


@pytest.fixture
def drawer(tmp_path: Path) -> ExperimentDrawer:
    """A kept run of three repeats in which QiOi brings all of alone's throughput back, after one that was noisy."""
    spec = load({**DOCUMENT, "goals": [GOAL]}, tmp_path)
    plan = make_plan(spec, 2)
    rows = [row(100, 1, 1, steal=20.0), row(100, 50, 100), row(100, 50, 98), row(100, 40, 90)]
    filled(Store(tmp_path / "kept" / "toy"), plan, rows)
    return ExperimentDrawer(tmp_path / "kept", {"toy": spec, "other": spec}, lambda _: False)


@pytest.mark.parametrize("document", documents(), ids=lambda file: file.name)
def test_documents_say_what_was_kept(document: Path) -> None:
    text = document.read_text()
    assert EXPERIMENT_FIGURES.draw(text, document.name) == text, "make figures"


def test_sentences_and_goals_stand_beside_what_came_out(drawer: ExperimentDrawer) -> None:
    drawn = drawer.draw(CLAIMS, "page.md")
    assert "| +20 % | 1.20x | 2.0x (1.96x .. 2.2x) | 50.0 to 98.0 tps | agrees |" in drawn
    assert "| keeps up | goal: at least 0.950x | 0.980x (0.900x .. 1.000x) | - | reached (in 2 of 3 repeats) |" in drawn
    assert "3 quiet of 4 repeats" in drawn
    assert "Repeat 1 was too noisy, left out of medians" in drawn


def test_a_row_has_each_value_with_its_spread_and_its_ratios(drawer: ExperimentDrawer) -> None:
    mark = "<!-- experiment toy values metrics=throughput arms=alone,qioi -->\n<!-- /experiment -->\n"
    drawn = drawer.draw(mark, "page.md")
    assert "|  | throughput, tps |" in drawn
    assert "| alone | 100 (100 .. 100) |" in drawn
    assert "QiOi | 98.0 (90.0 .. 100); 2.0x, 0.98x of alone |" in drawn
    assert "| 1 sysbench |" not in drawn


def test_a_run_is_summed_up_in_words(drawer: ExperimentDrawer) -> None:
    assert "1 of 1 sentences agree; 1 of 1 goals reached" in drawer.draw(OUTCOME, "page.md")


def test_a_sentence_that_was_not_measured_is_no_open_one(tmp_path: Path) -> None:
    unmeasured = {"what": "+30 %", "metric": "goodput", "arm": "qioi", "value": 1.3}
    falls = {"what": "-30 %", "metric": "throughput", "arm": "s1", "value": 0.7}
    plan = make_plan(load({**DOCUMENT, "papers": [*DOCUMENT["papers"], unmeasured, falls]}, tmp_path), 2)
    filled(Store(tmp_path / "kept" / "toy"), plan, [row(100, 90, 100), row(100, 110, 130), row(100, 110, 130)])
    drawn = ExperimentDrawer(tmp_path / "kept", {"toy": plan.spec}, lambda _: False).draw(OUTCOME, "page.md")
    assert ">1 of 3 sentences agree, 1 open, 1 not measured<" in drawn


def test_a_run_with_too_few_quiet_repeats_is_no_evidence(tmp_path: Path) -> None:
    plan = make_plan(load(DOCUMENT, tmp_path), 2)
    filled(Store(tmp_path / "kept" / "toy"), plan, [row(100, 50, 100)])
    drawer = ExperimentDrawer(tmp_path / "kept", {"toy": plan.spec}, lambda _: False)
    assert "too noisy to be trusted" in drawer.draw(OUTCOME, "page.md")
    assert "agrees (not trusted)" in drawer.draw(CLAIMS, "page.md")


def test_a_kept_run_is_judged_by_what_its_file_says_today(tmp_path: Path) -> None:
    """A sentence that the paper does not have is gone, and one about an arm that the run did not have is marked."""
    before = [*DOCUMENT["papers"], {"what": "ours", "metric": "throughput", "arm": "qioi", "value": 1.1}]
    plan = make_plan(load({**DOCUMENT, "papers": before}, tmp_path), 2)
    filled(Store(tmp_path / "kept" / "toy"), plan, [row(100, 50, 100)] * 3)
    later = {"name": "later", "title": "later", "against": "alone"}
    new = {"what": "a new arm", "metric": "throughput", "arm": "later", "least": 1.0}
    arms, figures = [*DOCUMENT["arms"], later], DOCUMENT["figures"][:1]
    today = load({**DOCUMENT, "arms": arms, "figures": figures, "goals": [GOAL, new]}, tmp_path)
    drawer = ExperimentDrawer(tmp_path / "kept", {"toy": today}, lambda _: False)
    assert ">1 of 1 sentences agree; 1 of 2 goals reached, 1 not measured<" in drawer.draw(OUTCOME, "page.md")
    drawn = drawer.draw(CLAIMS, "page.md")
    assert "| ours |" not in drawn
    assert "| a new arm | goal: at least 1.000x | - | - | not measured |" in drawn


def test_a_sentence_of_no_network_is_about_the_first_that_its_file_has_today(tmp_path: Path) -> None:
    networks = {"other": DOCUMENT["networks"]["tiny"], **DOCUMENT["networks"]}
    spec = load({**DOCUMENT, "networks": networks, "figures": DOCUMENT["figures"][:1]}, tmp_path)
    today = spec.model_copy(update={"networks": dict(reversed(spec.networks.items()))})
    (paper,) = said_today(spec, spec).papers
    assert (paper.network, paper.load, paper.value) == ("other", "slow", 1.2)
    assert [one.network for one in said_today(spec, today).papers] == ["tiny"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"loads": {"slow": {**DOCUMENT["loads"]["slow"], "title": "another title"}}}, "1 of 1 sentences agree"),
        ({"loads": {"slow": {**DOCUMENT["loads"]["slow"], "value_size": 7}}}, "0 of 1 sentences agree, 1 not measured"),
        ({"networks": {"tiny": {**DOCUMENT["networks"]["tiny"], "peers_per_org": 3}}}, "1 not measured"),
        (
            {
                "arms": [
                    {**one, "neighbours": {"sysbench": 3}} if one["name"] == "s1" else one for one in DOCUMENT["arms"]
                ]
            },
            "1 not measured",
        ),
    ],
)
def test_what_was_measured_under_a_name_that_means_something_else_is_not_judged(
    changed: dict[str, object], said: str, tmp_path: Path
) -> None:
    plan = make_plan(load(DOCUMENT, tmp_path), 2)
    filled(Store(tmp_path / "kept" / "toy"), plan, [row(100, 50, 100)] * 3)
    drawer = ExperimentDrawer(tmp_path / "kept", {"toy": load({**DOCUMENT, **changed}, tmp_path)}, lambda _: False)
    assert said in drawer.draw(OUTCOME, "page.md")


def test_what_is_counted_of_kept_runs_is_in_their_files() -> None:
    for summary in EXPERIMENT_FIGURES.summaries():
        spec = catalogue.find(summary.spec.name)
        assert [one.what for one in summary.spec.papers] == [one.what for one in spec.papers], spec.name
        assert [one.what for one in summary.spec.goals] == [one.what for one in spec.goals], spec.name


def test_drawing_again_changes_nothing(drawer: ExperimentDrawer) -> None:
    drawn = drawer.draw(CLAIMS + OUTCOME, "page.md")
    assert drawer.draw(drawn, "page.md") == drawn


def test_what_was_not_kept_is_said(drawer: ExperimentDrawer) -> None:
    text = "<!-- experiment other claims -->\n<!-- /experiment -->\n<!-- outcome other --><!-- /outcome -->\n"
    drawn = drawer.draw(text, "page.md")
    assert "Not measured yet." in drawn
    assert "-->not measured<!--" in drawn


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("<!-- outcome nothing --><!-- /outcome -->", "page.md: no experiment 'nothing'"),
        ("<!-- experiment toy claims -->\n", "1 marks of figures make 0 pairs"),
        ("<!-- experiment toy verdicts -->\n<!-- /experiment -->", "2 marks of figures make 0 pairs"),
        ("<!-- experiment toy values -->\n<!-- /experiment -->", "experiment toy: metrics= is missing"),
        ("<!-- experiment toy values metrics=p95 rows=a -->\n<!-- /experiment -->", "no option rows"),
        (
            "<!-- experiment toy values metrics=p95 load=fast -->\n<!-- /experiment -->",
            "no cell has metrics=p95, load=fast",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(drawer: ExperimentDrawer, mark: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        drawer.draw(mark, "page.md")


def test_a_spoilt_run_is_named(drawer: ExperimentDrawer, tmp_path: Path) -> None:
    (tmp_path / "kept" / "toy" / "run.json").write_text("{")
    with pytest.raises(ValueError, match=r"page\.md: .*run\.json is not JSON"):
        drawer.draw(CLAIMS, "page.md")
