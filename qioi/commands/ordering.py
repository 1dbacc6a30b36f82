"""Gives the running daemon an order, and says its answer."""

from __future__ import annotations

from pathlib import Path

import click

from qioi.commands.failing import fail
from qioi.commands.options import socket_of
from qioi.show.http import RefusedError, UnreachableError, request_json


def order(route: str, query: dict[str, str], config: Path | None, socket: Path | None) -> None:
    """Give an order to the daemon behind ``socket``, or else of ``config``; end the command where it is not taken."""
    try:
        answer = request_json(socket_of(config, socket), "POST", route, query)
    except (UnreachableError, RefusedError) as error:
        fail(str(error))
    click.echo(answer["message"])
