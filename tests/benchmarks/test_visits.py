"""Earlier visits: what replaces a record keeps it, and pages show all of them."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from publish import DATA, VISITS, main
from published import record, visits
from published.record import Record
from published.visits import VisitDrawer
from toy_record import SPEED, made

TABLE = "<!-- visits lab rows={rows} columns=slower -->\n<!-- /visits -->\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "visits"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Published figures of the daemon, in a folder of their own."""
    monkeypatch.setattr("publish.ROOT", tmp_path)
    monkeypatch.setattr("publish.DATA", tmp_path / "data")
    monkeypatch.setattr("publish.VISITS", tmp_path / "visits")
    monkeypatch.setattr("publish.build_ledger", lambda _root: None)
    return tmp_path


def measure(monkeypatch: pytest.MonkeyPatch, its: Record, *options: str) -> None:
    """Have `publish.py measure` give a record."""
    monkeypatch.setattr("publish.measure", lambda *_how: its)
    done = CliRunner().invoke(main, ["measure", "--piece", "daemon", *options])
    assert done.exit_code == 0, done.output


def test_what_replaces_a_record_keeps_it(kept: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (made(repository, name="daemon", commit=name) for name in ("1", "2", "3"))
    for its in (first, second, third):
        measure(monkeypatch, its)
    assert record.load(kept / "data" / "daemon.json") == third
    assert [one.commit for one in visits.load(kept / "visits", "daemon")] == ["1", "2"]
    assert visits.load(kept / "visits", "daemon")[0].rows == first.rows
    visits.keep(second, kept / "visits")  # as where its successor could not be written
    assert [one.commit for one in visits.load(kept / "visits", "daemon")] == ["1", "2"]


def test_a_record_with_more_repeats_is_the_same_visit(
    kept: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure(monkeypatch, made(repository, name="daemon"))
    monkeypatch.setattr("publish.is_current", lambda *_what: True)
    measure(monkeypatch, made(repository, name="daemon", date="2026-11-23"), "--more")
    assert visits.load(kept / "visits", "daemon") == []


def test_the_newest_is_the_first_and_the_record_above_all(repository: Path, folder: Path) -> None:
    now = made(repository)
    fewer = tuple(replace(row, values={"tps": row.values["tps"]}) for row in now.rows)
    speed = (SPEED, dataclasses.replace(SPEED, verify_us=98.0))
    visits.keep(made(repository, commit="a", date="2026-11-20", command="python another.py", rows=fewer), folder)
    visits.keep(made(repository, commit="b", date="2026-11-21", calibration=speed), folder)
    drawn = VisitDrawer({"lab": now}, folder).draw(TABLE.format(rows="qioi"), "page.md")
    assert drawn.splitlines()[1:-1] == [
        "| visit | verification | 16 sysbench, QiOi: p95 to alone |",
        "| --- | --- | --- |",
        "| `0123456789`, 2026-11-22 | 49 us | 1.10x, - in 1 of 2 |",
        "| `b`, 2026-11-21 | 73.5 (49 .. 98) us | 1.10x, - in 1 of 2 |",
        r"| `a`, 2026-11-20 \* | 49 us | - |",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TABLE.format(rows="proportional"), "page.md: lab has no row 'proportional', but alone, qioi"),
        (TABLE.format(rows="qioi").replace("lab", "lib"), "page.md: no record 'lib'; there are lab"),
        ("<!-- visits lab rows=qioi columns=slower -->\n", "page.md: 1 marks of figures make 0 pairs"),
        ("<!-- visits lab rows=qioi -->\n<!-- /visits -->\n", "page.md: 2 marks of figures make 0 pairs"),
    ],
)
def test_what_cannot_be_drawn_is_named(repository: Path, folder: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        VisitDrawer({"lab": made(repository)}, folder).draw(text, "page.md")


def test_a_file_that_is_bad_is_named(folder: Path) -> None:
    folder.mkdir()
    (folder / "lab.json").write_text("[")
    with pytest.raises(ValueError, match=r"visits/lab\.json: "):
        visits.load(folder, "lab")


def test_pages_show_what_was_kept() -> None:
    """But for how cost grows, of which they show the newest alone."""
    shown = re.findall(r"<!-- visits ([\w-]+)", (DATA.parents[1] / "visits.md").read_text())
    assert {file.stem for file in VISITS.iterdir() if not file.stem.startswith("growth")} <= {*shown}


def test_no_visit_is_kept_twice() -> None:
    """A record that is written anew, with more repeats or other titles, is the visit that it was."""
    for name, now in record.load_all(DATA).items():
        every = [{row.key: row.values for row in one.rows} for one in (*visits.load(VISITS, name), now)]
        assert all(one not in every[:number] for number, one in enumerate(every)), name
