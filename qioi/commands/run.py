"""``qioi run``: the daemon."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from pathlib import Path

import click

from qioi.commands.failing import fail
from qioi.commands.options import DEFAULT_CONFIG
from qioi.daemon.log_lines import prepare
from qioi.settings.config import Config, load_config
from qioi.settings.documents import ConfigError


@click.command()
@click.option("-c", "--config", "path", type=click.Path(path_type=Path), default=DEFAULT_CONFIG, show_default=True,
              help="The configuration file.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Decide and log, but write no share.")
@click.option("-v", "--verbose", is_flag=True, help="Log at the level DEBUG too.")
def command(path: Path, dry_run: bool, verbose: bool) -> None:
    """Watch the ledger and move CPU shares, until SIGTERM or ctrl-C.

    SIGHUP reloads the configuration; the one in force stays if anything is wrong with the new one. A daemon that was
    started on a terminal takes SIGHUP as the terminal's end, and stops.

    Every share that is changed is put back at the end, unless the configuration says `on_exit: keep`; after a crash,
    at the next start or by `qioi restore`.
    """
    prepare(sys.stderr, logging.DEBUG if verbose else logging.INFO)
    from qioi.controller.guard.left import UnreadError
    from qioi.daemon.lock import LockError
    from qioi.daemon.service import run
    from qioi.daemon.site import StartError

    def load() -> Config:
        config = load_config(path, regular=True)
        return replace(config, dry_run=config.dry_run or dry_run)

    try:
        status = run(load(), load)
    except (ConfigError, StartError) as error:
        fail(*error.problems)
    except (LockError, UnreadError) as error:
        fail(str(error))
    sys.exit(status)
