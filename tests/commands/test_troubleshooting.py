"""What docs/operating.md quotes is what the daemon, its commands and the alerts say, so that a search finds it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operating.md").read_text()
#: The system's own words, and a TLS alert's.
ELSEWHERE = {"Permission denied", "ALERT"}
#: A place that is filled in, of an f-string or a format.
FILLED = r"(?:\{\}|%\w)"
#: Texts that are put together of several, each with its parts; and one of which several places are filled in.
PARTS = {
    "found: nothing yet": ["^found$", "^nothing yet$"],
    "metrics of …: … CERTIFICATE_VERIFY_FAILED": ["^metrics$", r"^\{\} of \{\}$", r"^\{\}: \{\}$"],
    "own protection: nice …": [r"^own protection: \{\}", r"^nice \{\}"],
    "own protection: … real-time priority: …": [r"^own protection: \{\}", r"^real-time priority: \{\}$"],
    "writes: … foreign": [r"; writes: \{\}$", "^foreign$"],
    "writes: … failed": [r"; writes: \{\}$", "^failed$"],
    "Raised is …, since work of others runs outside of it": [
        r"^Raised is \{\} \(components in it: \{\}\), since work of others runs outside of it"
    ],
}


def rows() -> list[list[str]]:
    """Give the rows of the table of texts."""
    section = PAGE.partition("\n## When something is wrong\n")[2].partition("\n## ")[0]
    table = section.partition("| text | where | what it is, and what to do |\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[1:]]


@cache
def said() -> str:
    """Give what the code and the alerts can say, a text in each line; {} stands for what an f-string fills in."""
    folders = (ROOT / name for name in ("qioi", "controller", "monitor"))
    code = [text for folder in folders for file in folder.rglob("*.py") for text in texts(ast.parse(file.read_text()))]
    groups = yaml.safe_load((ROOT / "deploy" / "grafana" / "qioi-alerts.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    alerts = [text for rule in rules for text in (rule["alert"], *rule["annotations"].values())]
    return "\n".join(text.replace("\n", " ") for text in (*code, *alerts))


def texts(module: ast.Module) -> Iterator[str]:
    """Give a module's strings. A comment says nothing, and a docstring nothing to whom the daemon talks."""
    silent = {node.value for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in silent:
            yield node.value


def test_every_text_says_where_it_stands() -> None:
    for text, where, _ in rows():
        assert re.fullmatch(r"`[^`]+`(, `[^`]+`)*", text)
        assert set(re.sub(r" `Qioi\w+`", "", where).split(", ")) <= {"log", "status", "terminal", "check", "alert"}


@pytest.mark.parametrize("column", [0, 1])
def test_every_text_is_said_by_something(column: int) -> None:
    quoted = {text for row in rows() for text in re.findall(r"`([^`]+)`", row[column])} - ELSEWHERE
    assert len(quoted) > 5
    assert [text for text in sorted(quoted) if not all(is_said(one) for one in patterns(text))] == []


def is_said(pattern: str) -> bool:
    return re.search(pattern, said(), re.MULTILINE) is not None


def patterns(text: str) -> list[str]:
    """Give what finds a quoted text in the sources: each … stands for what is filled in."""
    return PARTS.get(text, [FILLED.join(map(re.escape, text.split("…")))])


def test_a_quote_that_nothing_says_is_found() -> None:
    assert not is_said(*patterns("… early and late"))


def test_comments_and_docstrings_say_nothing() -> None:
    module = ast.parse('"""Silent."""\n# silent\ndef f(x):\n    """Silent."""\n    return f"{x:.1f}" " s", "or so"')
    found = set(texts(module))
    assert {"{} s", "or so"} <= found
    assert not [text for text in found if "silent" in text.lower()]
