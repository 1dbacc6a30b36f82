"""How a command line prints: to a disk that may be full, and on terminals of any encoding."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import Any

import click

#: What a disk says that is full, or of which this user has had his part.
FULL = (errno.ENOSPC, errno.EDQUOT)


class Group(click.Group):
    """The group of a command line that a user calls."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a subcommand or show a help; where what is printed has no room left, end in one line."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # a name that the terminal cannot encode must not end a command
        try:
            return super().main(*args, **extra)
        except OSError as error:
            if error.errno not in FULL or error.filename is not None:
                raise
            with suppress(OSError, ValueError):  # what Python keeps of it is written at its end
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            click.ClickException(f"what it prints cannot be written: {error.strerror}").show()
            sys.exit(1)
