"""How the commands of the lab and of experiments fail: in one line, whatever ends them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import click

from qioi.lab.signals import ending_signals_interrupt
from qioi.processes.errors import LabError


@contextlib.contextmanager
def one_line_errors(*folders: Path) -> Iterator[None]:
    """Turn the lab's and the system's errors into the command's, and let every ending signal unwind.

    ``folders`` are where files go: of a full disk Linux does not say which.
    """
    try:
        with ending_signals_interrupt():
            yield
    except BrokenPipeError:  # click ends without a word
        raise
    except LabError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        if error.filename is not None:
            raise click.ClickException(f"{error.filename}: {error.strerror}") from error
        places = f" (files go to {', '.join(map(str, folders))})" if folders else ""
        raise click.ClickException(f"{error}{places}") from error
