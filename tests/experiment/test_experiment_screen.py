"""What `qioi experiment` shows on a terminal of 80 columns."""

from __future__ import annotations

from io import StringIO

import pytest
from click.testing import CliRunner
from rich.console import Console

from qioi.commands.experiment import command
from qioi.commands.experiment_steps import progress
from qioi.experiment import catalogue


def test_the_list_has_a_line_an_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = CliRunner().invoke(command, ["list"]).output.splitlines()
    for name in catalogue.names():
        (line,) = [line for line in said if line.split()[:1] == [name]]
        assert line.rstrip().endswith(catalogue.find(name).title)
    assert max(map(len, said)) <= 80


@pytest.mark.parametrize(
    "label", ["short", "laws: repeat 1 of 3: blocks of 500 / 2 s, saturating, 1,500 clients, " * 2]
)
def test_the_time_left_is_seen_however_long_a_step_is_called(label: str) -> None:
    screen = StringIO()
    console = Console(file=screen, width=80, force_terminal=True, color_system=None)
    with progress(console) as bar:
        task = bar.add_task(label, total=100)
        bar.update(task, completed=30)
        bar.refresh()
    shown = screen.getvalue()
    assert label[:5] in shown
    assert "━" in shown
    assert "-:--:--" in shown


def test_a_step_is_called_what_it_is_called_whatever_is_in_its_brackets() -> None:
    screen = StringIO()
    console = Console(file=screen, width=80, force_terminal=True, color_system=None)
    with progress(console) as bar:
        bar.add_task("fig_8: 8 [bold] of [/x]", total=100)
        bar.refresh()
    assert "fig_8: 8 [bold] of [/x]" in screen.getvalue()
