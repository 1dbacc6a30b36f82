"""``qioi adopt``: take up a component again whose share somebody else has changed."""

from __future__ import annotations

from pathlib import Path

import click

from qioi.commands.completion import components
from qioi.commands.options import config_option, socket_option
from qioi.commands.ordering import order


@click.command()
@click.argument("name", metavar="COMPONENT", shell_complete=components)
@config_option
@socket_option
def command(name: str, config: Path | None, socket: Path | None) -> None:
    """Take up a COMPONENT again whose share somebody else has changed, so that it may be raised.

    The share that it has now is its original from then on: the daemon goes back to that one.
    """
    order("/adopt", {"component": name}, config, socket)
