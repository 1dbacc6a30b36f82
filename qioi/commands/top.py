"""``qioi top``: a live view of a running daemon."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import click

from qioi.api import UnreachableError, get_json
from qioi.commands.failing import fail
from qioi.commands.options import socket_of


@click.command()
@click.option("-c", "--config", type=click.Path(path_type=Path), help="Take `socket` from this configuration.")
@click.option("--socket", type=click.Path(path_type=Path), help="The daemon's socket.  [default: /run/qioi/qioi.sock]")
@click.option("-i", "--interval", type=click.FloatRange(0.1, 60), default=1.0, show_default=True,
              help="Seconds between two looks.")  # fmt: skip
@click.option("-n", "--count", type=click.IntRange(1), help="End after so many looks.  [default: ctrl-C ends it]")
def command(config: Path | None, socket: Path | None, interval: float, count: int | None) -> None:
    """Watch channels, components, shares and scheduling delays live, until ctrl-C.

    A daemon that goes away is waited for.
    """
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from qioi.top import WIDE, History, view

    where = socket or socket_of(config)
    try:
        first = get_json(where, "/status")
    except UnreachableError as error:
        fail(str(error))
    history = History()
    history.take(first)
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDE)
    try:
        with Live(
            view(first, history, console.width), console=console, screen=console.is_terminal, auto_refresh=False
        ) as live:
            for _ in itertools.repeat(None) if count is None else range(count - 1):
                time.sleep(interval)
                try:
                    document = get_json(where, "/status")
                except UnreachableError as error:
                    live.update(Text(str(error), style="red"), refresh=True)
                    continue
                history.take(document)
                live.update(view(document, history, console.width), refresh=True)
    except KeyboardInterrupt:
        return
