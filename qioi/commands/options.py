"""Options that several commands share."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qioi.commands.failing import fail
from qioi.settings.config import Config, default_record_dir, load_config, survey
from qioi.settings.documents import ConfigError
from qioi.settings.file import STATE_DIR

if TYPE_CHECKING:
    from rich.console import Console

#: The configuration of every command that is given no other.
DEFAULT_CONFIG = Path("/etc/qioi/qioi.yaml")
#: Errors of a file that is not there.
MISSING = {errno.ENOENT, errno.ENOTDIR}

config_option = click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path),
    help="Ask the daemon of this configuration.  [default: /etc/qioi/qioi.yaml]",
)
socket_option = click.option("--socket", type=click.Path(path_type=Path), help="Ask the daemon behind this socket.")
FORMAT = "For people, or for programs."
text_option = click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help=FORMAT
)
table_option = click.option(
    "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help=FORMAT
)


def configuration(path: Path) -> Config:
    """Read a configuration, or end with its problems."""
    try:
        return load_config(path)
    except ConfigError as error:
        fail(*error.problems)


def absence(path: Path) -> str | None:
    """Say why a file is not at hand: there is none, or this user may not look; ``None``: it is there."""
    if (error := obstacle(path)) is None:
        return None
    return f"{path} does not exist" if error.errno in MISSING else f"{path}: {error.strerror}"


def may_be_there(path: Path) -> bool:
    """Whether a file is there, or where this user may not look."""
    error = obstacle(path)
    return error is None or error.errno not in MISSING


def obstacle(path: Path) -> OSError | None:
    """Give what keeps a file from being looked at; Path.exists() raises it in some versions, and hides it in others."""
    try:
        path.stat()
    except OSError as error:
        return error
    return None


def kept_for_leaders(floor: float, before: str) -> str:
    """Say what orderers keep for leaders lost, in defaults, after what goes before; nothing where no law raises it."""
    return f"{before}orderers keep {floor:g} times their default until it ends" if floor > 1 else ""


def evidence(document: Mapping[str, Any]) -> str:
    """Say what a learned threshold rests on."""
    text = f"{document['samples']} periods without waiting (at least {document['needed']} are needed)"
    if not document["samples"]:
        return text
    return f"{text}: {document['lowest']:.1f} to {document['highest']:.1f} tps, the last {document['age']:.0f} s ago"


def places(path: Path | None) -> tuple[Path, Path, Path]:
    """Give the state folder, the status socket and the folder of records that a configuration names.

    Without any, that is /etc/qioi/qioi.yaml.

    Other problems of the file do not matter: the daemon may have refused it and still run with the previous one.
    ConfigError names what keeps these from being read, unless nobody named the file.
    """
    config, problems = survey(path or DEFAULT_CONFIG)
    if path is not None and (said := [one for one in problems if config is None or places_in(one, path)]):
        raise ConfigError(said)
    if config is None:
        return STATE_DIR, STATE_DIR / "qioi.sock", default_record_dir(STATE_DIR)
    return config.state_dir, config.socket, config.record_dir


def places_in(problem: str, path: Path) -> bool:
    """Whether a problem of the file is about these places."""
    return problem.startswith(tuple(f"{path}: {key}:" for key in ("state_dir", "socket", "record_dir")))


def folders_of(path: Path | None, state_dir: Path | None, record_dir: Path | None) -> tuple[Path, Path]:
    """Give the folders of state and of records, or end with what is wrong with the file.

    What is not named is a configuration's. Without any file, records belong to the state folder that is named.
    """
    if state_dir is not None and (record_dir is not None or path is None):
        return state_dir, record_dir or default_record_dir(state_dir)
    if path is None and may_be_there(DEFAULT_CONFIG):
        path = DEFAULT_CONFIG  # one that cannot be read may name other folders than the usual ones
    state, _, records = known(path)
    return state_dir or state, record_dir or records


def socket_of(config: Path | None, socket: Path | None) -> Path:
    """Give the socket that was named, or a configuration's, or end with what is wrong with the file.

    UsageError: both were named, which may be of two daemons.
    """
    if config is not None and socket is not None:
        raise click.UsageError("--config and --socket exclude each other")
    return socket or known(config)[1]


def known(path: Path | None) -> tuple[Path, Path, Path]:
    """Give all places, or end with what is wrong with the file."""
    try:
        return places(path)
    except ConfigError as error:
        fail(*error.problems)


def plain_console(elsewhere: int | None = None) -> Console:
    """Give where text goes that stands there as it is: a name may look like rich's markup, or like a picture's.

    A file or a pipe is taken to have ``elsewhere`` columns.
    """
    from rich.console import Console

    plain = partial(Console, markup=False, emoji=False, highlight=False)
    console = plain()
    return console if console.is_terminal or elsewhere is None else plain(width=elsewhere)


def right(*names: str) -> list[Any]:
    """Make columns of numbers, for one table: rich keeps a table's cells in its columns."""
    from rich.table import Column

    return [Column(name, justify="right", no_wrap=True) for name in names]
