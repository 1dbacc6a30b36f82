"""``qioi mine``: declares that a control group is a client of the ledger, and no neighbour."""

from __future__ import annotations

from pathlib import Path

import click

from qioi.commands.completion import foreigners
from qioi.commands.options import config_option, socket_option
from qioi.commands.ordering import order


@click.command()
@click.argument("group", shell_complete=foreigners)
@config_option
@socket_option
def command(group: str, config: Path | None, socket: Path | None) -> None:
    """Call a control GROUP your own: a client of the ledger, against which no share is raised.

    `qioi status` names the foreign groups that use the most CPU time. It holds until the daemon's next start; the line
    that makes it last is printed.
    """
    order("/mine", {"group": group}, config, socket)
