"""What a run has left out, and what the last lines of `make test` make of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import go_tests
import pytest
from go_tests import follow
from skipped import UNMARKED, lines, write

TESTS = """
import pytest
pytest.importorskip("none_such", reason="no such thing")
"""
MORE = """
import pytest
@pytest.mark.host
def test_left_out(): ...
def test_skipped(): pytest.skip("not built yet")
def test_run(): ...
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("marks", "left_out"),
    [
        ("not host", {UNMARKED: 1, "no such thing": 1, "not built yet": 1}),
        ("host", {"no such thing": 1}),  # what `make test` has is not left out
    ],
)
def test_every_way_in_which_pytest_leaves_a_test_out(tmp_path: Path, marks: str, left_out: dict[str, int]) -> None:
    for name, text in (("test_one.py", TESTS), ("test_two.py", MORE)):
        (tmp_path / name).write_text(text)
    file = tmp_path / "skipped" / "run"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marks, "--skipped", str(file)]
    support = Path(__file__).parent
    (tmp_path / "conftest.py").write_text((support.parent / "conftest.py").read_text())
    words = ["-o", f"pythonpath={support}", "-o", "markers=host", "-p", "no:randomly", str(tmp_path)]
    done = subprocess.run([*command, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(file.read_text()) == left_out


def test_the_reasons_of_go_and_what_it_would_have_printed(capsys: pytest.CaptureFixture[str]) -> None:
    events = [
        {"Action": "run", "Package": "p", "Test": "TestOne"},
        {"Action": "output", "Package": "p", "Test": "TestOne", "Output": "    one_test.go:12: needs root\n"},
        {"Action": "output", "Package": "p", "Test": "TestOne", "Output": "--- SKIP: TestOne (0.00s)\n"},
        {"Action": "skip", "Package": "p", "Test": "TestOne"},
        {"Action": "output", "Package": "p", "Test": "TestTwo", "Output": "--- FAIL: TestTwo (0.00s)\n"},
        {"Action": "fail", "Package": "p", "Test": "TestTwo"},
        {"Action": "output", "Package": "p", "Test": "TestThree", "Output": "--- PASS: TestThree (0.00s)\n"},
        {"Action": "pass", "Package": "p", "Test": "TestThree"},
        {"Action": "output", "Package": "p", "Output": "PASS\n"},
        {"Action": "output", "Package": "p", "Output": "ok  \tp\t0.01s\n"},
    ]
    reasons = follow(["go: downloading\n", *(json.dumps(one) + "\n" for one in events)])
    assert reasons == {"needs root": 1}
    assert capsys.readouterr().out == "go: downloading\n--- FAIL: TestTwo (0.00s)\nok  \tp\t0.01s\n"


EXITS = """package p

import ("os"; "testing")

func TestPasses(t *testing.T) { t.Log("nobody reads this") }
func TestExits(t *testing.T) { println("why it ended"); os.Exit(3) }
"""


@pytest.mark.slow
def test_a_go_test_that_does_not_end_says_why(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("needs Go")
    (tmp_path / "go.mod").write_text("module p\n")
    (tmp_path / "p_test.go").write_text(EXITS)
    command = [sys.executable, str(Path(go_tests.__file__)), str(tmp_path / "skipped"), "./..."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "why it ended" in done.stdout
    assert "nobody reads this" not in done.stdout


def test_all_runs_together(tmp_path: Path) -> None:
    write(tmp_path / "covered", Counter())
    assert lines(tmp_path) == ["== every test was run"]
    write(tmp_path / "rest", Counter({"needs root": 1, "not built yet": 3}))
    write(tmp_path / "ledger", Counter({"needs root": 4}))
    assert lines(tmp_path) == ["== 8 tests were not run:", "     5  needs root", "     3  not built yet"]
