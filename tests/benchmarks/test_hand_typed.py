"""Measured figures that are typed by hand say when, and which commit published them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
#: A commit as Git shortens it: to seven digits, or to more where there are many.
COMMIT = "`([0-9a-f]{7,40})`"
LABEL = re.compile(rf"\*(?:Taken by hand|By experiment),\s+\d{{4}}-\d\d-\d\d[^*]*{COMMIT}[^*]*\*")
#: What `make experiments` keeps, of the runs that are named as such.
KEPT = sorted((ROOT / "docs/experiments").glob("*/run.json"))
#: What `make figures` draws, which has labels of its own.
DRAWN = re.compile(r"<!-- (figures?|experiment|visits) .*?<!-- /\1 -->", re.DOTALL)
MEASURED = re.compile(r"\d (?:ms|us|s|tps|MB|%)(?!\w)|\dx\b")
TABLE = re.compile(r"((?:^\|.*\n)+)", re.MULTILINE)
#: So many rows with measured values are a table of results.
ROWS = 2
#: What a column of a table is called that has goals, settings or symptoms, and no results.
SETTINGS = {"goal", "setting", "condition", "what it needs", "what to do", "what it is, and what to do"}


def unlabelled(text: str) -> list[str]:
    """List the sections with a table of results by hand that has no label, between the tables around it."""
    found = []
    for section in re.split(r"^(?=##)", DRAWN.sub("", text), flags=re.MULTILINE):
        parts = TABLE.split(section)
        for before, table, after in zip(parts[::2], parts[1::2], parts[2::2], strict=False):
            heads = {cell.strip() for cell in table.splitlines()[0].split("|")}
            results = sum(bool(MEASURED.search(line)) for line in table.splitlines()) >= ROWS
            if results and not heads & SETTINGS and not LABEL.search(before + after):
                found.append(section.splitlines()[0])
    return found


def measured_on(text: str) -> set[str]:
    """Name the commits of a document's experiments."""
    return set(re.findall(rf"\*By experiment, [^*]*?{COMMIT}", text))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_tables_by_hand_have_a_day_and_a_commit(document: Path) -> None:
    assert unlabelled(document.read_text()) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_the_commit_of_an_experiment_is_one_of_those_that_are_kept(document: Path) -> None:
    kept = {json.loads(file.read_text())["host"]["versions"]["commit"] for file in KEPT}
    assert measured_on(document.read_text()) <= kept


def test_a_commit_may_have_more_than_seven_digits() -> None:
    commits = ("fb2d628f", "fe12fe6")
    labels = [f"*By experiment, 2026-11-26, `{commit}`*: `qioi experiment run x`." for commit in commits]
    assert measured_on("\n\n".join(labels)) == set(commits)
    assert all(LABEL.search(label) for label in labels)


def test_a_table_without_a_label_is_found_and_a_drawn_one_is_not() -> None:
    table = "| a | 5 ms |\n| b | 1.2x |\n"
    assert unlabelled(f"# Page\n## Speed\n{table}\n## More\nwords\n") == ["## Speed"]
    assert unlabelled(f"## Speed\n*Taken by hand, 2026-11-22, `0123456`.*\n\n{table}") == []
    assert unlabelled(f"## Speed\n<!-- figures lab -->\n{table}<!-- /figures -->\n") == []
    labelled = f"## Speed\n{table}\n*Taken by hand, 2026-11-22, `0123456`.*\n\nMore.\n"
    assert unlabelled(labelled) == []
    assert unlabelled(f"{labelled}\n{table}\nEven more.\n\n{table}") == ["## Speed"], "the label is of its neighbours"
    assert unlabelled("## Goals\n| | goal |\n| a | 5 ms |\n| b | 90 % |\n") == []
