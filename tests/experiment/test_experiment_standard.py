"""The standard length, and what of a run is committed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from toy_experiment import filled, load, row

from qioi.commands.experiment import command, seconds_of
from qioi.experiment import catalogue
from qioi.experiment.errors import SpecError
from qioi.experiment.excerpt import something_else, write_excerpt
from qioi.experiment.method import SETTLED, settles
from qioi.experiment.plan import Plan, make_plan, of_size, with_binaries
from qioi.experiment.spec import ExperimentSpec
from qioi.experiment.standard import OWN, OWN_HOURS, PAPERS_HOURS, at_standard
from qioi.experiment.store import Store
from qioi.processes.errors import LabError


def standard_plan(name: str, *, paper_size: bool = True) -> Plan:
    spec, timing = at_standard(catalogue.find(name))
    return make_plan(with_binaries(spec, None), 2, paper_size=paper_size, timing=timing)


@pytest.mark.parametrize("paper_size", [True, False])
def test_all_of_it_takes_no_longer_than_is_said(paper_size: bool) -> None:
    plans = [standard_plan(name, paper_size=paper_size) for name in catalogue.names()]
    assert all(plan.repeats == catalogue.LEAST_REPEATS for plan in plans)
    own = [plan for plan in plans if plan.spec.paper in OWN]
    papers = [plan for plan in plans if plan.spec.paper not in OWN]
    assert 0 < sum(map(seconds_of, own)) <= OWN_HOURS * 3600
    assert 0 < sum(map(seconds_of, papers)) <= PAPERS_HOURS * 3600


@pytest.mark.parametrize("name", catalogue.names())
def test_nothing_that_a_paper_or_a_goal_says_is_left_out(name: str) -> None:
    whole = of_size(catalogue.find(name), paper_size=False)
    assert whole.standard is not None
    short, _ = at_standard(whole)
    assert (short.papers, short.goals) == (whole.papers, whole.goals)


@pytest.mark.parametrize("name", catalogue.names())
def test_neighbours_backlogs_have_their_time_to_go(name: str) -> None:
    plan = standard_plan(name)
    assert plan.cells[0].timing.settling >= SETTLED or not any(map(settles, plan.cells))


def test_inserts_at_once_come_when_the_blocks_before_are_cut() -> None:
    """Chance decides whether those that come as a block's timer ends join it."""
    spec = catalogue.find("thesis_4_5")
    between = {load.burst / load.rate for load in spec.loads.values() if load.burst and load.rate}
    timers = {network.timeout for network in spec.networks.values() if network.timeout}
    assert timers == {2.0}
    assert min(between) >= 1.5 * max(timers)


def test_a_standard_has_its_own_times_and_points(document: dict[str, Any], tmp_path: Path) -> None:
    document["timing"]["profile"] = 2.0
    document["standard"] = {"warmup": 0.4, "duration": 1.5, "arms": ["s1"]}
    spec, timing = at_standard(load(document, tmp_path))
    assert (timing.warmup, timing.duration, timing.cooldown, timing.profile) == (0.4, 1.5, 1.0, 1.5)
    assert [arm.name for arm in spec.arms] == ["alone", "s1"]
    assert spec.timing.duration == 2.0


@pytest.mark.parametrize(
    ("words", "key"), [(("--duration", "2.5"), "timing"), (("--standard",), "standard")], ids=["option", "standard"]
)
def test_a_window_without_two_samples_is_refused(
    document: dict[str, Any], tmp_path: Path, words: tuple[str, ...], key: str
) -> None:
    document["timing"] = {"warmup": 1.0, "duration": 9.0, "sample": 1.0}
    document["standard"] = {"warmup": 1.0, "duration": 2.5}
    load(document, tmp_path)
    run = tmp_path / "run"
    outcome = CliRunner().invoke(command, ["run", str(tmp_path / "toy.yaml"), "--output", str(run), *words])
    said = "a duration of at least one second and two samples is accepted"
    assert outcome.output == f"Error: toy: {key}: {said}\n"
    assert not run.exists()


def test_without_a_standard_an_experiment_stays_as_it_is(spec: ExperimentSpec) -> None:
    assert at_standard(spec) == (spec, spec.timing)


def test_a_standard_of_unknown_points_or_too_short_is_refused(document: dict[str, Any], tmp_path: Path) -> None:
    document["arms"][1]["neighbours"] |= {"come": 0.5, "go": 1.9}
    document["standard"] = {"warmup": 1.0, "duration": 1.5, "loads": ["fast"], "networks": ["big"], "arms": ["s9"]}
    with pytest.raises(SpecError) as caught:
        load(document, tmp_path)
    said = "\n".join(caught.value.problems)
    for part in ("loads: fast", "networks: big", "arms: s9", "standard.duration: 1.5: accepted is from 1.9 on"):
        assert part in said


def test_those_that_are_named_come_before_all_others() -> None:
    found = [spec.name for spec in catalogue.find_all(("fig_8", "all"))]
    assert found[0] == "fig_8"
    assert sorted(found) == sorted(catalogue.names())


def test_the_list_has_the_standards_estimates() -> None:
    hours = {}
    for length in ((), ("--standard", "--paper-size")):
        said = CliRunner().invoke(command, ["list", *length], catch_exceptions=False).output
        hours[length] = float(said.rpartition("all: about ")[2].split()[0])
    assert hours["--standard", "--paper-size"] <= PAPERS_HOURS + OWN_HOURS < hours[()]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "fig_8", "--standard", "--smoke"], "--standard and --smoke exclude each other"),
        (["run", "fig_8", "--smoke", "--seed", "2"], "--seed and --smoke exclude each other"),
        (["run", "fig_8", "--smoke", "--repeats", "4"], "--repeats and --smoke exclude each other"),
        (
            ["run", "laws", "--standard", "--load", "saturating"],
            "laws: there is no load 'saturating': accepted are fixed",
        ),
        (["report", "--excerpt", "kept"], "--excerpt needs one run's folder"),
    ],
)
def test_what_does_not_go_together_is_said(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = CliRunner().invoke(command, words)
    assert not list(tmp_path.iterdir())
    assert outcome.exit_code != 0
    assert said in outcome.output


@pytest.fixture
def run(plan: Plan, tmp_path: Path) -> Path:
    store = Store(tmp_path / "run" / "toy")
    filled(store, plan, [row(100, 50, 100), row(100, 1, 1, steal=20.0)])
    (store.folder(1) / "samples.csv").write_text("x" * 1000)
    return tmp_path / "run"


@pytest.mark.slow
def test_an_excerpt_has_every_value_and_the_page_but_no_samples(run: Path, tmp_path: Path) -> None:
    page = write_excerpt(run, tmp_path / "kept")
    assert "A toy" in page.read_text()
    assert Store(page.parent / "toy").repeats() == Store(run / "toy").repeats()
    assert list(page.parent.glob("toy/pictures/*.svg"))
    assert not list(page.parent.rglob("samples.csv"))


@pytest.mark.slow
def test_an_excerpt_replaces_the_one_before_and_nothing_else(run: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    write_excerpt(run, kept)
    (kept / "old").mkdir()
    write_excerpt(run, kept)
    assert not (kept / "old").exists()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "file").write_text("mine")
    with pytest.raises(LabError, match="work/file is no part of a run's excerpt: accepted is a new or empty"):
        write_excerpt(run, tmp_path / "work")
    assert (tmp_path / "work" / "file").read_text() == "mine"


@pytest.mark.parametrize("file", ["toy/repeats/1/samples.csv", "toy/repeats/1/alone/load.json", "result.json"])
def test_an_excerpt_replaces_no_full_run(plan: Plan, run: Path, tmp_path: Path, file: str) -> None:
    other = tmp_path / "other"
    filled(Store(other / "toy"), plan, [row(100, 50, 100)])
    (other / file).parent.mkdir(exist_ok=True)
    for name in ("report.html", file):
        (other / name).write_text("mine")
    with pytest.raises(LabError, match=f"other/{file} is no part of a run's excerpt"):
        write_excerpt(run, other)
    assert [(other / name).read_text() for name in ("report.html", file)] == ["mine"] * 2


@pytest.mark.parametrize("to", [".", "..", "../run", "kept", "toy/kept"])
def test_an_excerpt_is_written_neither_into_its_run_nor_around_it(
    run: Path, to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run)
    (run / "toy" / "repeats" / "1" / "samples.csv").unlink()  # nothing but what an excerpt has, too
    (run / "report.html").write_text("mine")
    before = sorted(run.rglob("*"))
    said = CliRunner().invoke(command, ["report", str(run), "--excerpt", to])
    assert (said.exit_code, "accepted is a folder that is neither the run's" in said.stderr) == (1, True), said.output
    assert sorted(run.rglob("*")) == before


@pytest.mark.slow
def test_an_excerpt_that_is_too_large_is_refused_and_leaves_the_one_before(run: Path, tmp_path: Path) -> None:
    before = write_excerpt(run, tmp_path / "kept").read_text()
    with pytest.raises(LabError, match=r"would take 0\.\d MB: at most 0\.01 MB are accepted"):
        write_excerpt(run, tmp_path / "kept", most=0.01)
    assert (tmp_path / "kept" / "report.html").read_text() == before
    assert not list(tmp_path.glob(".kept*"))


@pytest.mark.slow
def test_an_interruption_leaves_the_excerpt_before(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, rename = tmp_path / "kept", Path.rename
    before = write_excerpt(run, kept).read_text()

    def interrupted(path: Path, target: Path) -> Path:
        if path.name == ".kept.excerpt-new":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_excerpt(run, kept)
    assert (kept / "report.html").read_text() == before
    assert sorted(path.name for path in tmp_path.iterdir() if "kept" in path.name) == ["kept"]


@pytest.mark.slow
def test_a_copy_beside_an_excerpt_is_the_user_s(run: Path, tmp_path: Path) -> None:
    write_excerpt(run, tmp_path / "kept")
    for name in ("kept.before", "kept.new"):
        shutil.copytree(tmp_path / "kept", tmp_path / name)
    write_excerpt(run, tmp_path / "kept")
    assert all((tmp_path / name / "report.html").exists() for name in ("kept.before", "kept.new"))


def test_what_a_killed_call_has_put_aside_is_put_back(plan: Plan, tmp_path: Path) -> None:
    filled(Store(tmp_path / "run" / "toy"), plan, [])
    (tmp_path / ".kept.excerpt-before").mkdir()
    (tmp_path / ".kept.excerpt-before" / "report.html").write_text("mine")
    with pytest.raises(LabError, match="no finished repeat"):
        write_excerpt(tmp_path / "run", tmp_path / "kept")
    assert (tmp_path / "kept" / "report.html").read_text() == "mine"


def test_a_run_without_a_finished_repeat_has_no_excerpt(plan: Plan, tmp_path: Path) -> None:
    filled(Store(tmp_path / "run" / "toy"), plan, [])
    with pytest.raises(LabError, match="no finished repeat"):
        write_excerpt(tmp_path / "run", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_a_run_without_a_finished_repeat_has_no_report(plan: Plan, tmp_path: Path) -> None:
    filled(Store(tmp_path / "run" / "toy"), plan, [])
    said = CliRunner().invoke(command, ["report", str(tmp_path / "run")])
    assert (said.exit_code, said.stderr.strip()) == (
        1,
        f"Error: {tmp_path}/run has no finished repeat: there is nothing to draw",
    )


def test_a_run_without_a_finished_repeat_is_no_error_of_all_runs(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was interrupted early leaves its folder."""
    monkeypatch.chdir(tmp_path)
    filled(Store(tmp_path / "results" / "experiments" / "run" / "toy"), plan, [])
    said = CliRunner().invoke(command, ["report"])
    assert (said.exit_code, said.stderr) == (0, "")


def test_a_run_whose_metrics_are_not_known_any_more_does_not_hide_the_others(plan: Plan, tmp_path: Path) -> None:
    """A run of an earlier version may have them."""
    for name in ("bygone", "run"):
        filled(Store(tmp_path / name / "toy"), plan, [row(100, 50, 100)])
    noted = tmp_path / "bygone" / "toy" / "run.json"
    document = json.loads(noted.read_text())
    document["spec"]["figures"] = [{"kind": "time", "title": "In figures", "metrics": ["bygone"]}]
    noted.write_text(json.dumps(document))
    said = CliRunner().invoke(command, ["report", str(tmp_path / "bygone"), str(tmp_path / "run")])
    assert (said.exit_code, said.stderr.strip()) == (
        1,
        f"Error: {tmp_path}/bygone cannot be drawn by this version, which does not know 'bygone'",
    )
    assert (tmp_path / "run" / "report.html").exists()
    kept = CliRunner().invoke(command, ["report", str(tmp_path / "bygone"), "--excerpt", str(tmp_path / "kept")])
    assert (kept.exit_code, kept.stderr) == (1, said.stderr)


def test_what_is_kept_of_the_experiments_can_be_replaced() -> None:
    """As `make experiments` does in the end, which replaces no folder that holds something else."""
    assert something_else(Path(__file__).parents[2] / "docs" / "experiments") is None
