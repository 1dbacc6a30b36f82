"""A ledger that stands still where a test wants it to, so that what comes next waits for the test."""

from __future__ import annotations

from pathlib import Path

from qioi.lab.network import find_binary

#: What a load client says when it begins to send, as a shell's command.
SENDS = "date -u +'sending since %FT%T.%NZ'"


def stuck_ledger(folder: Path, when: str, first: str = ":") -> Path:
    """Make a program to be named by QIOI_LEDGER; it does nothing where a shell's test of ``$1``, its command, holds.

    ``first`` is a shell's command that it runs before that.
    """
    file = folder / "ledger"
    file.write_text(f'#!/bin/sh\nif {when}; then {first}; exec sleep 1000; fi\nexec {find_binary()} "$@"\n')
    file.chmod(0o755)
    return file
