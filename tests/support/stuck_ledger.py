"""A ledger that stands still where a test wants it to, so that what comes next waits for the test."""

from __future__ import annotations

from pathlib import Path

from qioi.lab.network import find_binary


def stuck_ledger(folder: Path, when: str) -> Path:
    """Make a program to be named by QIOI_LEDGER; it does nothing where a shell's test of ``$1``, its command, holds."""
    file = folder / "ledger"
    file.write_text(f'#!/bin/sh\nif {when}; then exec sleep 1000; fi\nexec {find_binary()} "$@"\n')
    file.chmod(0o755)
    return file
