"""The report and the index, from results as a run leaves them; no figure is judged here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from toy_experiment import HOST, figures, filled, load, row
from waiting import PATIENCE

from qioi.experiment.charts import lines
from qioi.experiment.errors import SpecError
from qioi.experiment.index import write_index
from qioi.experiment.page import write_report
from qioi.experiment.plan import Plan, make_plan
from qioi.experiment.store import Store
from qioi.experiment.summary import Summary

pytestmark = pytest.mark.slow  # each draws a report with all of its pictures


class Page(HTMLParser):
    """Gathers what a page refers to, and what it says."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.folder = path.parent
        self.files: list[str] = []
        self.text = ""
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.files += [
            str(value) for key, value in attrs if key in {"src", "href"} and not str(value).startswith(("#", "data:"))
        ]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def report(plan: Plan, tmp_path: Path) -> Path:
    filled(
        Store(tmp_path / "run" / "toy"), plan, [row(100, 50, 100), row(100, 1, 1, steal=20.0), *[row(100, 50, 100)] * 2]
    )
    return write_report(tmp_path / "run")


def test_a_report_shows_every_figure_and_the_paper_beside_ours(report: Path) -> None:
    page = Page(report)
    for text in ("A toy", "Does it work?", "+20 %", "agrees", "1.20x", "2.0x (2.0x .. 2.0x)", "In figures", "a <CPU>"):
        assert text in page.text
    assert "Repeat 2 was too noisy, left out of medians" in page.text
    assert len([name for name in page.files if name.endswith(".svg")]) == 4
    for name in page.files:
        assert (page.folder / name).stat().st_size > 100
    pictures = page.folder / "toy" / "pictures"
    assert len(list(pictures.glob("*.png"))) == len(list(pictures.glob("*.svg"))) == 4
    assert all(file.read_text().lstrip().startswith("<?xml") for file in pictures.glob("*.svg"))


def test_a_report_that_is_drawn_again_has_the_same_pictures(report: Path) -> None:
    pictures = sorted((report.parent / "toy" / "pictures").iterdir())
    before = [file.read_bytes() for file in pictures]
    write_report(report.parent)
    assert [file.read_bytes() for file in pictures] == before


def test_panels_over_time_are_named_and_their_shades_explained(report: Path) -> None:
    drawn = (report.parent / "toy" / "pictures" / "4-time.svg").read_text()
    for text in ("alone", "1 sysbench", "1 sysbench, QiOi", "seconds", "warm-up", "CPU shares by role"):
        assert f">{text}<" in drawn
    assert ">ledger<" not in drawn  # the only curve of its row, whose title names it


def test_bars_are_named_by_what_tells_them_apart(document: dict[str, Any], tmp_path: Path) -> None:
    """That all are of one load says the picture's title; a table over both loads names them."""
    document["loads"] = {"slow": {"title": "at leisure", "rate": 30.0}, "fast": {"title": "in haste", "rate": 60.0}}
    document["figures"] = [document["figures"][0], {**document["figures"][1], "load": "fast"}]
    plan = make_plan(load(document, tmp_path), 2)
    cells = row(100, 50, 100)
    cells |= {key.replace("slow", "fast"): replace(one, key=key.replace("slow", "fast")) for key, one in cells.items()}
    filled(Store(tmp_path / "run" / "toy"), plan, [cells])
    page = write_report(tmp_path / "run")
    drawn = (page.parent / "toy" / "pictures" / "2-bars.svg").read_text()
    assert ">1 sysbench<" in drawn
    assert "in haste" not in drawn
    assert "in haste, 1 sysbench" in Page(page).text


def test_panels_over_the_arms_share_an_axis_of_whole_neighbours(report: Path) -> None:
    drawn = (report.parent / "toy" / "pictures" / "3-lines.svg").read_text()
    assert drawn.count(">neighbours<") == 2
    assert drawn.count(">0<") == 2
    assert drawn.count(">1<") >= 2
    assert ">0.2<" not in drawn


def test_lines_over_a_logarithmic_axis_have_their_points_far_apart(document: dict[str, Any], tmp_path: Path) -> None:
    """From 10 to 1,000 on a linear one 30 would be next to 10, and have no number of its own."""
    document["figures"][2] |= {"x": "throughput", "log_x": True}
    plan = make_plan(load(document, tmp_path), 2)
    filled(Store(tmp_path / "run" / "toy"), plan, [row(1000, 10, 30)] * 3)
    write_report(tmp_path / "run")
    drawn = (tmp_path / "run" / "toy" / "pictures" / "3-lines.svg").read_text()
    for number in ("10", "30", "100", "300", "1,000"):
        assert f">{number}<" in drawn


def test_lines_over_a_metric_are_of_the_load_that_the_figure_names(document: dict[str, Any], tmp_path: Path) -> None:
    document["loads"] = {"slow": {"rate": 30.0}, "fast": {"rate": 60.0}}
    document["figures"] = [{**document["figures"][2], "x": "throughput", "load": "fast"}]
    plan = make_plan(load(document, tmp_path), 2)
    cells = {cell.key: figures(cell.key, 20.0 if cell.load_name == "slow" else 50.0) for cell in plan.cells}
    store = Store(tmp_path / "run" / "toy")
    filled(store, plan, [cells])
    summary = Summary(store)
    for axes in lines(summary, summary.spec.figures[0]).axes:
        assert [set(line.get_xdata()) for line in axes.lines] == [{50.0}]


def test_lines_over_a_metric_without_a_unit_are_named_by_its_title(document: dict[str, Any], tmp_path: Path) -> None:
    document["figures"][2] |= {"x": "clients"}
    plan = make_plan(load(document, tmp_path), 2)
    cells = {cell.key: figures(cell.key, 10.0, clients=4.0) for cell in plan.cells}
    filled(Store(tmp_path / "run" / "toy"), plan, [cells] * 3)
    write_report(tmp_path / "run")
    drawn = (tmp_path / "run" / "toy" / "pictures" / "3-lines.svg").read_text()
    assert drawn.count(">clients<") == len(document["figures"][2]["metrics"])


def test_a_logarithmic_axis_of_arms_is_refused(document: dict[str, Any], tmp_path: Path) -> None:
    document["figures"][2]["log_x"] = True
    with pytest.raises(SpecError, match="log_x is of lines over a metric"):
        load(document, tmp_path)


def test_a_ratio_of_the_paper_is_spelled_as_it_is(document: dict[str, Any], tmp_path: Path) -> None:
    document["papers"] = [
        {"what": what, "metric": "throughput", "arm": "qioi", "value": value}
        for what, value in (("slower", 11.5), ("faster", 0.026), ("a little", 0.991))
    ]
    plan = make_plan(load(document, tmp_path), 2)
    filled(Store(tmp_path / "run" / "toy"), plan, [row(100, 50, 100)] * 3)
    text = Page(write_report(tmp_path / "run")).text
    for bound in ("slower11.5x", "faster0.026x", "a little0.991x"):
        assert bound in text


def test_ratios_name_what_they_are_to(report: Path) -> None:
    page = Page(report)
    for text in ("against alone", "against 1 sysbench", "2.0x", "1.00x alone"):
        assert text in page.text


def test_goals_are_judged_and_the_summary_counts_what_may_be_trusted_alone(
    document: dict[str, Any], tmp_path: Path
) -> None:
    document["goals"] = [
        {"what": "twice the throughput", "metric": "throughput", "arm": "qioi", "least": 2.0},
        {"what": "half of the due", "metric": "neighbours.due", "arm": "qioi", "least": 60.0},
    ]
    plan = make_plan(load(document, tmp_path), 2)
    for folder, steal, counts in (("quiet", 0.0, ["3 of 3", "1 of 1", "1 of 2"]), ("noisy", 9.0, ["2 of 3", "-", "-"])):
        rows = [row(100, 50, 100), row(100, 50, 100), row(100, 60, 100, steal=steal)]
        filled(Store(tmp_path / folder / "toy"), plan, rows)
        text = Page(write_report(tmp_path / folder)).text
        assert "at least 2.0x" in text
        assert "50.0 to 100 tps" in text
        assert "not reached" in text
        assert "A toynone" + "".join(counts) in text
    assert "reached (in 2 of 3 repeats)" in Page(tmp_path / "quiet" / "report.html").text
    index = Page(write_index(tmp_path)).text
    assert index.count("1 of 2 reached") == index.count("1 of 1 sentences agree") == 1
    for trusted in ("1 of 1", "0 of 1"):
        assert trusted in index


def test_when_a_run_was_gone_on_with_is_said(report: Path, plan: Plan) -> None:
    store = Store(report.parent / "toy")
    last = store.folder(plan.repeats)
    aside = last.rename(report.parent / "aside")
    store.resume(plan, {}, {**HOST, "at": "later", "versions": {"commit": "abc"}})
    aside.rename(last)
    assert "later (commit abc)" in Page(write_report(report.parent)).text


def test_what_experiments_do_not_share_of_their_hosts_each_says_itself(report: Path) -> None:
    later = report.parent / "later"
    shutil.copytree(report.parent / "toy", later)
    run = json.loads((later / "run.json").read_text())
    run["host"] |= {"at": "then", "kernel": "7.1", "versions": {"qioi": "0", "commit": "fb2d628f"}}
    (later / "run.json").write_text(json.dumps(run))
    head, *sections = write_report(report.parent).read_text().split("<section")
    for said, where in (
        ("a &lt;CPU&gt;, 2 cores", [True, False, False]),
        ("qioi: 0", [True, False, False]),
        ("Linux 6.18", [False, True, False]),
        ("<dd>now</dd>", [False, True, False]),
        ("Linux 7.1", [False, False, True]),
        ("then (commit fb2d628f)", [False, False, True]),
    ):
        assert [said in part for part in (head, *sections)] == where, said


def test_a_maximum_that_was_found_on_a_busy_machine_is_said(report: Path) -> None:
    store = Store(report.parent / "toy")
    store.keep("probe_noise", {"tiny": []})
    assert "may be too low" not in Page(write_report(report.parent)).text
    store.keep("probe_noise", {"tiny": ["processes outside the lab used 54.5 % of the machine (accepted: 5 %)"]})
    said = Page(write_report(report.parent)).text
    assert "maximum of tiny, and T, may be too low: while it was looked for processes outside the lab used" in said


def test_what_disturbed_whom_is_said_in_the_words_of_the_tables(report: Path) -> None:
    assert "Repeat 2 was too noisy, left out of medians: alone: the hypervisor gave 20.0 %" in Page(report).text


def test_in_how_many_repeats_there_was_a_latency_is_said(document: dict[str, Any], tmp_path: Path) -> None:
    """Beside neighbours the ledger is starved in two of three: the one latency left is no median of three."""
    document["goals"] = [{"what": "no slower", "metric": "p95", "arm": "s1", "most": 1.3}]
    document["papers"] = [{"what": "slower", "metric": "p95", "arm": "s1", "value": 1.0}]
    rows = [row(100, 50, 100) for _ in range(3)]
    for cells in rows[1:]:
        del cells["tiny.slow.s1"].metrics["p95"]
    filled(Store(tmp_path / "run" / "toy"), make_plan(load(document, tmp_path), 2), rows)
    said = Page(write_report(tmp_path / "run")).text
    assert "10.01.00x (in 1 of 3)in 1 of 3" in said
    assert "1.00x in 1 of 3" in said
    assert "not reached (in 1 of 3 repeats)" in said


def test_what_tenants_are_owed_is_said(document: dict[str, Any], tmp_path: Path) -> None:
    document["networks"]["tiny"]["channels"] = ["alpha", "beta"]
    tenants = {"alpha": {"part": 0.3, "threshold": 0.3}, "beta": {"part": 0.3, "threshold": 0.15}}
    document["loads"] = {"slow": {"title": "two", "tenants": tenants}}
    store = Store(tmp_path / "run" / "toy")
    filled(store, make_plan(load(document, tmp_path), 2), [row(100, 50, 100)])
    assert "owed" not in Page(write_report(tmp_path / "run")).text
    store.keep("maxima", {"tiny": 1000.0})
    said = Page(write_report(tmp_path / "run")).text
    assert "two; alpha: 300 tps offered, 300 owed; beta: 300 tps offered, 150 owed (maximum found" in said


@pytest.mark.parametrize(
    ("of", "owed"),
    [
        ("first", "two; alpha: 500 tps offered, 200 owed (maximum found"),
        ("own", "two; Tiny: alpha: 500 tps offered, 200 owed; Small: alpha: 200 tps offered, 80 owed (maximum found"),
    ],
)
def test_tenants_of_two_networks_are_owed_parts_of_the_maximum_that_counts(
    document: dict[str, Any], tmp_path: Path, of: str, owed: str
) -> None:
    document["networks"]["tiny"] |= {"channels": ["alpha"], "title": "Tiny"}
    document["networks"]["tiny2"] = {**document["networks"]["tiny"], "title": "Small"}
    document["loads"] = {"slow": {"title": "two", "tenants": {"alpha": {"part": 0.5, "threshold": 0.2}}, "of": of}}
    document["figures"] = document["figures"][:1]
    plan = make_plan(load(document, tmp_path), 2)
    store = Store(tmp_path / "run" / "toy")
    filled(store, plan, [{cell.key: figures(cell.key, 100) for cell in plan.cells}])
    store.keep("maxima", {"tiny": 1000.0, "tiny2": 400.0})
    assert owed in Page(write_report(tmp_path / "run")).text


def test_a_run_that_cannot_be_read_does_not_hide_the_others(report: Path) -> None:
    shutil.copytree(report.parent, report.parent.with_name("spoilt"))
    (report.parent.with_name("spoilt") / "toy" / "run.json").write_text("[]")
    page = Page(write_index(report.parent.parent))
    assert page.files == ["run/report.html", "spoilt/report.html"]
    assert "not readable" in page.text
    assert page.text.count("1 of 1 sentences agree") == 1


def test_a_run_that_was_shortened_says_so(document: dict[str, Any], tmp_path: Path) -> None:
    document["timing"] = {"warmup": 15.0, "duration": 25.0}
    document["loads"] = {"slow": {"part": 0.6}}
    spec = load(document, tmp_path)
    said = []
    for name, warmup in (("own", 15.0), ("short", 5.0)):
        plan = make_plan(spec, 2, timing=spec.timing.model_copy(update={"warmup": warmup}))
        filled(Store(tmp_path / name / "toy"), plan, [row(100, 50, 100)])
        said.append(Page(write_report(tmp_path / name)).text)
    assert "15 s warm-up left out, 25 s measured\n" in said[0]
    assert "5 s warm-up left out, 25 s measured (the experiment's own: 15 s, 25 s)" in said[1]
    backlog = "The window begins 3.5 s after the neighbours' coming, not 12"
    assert (backlog in said[0], backlog in said[1]) == (False, True)


def test_a_lost_repeat_is_said(report: Path) -> None:
    store = Store(report.parent / "toy")
    store.keep("lost", ["0 samples in a window of 20 s"])
    assert "A repeat was lost: 0 samples in a window of 20 s" in Page(write_report(report.parent)).text


def test_a_smoke_run_says_that_it_means_nothing(plan: Plan, tmp_path: Path) -> None:
    smoke = make_plan(plan.spec, 2, smoke=True)
    filled(Store(tmp_path / "run" / "toy"), smoke, [row(100, 50, 100)])
    page = Page(write_report(tmp_path / "run"))
    assert "A smoke run" in page.text
    assert "A toynonesmoke-" in page.text
    assert "agrees (not trusted)" in page.text


def test_an_experiment_without_a_finished_repeat_waits(plan: Plan, tmp_path: Path) -> None:
    filled(Store(tmp_path / "run" / "toy"), plan, [])
    assert "A toy" not in Page(write_report(tmp_path / "run")).text


def test_the_index_lists_every_run(report: Path) -> None:
    shutil.copytree(report.parent, report.parent.with_name("second"))
    file = report.parent.with_name("second") / "toy" / "run.json"
    file.write_text(file.read_text().replace('"at": "now"', '"at": "2026-11-21T22:00:00Z"'))
    page = Page(write_index(report.parent.parent))
    # When a run was begun counts, not when its page was last drawn.
    assert page.files == ["run/report.html", "second/report.html"]
    assert "2026-11-21 22:00:00" in page.text
    assert page.text.count("1 of 1 sentences agree") == 2


def test_the_index_counts_experiments_that_were_begun_only(report: Path, plan: Plan) -> None:
    filled(Store(report.parent / "second"), plan, [])
    assert "1 of 2" in Page(write_index(report.parent.parent)).text


def test_the_index_finds_a_run_whatever_its_name(report: Path) -> None:
    shutil.move(report.parent, report.parent.with_name("try#2 of 5%"))
    assert Page(write_index(report.parent.parent)).files == ["try%232%20of%205%25/report.html"]


DRAWN = """
import sys
from pathlib import Path
from qioi.experiment.index import write_index
from qioi.experiment.page import write_report
write_report(Path(sys.argv[1]))
write_index(Path(sys.argv[1]).parent)
"""


def test_pages_are_in_utf_8_as_they_say_whatever_the_locale(report: Path) -> None:
    file = report.parent / "toy" / "run.json"
    file.write_text(file.read_text().replace('"6.18"', r'"6.18-\u00fc"'))
    plain = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    command = [sys.executable, "-c", DRAWN, str(report.parent)]
    done = subprocess.run(command, env=plain, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    for page in (report, report.parent.parent / "index.html"):
        assert "Linux 6.18-ü" in page.read_text(encoding="utf-8")


PROBE = """<script>addEventListener("load", () => {
  const all = [...document.images], good = all.filter(one => one.complete && one.naturalWidth > 100);
  document.body.dataset.pictures = `${good.length} of ${all.length}`;
  document.body.dataset.wide = document.documentElement.scrollWidth <= innerWidth;
})</script></body>"""


@pytest.mark.slow
@pytest.mark.host
def test_a_browser_draws_every_picture_and_complains_of_nothing(report: Path) -> None:
    chromium = shutil.which("chromium")
    assert chromium, "chromium is not installed: `apt-get install chromium` brings it"
    for page, pictures in ((report, "4 of 4"), (write_index(report.parent.parent), "0 of 0")):
        probed = page.with_name(f"probed-{page.name}")
        probed.write_text(page.read_text().replace("</body>", PROBE))
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1200,900")
        profile = f"--user-data-dir={page.parent / 'profile'}"
        command = [chromium, *flags, profile, "--dump-dom", probed.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        assert f'data-pictures="{pictures}"' in done.stdout
        assert 'data-wide="true"' in done.stdout
        assert [line for line in done.stderr.splitlines() if ":CONSOLE" in line] == []


@pytest.mark.parametrize("log", [False, True])
def test_kinds_of_operations_are_shown_as_boxes(document: dict[str, Any], tmp_path: Path, log: bool) -> None:
    document["figures"] = [{"kind": "boxes", "title": "Kinds", "metrics": ["kind.get", "kind.insert"], "log": log}]
    plan = make_plan(load(document, tmp_path), 2)
    cells = row(100, 50, 100)
    parts = {f"kind.get.{part}": float(number) for number, part in enumerate(("min", "p25", "p50", "p75", "max"), 11)}
    key = "tiny.slow.alone"
    cells[key] = replace(cells[key], metrics={**cells[key].metrics, **parts})
    filled(Store(tmp_path / "run" / "toy"), plan, [cells])
    write_report(tmp_path / "run")
    (drawn,) = (tmp_path / "run" / "toy").glob("**/1-boxes.svg")
    text = drawn.read_text()
    assert "get, ms" in text
    assert "insert, ms" in text
    assert text.count(">none<") == 5  # of the six boxes, five kinds had no operation
    assert "mathdefault" not in text
