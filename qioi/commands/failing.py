"""Ends a command that cannot do its work: with lines on standard error and exit status 1."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from qioi.daemon.log_lines import PRIORITY_ERROR, is_journal


def fail(*lines: str) -> NoReturn:
    """Say each line as an error, and end."""
    mark = PRIORITY_ERROR if is_journal(sys.stderr, os.environ) else ""
    for line in lines:
        click.echo(f"{mark}Error: {line}", err=True)
    sys.exit(1)
