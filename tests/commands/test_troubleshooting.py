"""What docs/operating.md quotes is what the daemon, its commands and the alerts say, so that a search finds it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operating.md").read_text()
#: Python's and the system's own words, and click's.
ELSEWHERE = {"Permission denied", "CERTIFICATE_VERIFY_FAILED", "ALERT", "Error"}


def rows() -> list[list[str]]:
    """Give the rows of the table of texts."""
    section = PAGE.partition("\n## When something is wrong\n")[2].partition("\n## ")[0]
    table = section.partition("| text | where | what it is, and what to do |\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[1:]]


def sources() -> str:
    folders = (ROOT / name for name in ("qioi", "controller", "monitor"))
    files = [one for folder in folders for one in folder.rglob("*.py")]
    return "\n".join(one.read_text() for one in (*files, ROOT / "deploy" / "grafana" / "qioi-alerts.yaml"))


def test_every_text_says_where_it_stands() -> None:
    for text, where, _ in rows():
        assert re.fullmatch(r"`[^`]+`(, `[^`]+`)*", text)
        assert set(re.sub(r" `Qioi\w+`", "", where).split(", ")) <= {"log", "status", "terminal", "check", "alert"}


@pytest.mark.parametrize("column", [0, 1])
def test_every_text_is_said_by_something(column: int) -> None:
    said = sources()
    quoted = [text for row in rows() for text in re.findall(r"`([^`]+)`", row[column])]
    parts = {part.strip() for text in quoted for part in re.split("…|: ", text)} - ELSEWHERE - {""}
    assert len(parts) > 5
    assert [part for part in sorted(parts) if part not in said] == []
