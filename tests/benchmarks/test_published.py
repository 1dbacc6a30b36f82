"""Published figures: documents hold what their data say, and say when the code has changed since."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
from pathlib import Path

import pytest
from laws_figures import Row as LawRow
from laws_figures import accounts, load_rows, table
from publish import VISITS, pictured
from published import code, pictures, record
from published.documents import Drawer, as_written, verdict
from published.pieces import PIECES, Piece
from published.readers import laws
from published.record import Code, Row
from published.visits import VisitDrawer
from toy_record import SPEED, made

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs" / "figures" / "data"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
#: The piece whose record ``made`` gives.
LAB = Piece("lab", "the lab", ("bench_laws.py",), (".",), 1, laws)


def drawn(repository: Path, text: str, **changed: object) -> str:
    return Drawer(repository, {"lab": made(repository, **changed)}, [LAB]).draw(text, "page.md")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_documents_say_what_their_data_say(document: Path) -> None:
    records = record.load_all(DATA)
    text = document.read_text()
    for drawer in (Drawer(ROOT, records, PIECES), VisitDrawer(records, VISITS)):
        assert drawer.draw(text, document.name) == text, "make figures draws it anew"


def test_pictures_are_of_their_data() -> None:
    stale = [file for file, current, _ in pictured(record.load_all(DATA)) if not current]
    assert stale == [], "make figures draws them anew"


@pytest.mark.parametrize(
    ("figure", "bounds", "said"),
    [
        ("1.10x (1.00x .. 1.30x)", {"most": "1.10"}, ", reached"),
        ("1.11x (1.00x .. 1.30x)", {"most": "1.10"}, ", **missed**"),
        ("0.98x", {"least": "1", "most": "1.15"}, ", **missed**"),
        ("1,100 ms, - in 1 of 3", {"least": "1000"}, ", reached"),
        ("100 % (98 % .. 101 %)", {"least": "100"}, ", reached"),
        ("-", {"most": "1"}, ""),
        ("1.10x", {}, ""),
        ("under 0.01x", {"most": "0.5"}, ", reached"),
    ],
)
def test_a_goal_is_reached_by_the_median_as_it_is_written(figure: str, bounds: dict[str, str], said: str) -> None:
    value = None if figure == "-" else as_written(figure)
    assert verdict(value, {key: [float(one)] for key, one in bounds.items()}, "page.md") == said


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ("most=1.10,hand", "1.08x, reached"),
        ("most=1.10,ahead", "1.08x, **missed**"),
        ("most=1.05,hand", "1.08x, **missed**"),
        ("most=hand", "1.08x, reached"),
        ("most=as-well", "1.08x, reached"),
        ("least=1,ahead most=1.10", "1.08x, reached"),
        ("most=1.10,stalled", "1.08x"),
    ],
)
def test_a_goal_may_be_another_row(repository: Path, bounds: str, said: str) -> None:
    figures = {"qioi": 1.08, "hand": 1.09, "ahead": 1.07, "as-well": 1.0799, "stalled": None}
    rows = tuple(Row(key, key, {"slower": (value,)}) for key, value in figures.items())
    text = f"<!-- figure lab qioi slower {bounds} --><!-- /figure -->"
    assert drawn(repository, text, rows=rows, left_out=()) == text.replace("--><!--", f"-->{said}<!--")


def test_a_goal_of_a_row_that_there_is_not_is_said(repository: Path) -> None:
    with pytest.raises(ValueError, match=r"page\.md: lab has no row 'hand', but alone, qioi"):
        drawn(repository, "<!-- figure lab qioi slower most=1.10,hand --><!-- /figure -->")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((1.1, 1.1, 1.1), "1.10x, reached<"),
        ((None, 1.1, 1.1), "1.10x, - in 1 of 3, reached<"),
        ((None, 1.1), "1.10x, - in 1 of 2<"),
        ((None, None, 1.1), "1.10x, - in 2 of 3<"),
    ],
)
def test_a_goal_is_judged_where_most_repeats_have_a_value(
    repository: Path, values: tuple[float | None, ...], said: str
) -> None:
    rows = (Row("qioi", "qioi", {"slower": values}),)
    text = "<!-- figure lab qioi slower most=1.3 --><!-- /figure -->"
    assert f">{said}" in drawn(repository, text, rows=rows, left_out=())


def test_a_goal_says_how_many_repeats_judge_it(repository: Path) -> None:
    text = "<!-- figure lab qioi tps least=2000 -->old<!-- /figure -->"
    rows = (Row("qioi", "qioi", {"tps": (1000, 1000)}),)
    assert ">1,000, **missed** by 1 of 2 repeats<" in drawn(repository, text, rows=rows)
    assert ">1,000, **missed**<" in drawn(repository, text, rows=rows, left_out=())


def test_a_single_figure_with_a_bound_that_there_is_not(repository: Path) -> None:
    with pytest.raises(ValueError, match=r"page\.md: about: a figure's bounds are least and most"):
        drawn(repository, "<!-- figure lab qioi tps about=3 -->old<!-- /figure -->")
    assert drawn(repository, "<!-- figure lab qioi tps least=2000 -->old<!-- /figure -->", left_out=()).endswith(
        ", **missed**<!-- /figure -->"
    )


def test_a_table_has_the_rows_and_columns_that_its_mark_asks_for(repository: Path) -> None:
    text = "<!-- figures lab rows=qioi columns=slower,tps -->\nold\n<!-- /figures -->\n"
    lines = drawn(repository, text).splitlines()
    assert lines[1:4] == [
        "| | p95 to alone | tps |",
        "| --- | --- | --- |",
        "| 16 sysbench, QiOi | 1.10x, - in 1 of 2 | 1,000 (999 .. 1,001) |",
    ]
    assert "Measured on `0123456789`, 2026-11-22, by `python benchmarks/bench_laws.py`. 2 cores, Linux 6.18" in lines[5]
    assert "P-256 verification 49 us" in lines[5]
    assert "repeat 2 is left out: others used the machine." in lines[5]


def test_a_figure_stands_in_its_line(repository: Path) -> None:
    text = "It does <!-- figure lab alone tps --><!-- /figure --> in the lab."
    assert (
        drawn(repository, text) == "It does <!-- figure lab alone tps -->995 (990 .. 1,000)<!-- /figure --> in the lab."
    )


def test_a_repeat_without_a_value_is_said_and_in_no_median(repository: Path) -> None:
    rows = (Row("qioi", "qioi", {"tps": (0.0, 7.0, 2.0), "slower": (None, 9.0, 1.5)}), Row("bare", "bare", {}))
    text = "<!-- figures lab rows=qioi columns=tps,slower -->\n<!-- /figures -->\n"
    assert "| qioi | 1 (0 .. 2) | 1.50x, - in 1 of 2 |" in drawn(repository, text, rows=rows)
    lone = "<!-- figure lab bare slower --><!-- /figure -->"
    assert ">-<" in drawn(repository, lone, rows=rows)


def test_pictures_say_which_repeats_have_no_value(repository: Path, tmp_path: Path) -> None:
    rows = (
        Row("alone", "alone", {"slower": (1.0, 1.0, 1.0)}),
        Row("some", "some", {"slower": (None, 9.0, 31.5)}),
        Row("none", "none", {"slower": (None, 9.0, None)}),
    )
    picture = pictures.Picture("x.svg", "lab", ("alone", "some", "none"), (("slower", "p95, to alone"),), "some")
    pictures.draw(picture, made(repository, rows=rows), tmp_path)
    words = re.findall(r">([^<>\n]+)</text>", (tmp_path / "x.svg").read_text())
    assert {"p95, to alone", "1.00x", "32x, - in 1 of 2", "-"} <= set(words)


def test_a_picture_is_current_while_its_record_and_what_is_drawn_of_it_stay(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = pictures.Picture("x.svg", "lab", ("alone", "qioi"), (("slower", "p95, to alone"),), "qioi")
    its, file = made(repository), tmp_path / "x.svg"
    assert not pictures.is_current(file, picture, its)
    pictures.draw(picture, its, tmp_path)
    assert pictures.is_current(file, picture, its)
    assert not pictures.is_current(file, picture, made(repository, date="2026-11-23"))
    assert not pictures.is_current(file, picture._replace(rows=("qioi", "alone")), its)
    assert not pictures.is_current(file, picture._replace(columns=(("tps", "tps"),)), its)
    monkeypatch.setattr(pictures, "DRAWING", 0)
    assert not pictures.is_current(file, picture, its)


def test_a_window_without_a_commit_is_a_row_without_latencies(tmp_path: Path) -> None:
    def row(repeat: int, condition: str, tps: float, p95: float | None) -> LawRow:
        count = 0 if condition == "alone" else 16
        return LawRow(
            "fixed", count, repeat, condition, tps, p95, p95, p95, 0, 0.2, 1.0, 0.2, 0, 1.2, 80.0, 100.0, 0, 18, 0, 0.0
        )

    for one in (
        row(1, "alone", 100, 50),
        row(1, "nothing", 0, None),
        row(2, "alone", 100, 50),
        row(2, "nothing", 9, 90),
    ):
        file = tmp_path / f"fixed-{one.sysbench}-repeat{one.repeat}" / one.condition / "row.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(dataclasses.asdict(one)))
    (tmp_path / "laws.json").write_text(json.dumps({"machine": {"cores": 2}}))
    _, stalled = laws([tmp_path], [SPEED]).rows
    assert (stalled.values["tps"], stalled.values["throughput"]) == ((0, 9), (0, 0.09))
    assert (stalled.values["p95"], stalled.values["slower"]) == ((None, 90), (None, 1.8))
    text = table(load_rows(tmp_path), 2) + accounts(load_rows(tmp_path), 2)
    assert (
        "| 4 (0 .. 9) | 4 % (0 % .. 9 %) | 90.0 ms, - in 1 of 2 | 90.0 ms, - in 1 of 2 | 1.80x, - in 1 of 2 |" in text
    )
    assert "| 111.11 ms, - in 1 of 2 |" in text


def test_drawing_again_changes_nothing(repository: Path) -> None:
    text = "<!-- figures lab -->\n<!-- /figures -->\n<!-- figure lab qioi slower -->?<!-- /figure -->\n"
    once = drawn(repository, text)
    assert drawn(repository, once) == once


def test_a_table_says_when_its_code_has_changed_since(repository: Path) -> None:
    text = "<!-- figures lab -->\n<!-- /figures -->\n"
    its = made(repository)
    assert "changed since" not in Drawer(repository, {"lab": its}, [LAB]).draw(text, "page.md")
    (repository / "law.py").write_text("step = 2\n")
    subprocess.run(["git", "-C", str(repository), "add", "-A"], check=True)
    assert "**its code has changed since**" in Drawer(repository, {"lab": its}, [LAB]).draw(text, "page.md")


def test_a_table_says_which_fabric_it_is_of(repository: Path) -> None:
    text = "<!-- figures lab -->\n<!-- /figures -->\n"
    assert "Measured on `0123456789` and Fabric v2.5.16, 2026-11-22, by" in drawn(
        repository, text, beside="Fabric v2.5.16"
    )


def test_a_table_says_so_too_when_its_piece_depends_on_more_code(repository: Path) -> None:
    text = "<!-- figures lab -->\n<!-- /figures -->\n"
    its = made(repository, code=Code(("law.py",), code.digest(repository, ["law.py"])))
    (repository / "other.py").write_text("more = 1\n")
    subprocess.run(["git", "-C", str(repository), "add", "-A"], check=True)
    less, more = (LAB._replace(code=paths) for paths in (("law.py",), ("law.py", "other.py")))
    assert "changed since" not in Drawer(repository, {"lab": its}, [less]).draw(text, "page.md")
    assert "changed since" in Drawer(repository, {"lab": its}, [more]).draw(text, "page.md")


def test_a_table_says_so_too_when_its_piece_is_measured_by_another_command(repository: Path) -> None:
    text = "<!-- figures lab -->\n<!-- /figures -->\n"
    its = made(repository)
    piece = LAB._replace(arguments=("bench_laws.py", "--busy", "60"))
    assert "; **its command has changed since**. 2 cores" in Drawer(repository, {"lab": its}, [piece]).draw(
        text, "page.md"
    )
    its = made(repository, code=Code((".",), "another"))
    assert "; **its code and its command have changed since**. 2" in Drawer(repository, {"lab": its}, [piece]).draw(
        text, "page.md"
    )


def test_words_and_tests_are_no_code(repository: Path) -> None:
    before = code.digest(repository, ["."])
    (repository / "notes.md").write_text("other words\n")
    (repository / "law_test.go").write_text("package law\n")
    subprocess.run(["git", "-C", str(repository), "add", "-A"], check=True)
    assert code.digest(repository, ["."]) == before


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<!-- figures other -->\n<!-- /figures -->\n", "no record 'other'; there are lab"),
        ("<!-- figures lab rows=nobody -->\n<!-- /figures -->\n", "lab has no row 'nobody', but alone, qioi"),
        ("<!-- figure lab alone speed -->1<!-- /figure -->", "lab has no column 'speed', but tps, slower"),
        ("<!-- figures lab -->\n| old |\n", "1 marks of figures make 0 pairs"),
        ("<!-- figure lab alone -->1<!-- /figure -->", "2 marks of figures make 0 pairs"),
    ],
)
def test_what_cannot_be_drawn_is_said_with_its_document(repository: Path, text: str, problem: str) -> None:
    with pytest.raises(ValueError, match="page") as raised:
        drawn(repository, text)
    assert problem in str(raised.value)


def test_a_piece_without_data_is_said_to_be_missing(repository: Path) -> None:
    drawer = Drawer(repository, {}, [LAB])
    text = "<!-- figures lab rows=qioi -->\n| old |\n<!-- /figures -->\n<!-- figure lab qioi tps -->1<!-- /figure -->\n"
    found = drawer.draw(text, "page.md")
    assert found == text.replace("| old |", "Not measured yet.").replace(">1<", ">not measured<")
    assert drawer.draw(found, "page.md") == found


def test_a_record_is_read_as_it_was_written(repository: Path, tmp_path: Path) -> None:
    its = made(repository)
    assert record.load(record.save(its, tmp_path / "data")) == its


@pytest.mark.parametrize("content", ["{", '{"name": "lab"}', '{"form": 2}'])
def test_a_spoilt_record_is_refused_by_name(tmp_path: Path, content: str) -> None:
    file = tmp_path / "lab.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=r"lab\.json"):
        record.load(file)
