"""``qioi threshold``: sets what a channel is owed, while the daemon runs."""

from __future__ import annotations

from pathlib import Path

import click

from qioi.commands.completion import channels
from qioi.commands.options import config_option, socket_option
from qioi.commands.ordering import order


@click.command()
@click.argument("channel", shell_complete=channels)
@click.argument("tps")
@config_option
@socket_option
def command(channel: str, tps: str, config: Path | None, socket: Path | None) -> None:
    """Set what CHANNEL is owed: TPS committed transactions per second, or `auto` to have it learned.

    It holds from the next period until the daemon's next start, or until a reloaded configuration says another
    threshold for the channel.
    """
    order("/threshold", {"channel": channel, "tps": tps}, config, socket)
