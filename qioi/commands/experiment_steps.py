"""How far a run of experiments is, and by which command it was made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from qioi.experiment.errors import SpecError
from qioi.experiment.store import Store


def progress(console: Console) -> Progress:
    """Make the bar: where a terminal is narrow the step's name is cut, not the time left."""
    column = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    name = TextColumn("{task.description}", markup=False, table_column=column)
    left = TimeRemainingColumn(elapsed_when_finished=True, table_column=Column(no_wrap=True, min_width=7))
    bar = BarColumn(bar_width=16, table_column=Column(min_width=16))
    return Progress(name, bar, left, console=console, disable=not console.is_terminal, expand=True)


class Steps:
    """Shows what is being done and how long all still takes: a bar on a terminal, elsewhere a line a step."""

    def __init__(self, bar: Progress, console: Console, total: float) -> None:
        self._bar, self._console, self._total = bar, console, total
        self._task = bar.add_task("starting", total=total)
        self._last = ""
        self.name = ""
        self.before = 0.0

    def show(self, label: str, done: float, of: float) -> None:
        """Show one step; ``done`` and ``of`` are seconds of the experiment that is under way."""
        text = f"{self.name}: {label}"
        total = max(self._total, self.before + of)
        if text != self._last and not self._console.is_terminal:
            left = remaining(total - self.before - done)
            self._console.print(f"{text} ({left} left)", soft_wrap=True)
        self._last = text
        self._bar.update(self._task, description=text, completed=self.before + done, total=total)


def remaining(seconds: float) -> str:
    """Format how long it still takes."""
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{max(0.0, seconds):.0f} s"


@contextlib.contextmanager
def noted(store: Store, words: str) -> Iterator[None]:
    """Keep the command that makes a run, also of one that fails: the error of the run itself is the one to tell."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError, SpecError):
            if store.begun:
                store.keep("command", words)
        raise
    store.keep("command", words)
