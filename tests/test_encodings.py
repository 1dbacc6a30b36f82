"""Text is written and read as UTF-8, whatever the locale's encoding."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TREE = Path(__file__).parents[1]
SOURCES = ("qioi", "benchmarks", "interference", "monitor", "controller", "deploy")
#: Modules whose function `open` opens no text unless it is told to.
OTHERS = {"os", "tarfile", "zipfile", "webbrowser"}
#: Python takes the encoding of this locale, ASCII, unless it is told not to.
ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}

WRITES_PAGE = """
from pathlib import Path
from test_lab_report import HOST, arm, page
from qioi.lab.report import write_report
write_report(Path("report.html"), page(), [arm("alone", tps=500, p95=5, delay=0.02)], HOST)
"""


def test_a_page_is_written_whatever_the_locale(tmp_path: Path) -> None:
    path = os.pathsep.join(map(str, (TREE, TREE / "tests" / "lab", TREE / "tests" / "support")))
    done = subprocess.run(
        [sys.executable, "-c", WRITES_PAGE],
        cwd=tmp_path,
        env={**os.environ, **ASCII, "PYTHONPATH": path},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "“alone”" in (tmp_path / "report.html").read_bytes().decode()


def leave_it_to_the_locale(source: str) -> Iterator[str]:
    """The calls that open text without naming its encoding."""
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and opens_text(call) and not names_encoding(call):
            yield f"{call.lineno}: {ast.unparse(call)}"


def opens_text(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(attr="read_text" | "write_text"):
            return True
        case ast.Name("open") | ast.Attribute(ast.Name("os"), "fdopen") | ast.Attribute(ast.Name("io"), "open"):
            return "b" not in mode(call, 1)
        case ast.Attribute(ast.Name("gzip" | "bz2" | "lzma"), "open"):
            return "t" in mode(call, 1)
        case ast.Attribute(ast.Name(name), "open") if name in OTHERS:
            return False
        case ast.Attribute(attr="open"):  # a path's, unless what would be its mode is none
            return re.fullmatch("[rwxat+]+", mode(call, 0)) is not None
    return False


def mode(call: ast.Call, place: int) -> str:
    """The mode of a call whose argument of that place it may be; empty where only a run tells it."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    match [*named, *call.args[place : place + 1]]:
        case []:
            return "r"
        case [ast.Constant(str(text)), *_]:
            return text
    return ""


def names_encoding(call: ast.Call) -> bool:
    if any(keyword.arg == "encoding" for keyword in call.keywords):
        return True
    match call.func:
        case ast.Attribute(attr="read_text"):
            return bool(call.args)
        case ast.Attribute(attr="write_text"):
            return len(call.args) > 1
    return False


@pytest.mark.parametrize("folder", SOURCES)
def test_all_sources_name_the_encoding_of_text(folder: str) -> None:
    files = [file for file in (TREE / folder).rglob("*.py") if not any(part.is_symlink() for part in file.parents)]
    assert files
    found = [
        f"{file.relative_to(TREE)}:{one}" for file in files for one in leave_it_to_the_locale(file.read_text("utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("path.write_text(x)", True),
        ("path.write_text(x, 'utf-8')", False),
        ("(a / b).read_text(errors='replace')", True),
        ("path.read_text('ascii')", False),
        ("path.open()", True),
        ("path.open('a', newline='')", True),
        ("path.open(mode='w')", True),
        ("path.open('w', encoding='utf-8')", False),
        ("path.open('rb')", False),
        ("open(path)", True),
        ("open(path, 'rb')", False),
        ("os.fdopen(1, 'w')", True),
        ("os.open(path, 0)", False),
        ("gzip.open(path)", False),
        ("gzip.open(path, 'rt')", True),
        ("opener.open('http://127.0.0.1')", False),
    ],
)
def test_what_leaves_it_to_the_locale(source: str, left: bool) -> None:
    assert bool([*leave_it_to_the_locale(source)]) == left
