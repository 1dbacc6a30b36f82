"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qioi.commands.failing import fail
from qioi.config import Config, ConfigError, load_config

DEFAULT_STATE_DIR = Path("/run/qioi")


def configuration(path: Path) -> Config:
    """Read a configuration, or end with its problems."""
    try:
        return load_config(path)
    except ConfigError as error:
        fail(*error.problems)


def evidence(document: Mapping[str, Any]) -> str:
    """Say what a learned threshold rests on."""
    text = f"{document['samples']} periods without waiting (at least {document['needed']} are needed)"
    if not document["samples"]:
        return text
    return f"{text}: {document['lowest']:.1f} to {document['highest']:.1f} tps, the last {document['age']:.0f} s ago"


def state_dir_of(path: Path | None) -> Path:
    """Give the state folder that a configuration names, the default one without any."""
    return configuration(path).state_dir if path else DEFAULT_STATE_DIR


def socket_of(path: Path | None) -> Path:
    """Give the status socket that a configuration names, the default one without any."""
    return configuration(path).socket if path else DEFAULT_STATE_DIR / "qioi.sock"


def right(*names: str) -> list[Any]:
    """Make columns of numbers, for one table: rich keeps a table's cells in its columns."""
    from rich.table import Column

    return [Column(name, justify="right", no_wrap=True) for name in names]
