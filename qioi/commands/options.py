"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

from qioi.commands.failing import fail
from qioi.config import Config, ConfigError, load_config

DEFAULT_STATE_DIR = Path("/run/qioi")


def configuration(path: Path) -> Config:
    """Read a configuration, or end with its problems."""
    try:
        return load_config(path)
    except ConfigError as error:
        fail(*error.problems)


def state_dir_of(path: Path | None) -> Path:
    """Give the state folder that a configuration names, the default one without any."""
    return configuration(path).state_dir if path else DEFAULT_STATE_DIR


def socket_of(path: Path | None) -> Path:
    """Give the status socket that a configuration names, the default one without any."""
    return configuration(path).socket if path else DEFAULT_STATE_DIR / "qioi.sock"
