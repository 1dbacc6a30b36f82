"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from qioi.commands.failing import fail
from qioi.config import Config, ConfigError, load_config, survey

#: What every command goes by where nobody names another one.
DEFAULT_CONFIG = Path("/etc/qioi/qioi.yaml")
#: Where that does not say otherwise, or is missing.
DEFAULT_STATE_DIR = Path("/run/qioi")

config_option = click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path),
    help="Ask the daemon of this configuration.  [default: /etc/qioi/qioi.yaml]",
)
socket_option = click.option("--socket", type=click.Path(path_type=Path), help="Ask the daemon behind this socket.")


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


def places(path: Path | None) -> tuple[Path, Path]:
    """Give the state folder and the status socket that a configuration names; without any, /etc/qioi/qioi.yaml.

    What else is wrong with the file is of no matter: the daemon may have refused it, and go on with the one before.
    ConfigError names what keeps these two from being read, unless nobody named the file.
    """
    config, problems = survey(path or DEFAULT_CONFIG)
    if path is not None and (said := [one for one in problems if config is None or places_in(one, path)]):
        raise ConfigError(said)
    return (config.state_dir, config.socket) if config else (DEFAULT_STATE_DIR, DEFAULT_STATE_DIR / "qioi.sock")


def places_in(problem: str, path: Path) -> bool:
    """Whether a problem of the file is about the two places."""
    return problem.startswith((f"{path}: state_dir:", f"{path}: socket:"))


def state_dir_of(path: Path | None) -> Path:
    """Give the state folder, or end with what is wrong with the file."""
    return known(path)[0]


def socket_of(path: Path | None) -> Path:
    """Give the status socket, or end with what is wrong with the file."""
    return known(path)[1]


def known(path: Path | None) -> tuple[Path, Path]:
    """Give both places, or end with what is wrong with the file."""
    try:
        return places(path)
    except ConfigError as error:
        fail(*error.problems)


def right(*names: str) -> list[Any]:
    """Make columns of numbers, for one table: rich keeps a table's cells in its columns."""
    from rich.table import Column

    return [Column(name, justify="right", no_wrap=True) for name in names]
