"""A program that cleans up after itself is let, however the one that waits for it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import DIES_WITH_TEST, until

from qioi.experiment import child
from qioi.experiment.replicas import run
from qioi.processes.errors import LabError

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
#: It takes longer to clean up than Python leaves a child whose parent is interrupted.
CLEANS_UP = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
try:
    (folder / "begun").touch()
    time.sleep(1000)
finally:
    time.sleep(1)
    (folder / "cleaned").touch()
"""
#: Those that wait for it, as their commands do; the program's file and its folder are the arguments.
WAITS = {
    "replicas": """
from qioi.experiment.replicas import run
with ending_signals_interrupt():
    run([sys.executable, *sys.argv[1:]], Path(sys.argv[2], "log"), 600)
""",
    "published": """
from published.measure import run
from published.pieces import Piece
piece = Piece("lab", "the lab", (Path(sys.argv[1]).name, "{out}"), (".",), 1, lambda *_: None)
with ending_signals_interrupt():
    run(piece, Path(sys.argv[2]), {"out": sys.argv[2]})
""",
}
IMPORTS = "import sys\nfrom pathlib import Path\nfrom qioi.lab.signals import ending_signals_interrupt\n"


@pytest.mark.parametrize(
    ("number", "send"),
    [
        (signal.SIGINT, os.killpg),  # ctrl-C goes to the whole group of the terminal
        (signal.SIGINT, os.kill),
        (signal.SIGTERM, os.kill),
        (signal.SIGKILL, os.kill),
    ],
)
@pytest.mark.parametrize("waits", WAITS)
def test_a_program_cleans_up_to_its_end_when_the_one_that_waits_is_ended(
    waits: str, number: signal.Signals, send: Callable[[int, int], None], tmp_path: Path
) -> None:
    script = tmp_path / "benchmarks" / "bench.py"
    script.parent.mkdir()
    script.write_text(CLEANS_UP)
    waiting = subprocess.Popen(
        [*DIES_WITH_TEST, sys.executable, "-c", IMPORTS + WAITS[waits], str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'benchmarks'}"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until((tmp_path / "begun").exists)
    send(waiting.pid, number)
    _, said = waiting.communicate(timeout=60)
    if number == signal.SIGKILL:
        until((tmp_path / "cleaned").exists)
    else:
        assert (tmp_path / "cleaned").exists()
        assert "KeyboardInterrupt" in said


def test_one_that_does_not_end_in_time_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "CLEANUP", 0.1)
    for seconds in (1, 8, 64):  # a shell may take longer than that to begin
        log = tmp_path / f"log-{seconds}"
        with pytest.raises(LabError, match=f"not done after {seconds} s"):
            run(["sh", "-c", "trap '' INT TERM; echo $$; while :; do sleep 0.1; done"], log, float(seconds))
        if log.read_text():
            break
    pid = int(log.read_text())
    assert not Path(f"/proc/{pid}").exists()
