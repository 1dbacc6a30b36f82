"""The command line of a bare installation: it has no extra, yet every command says what it is for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from waiting import PATIENCE

EXTRAS = ("docker", "jeepney", "jinja2", "matplotlib", "pyspark")
PROGRAM = f"""
import sys
sys.modules.update(dict.fromkeys({EXTRAS}))
from click.testing import CliRunner
from qioi.cli import COMMANDS, main
from qioi.kernel.extras import installs
for name in COMMANDS:
    said = CliRunner().invoke(main, [name, "--help"])
    assert said.exit_code == 0, (name, said.output, said.exception)
    assert said.output.startswith(f"Usage: main {{name}}"), said.output
for words in (["demo", "--output", "/proc/nowhere"], ["experiment", "run", "fig_8"], ["experiment", "report"]):
    said = CliRunner().invoke(main, words)
    assert said.exit_code == 1
    assert said.stderr == f"Error: jinja2 is not installed: `{{installs('lab')}}` brings it\\n", said.stderr
said = CliRunner().invoke(main, ["check", "-c", sys.argv[1]])
for section, library, extra in (("docker", "the Docker SDK", "docker"), ("systemd", "the D-Bus library", "systemd")):
    line = f"{{sys.argv[1]}}: {{section}}: {{library}} is not installed: {{installs(extra)}}"
    assert line in said.output + said.stderr, said.output
"""


@pytest.mark.slow
def test_every_command_helps_without_any_extra_and_names_the_one_that_it_needs(tmp_path: Path) -> None:
    (tmp_path / "qioi.yaml").write_text("docker: {}\nsystemd: {units: [{unit: 'fabric-*.service', role: peer}]}\n")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "qioi.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
