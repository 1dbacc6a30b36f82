"""What docs/operating.md quotes is what the daemon, its commands and the alerts say, so that a search finds it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operating.md").read_text()
#: The system's own words, and a TLS alert's.
ELSEWHERE = {"Permission denied", "ALERT"}
#: A place that is filled in, of an f-string or a format.
FILLED = r"(?:\{[^\n]*\}\)?|%\w)"
#: Texts that are put together of several, each with its parts.
PARTS = {
    "found: nothing yet": [r'"found": names or "nothing yet"'],
    "metrics of …: … CERTIFICATE_VERIFY_FAILED": [
        r"\['kind'\]\} of \{",
        r"\{about\}: \{source\['problem'\]\}",
        '"metrics"',
    ],
    "own protection: nice …": [r'"own protection: \{', r'"nice \{'],
    "own protection: … real-time priority: …": [r'"own protection: \{', r'"real-time priority: \{'],
    "writes: … foreign": [r"; writes: \{", r'FOREIGN = "foreign"'],
    "writes: … failed": [r"; writes: \{", r'FAILED = "failed"'],
}


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
    quoted = {text for row in rows() for text in re.findall(r"`([^`]+)`", row[column])} - ELSEWHERE
    assert len(quoted) > 5
    assert [text for text in sorted(quoted) if not all(re.search(one, said) for one in patterns(text))] == []


def patterns(text: str) -> list[str]:
    """Give what finds a quoted text in the sources: each … stands for what is filled in."""
    return PARTS.get(text, [FILLED.join(map(re.escape, text.split("…")))])


def test_a_quote_that_nothing_says_is_found() -> None:
    assert not re.search(*patterns("… early and late"), sources())
