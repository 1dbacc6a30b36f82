"""The command line of a bare installation: it has no extra, yet every command says what it is for."""

from __future__ import annotations

import subprocess
import sys

from waiting import PATIENCE

EXTRAS = ("docker", "jeepney", "jinja2", "matplotlib", "pyspark")
PROGRAM = f"""
import sys
sys.modules.update(dict.fromkeys({EXTRAS}))
from click.testing import CliRunner
from qioi.cli import COMMANDS, main
for name in COMMANDS:
    said = CliRunner().invoke(main, [name, "--help"])
    assert said.exit_code == 0, (name, said.output, said.exception)
    assert said.output.startswith(f"Usage: main {{name}}"), said.output
for words in (["demo", "--output", "/proc/nowhere"], ["experiment", "run", "fig_8"], ["experiment", "report"]):
    said = CliRunner().invoke(main, words)
    assert said.exit_code == 1
    assert said.stderr == "Error: jinja2 is not installed: `pip install 'qioi[lab]'` brings it\\n", said.stderr
"""


def test_every_command_helps_without_any_extra_and_names_the_one_that_it_needs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
