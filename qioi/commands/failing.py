"""How a command ends when it cannot do its work: clear lines on standard error, exit status 1."""

from __future__ import annotations

import sys
from typing import NoReturn

import click


def fail(*lines: str) -> NoReturn:
    """Say each line as an error, and end."""
    for line in lines:
        click.echo(f"Error: {line}", err=True)
    sys.exit(1)
