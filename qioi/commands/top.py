"""``qioi top``: a live view of a running daemon."""

from __future__ import annotations

import contextlib
import itertools
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import click

from qioi.commands.answers import status_of, understood
from qioi.commands.failing import fail
from qioi.commands.numbers import Finite
from qioi.commands.options import config_option, plain_console, socket_of, socket_option
from qioi.show.http import UnreachableError


@click.command()
@config_option
@socket_option
@click.option("-i", "--interval", type=Finite(0.1, 60), default=1.0, show_default=True,
              help="Seconds between two looks.")  # fmt: skip
@click.option("-n", "--count", type=click.IntRange(1), help="End after so many looks.  [default: ctrl-C ends it]")
def command(config: Path | None, socket: Path | None, interval: float, count: int | None) -> None:
    """Watch channels, components, shares and scheduling delays live, until ctrl-C.

    It waits for a daemon that goes away. Exit status 1 if the last of -n looks found none.
    """
    from rich.live import Live
    from rich.text import Text

    from qioi.show.top import History, bars_for, view

    where = socket_of(config, socket)
    try:
        document = status_of(where)
    except UnreachableError as error:
        fail(str(error))
    console = plain_console(140)
    history = History(bars_for(console.encoding))
    looks = itertools.count() if count is None else range(count)
    problem = ""
    with understood(where, raw=False), contextlib.suppress(KeyboardInterrupt), ExitStack() as screen:
        show = console.print
        if console.is_terminal:
            live = screen.enter_context(Live(console=console, screen=True, auto_refresh=False))
            show = partial(live.update, refresh=True)
        for number in looks:
            if number:
                time.sleep(interval)
                try:
                    document = status_of(where)
                except UnreachableError as error:
                    if number + 1 == count:
                        problem = str(error)
                    else:
                        show(Text(str(error), style="red"))
                    continue
            history.take(document)
            height = console.height if console.is_terminal else None
            show(view(document, history, console.width, height))
    if problem:  # said on the screen that stays
        fail(problem)
