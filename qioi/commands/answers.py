"""Answers of a daemon, or of what is in its place: of another version, they may lack what a command shows of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from qioi.commands.failing import fail
from qioi.model.names import in_one_line
from qioi.show.http import RefusedError, UnreachableError, get_json


def status_of(socket: Path) -> Any:
    """Ask a daemon for all that it shows. UnreachableError: none answers, or something else than a daemon."""
    try:
        return get_json(socket, "/status")
    except RefusedError as error:  # a daemon refuses no such question
        said = in_one_line(str(error).strip()) or "without a word"
        raise UnreachableError(f"{socket}/status: HTTP status 400: {said}") from None


@contextmanager
def understood(socket: Path, *, raw: bool = True) -> Iterator[None]:
    """End in one line where an answer cannot be shown and its daemon is of another version; else the error is ours.

    ``raw``: whether the command can print the answer as it is.
    """
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError):
        theirs, ours = version_of(socket), version("qioi")
        if theirs in (None, ours):
            raise
        ways = "use the command of its version, or --output json" if raw else "or use the command of its version"
        fail(
            f"{socket}: the daemon is of version {theirs} and this command of {ours}, which cannot show that answer: "
            f"restart the daemon, {ways}"
        )


def version_of(socket: Path) -> str | None:
    """Ask a daemon for its version; None where it says none."""
    try:
        return str(status_of(socket)["version"])
    except (UnreachableError, LookupError, TypeError):
        return None
