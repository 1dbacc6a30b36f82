"""The end of the daemon: it restores every value, or keeps the shares for the next daemon."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.handover import keep
from qioi.controller.guard.restore import Outcome, Result
from qioi.settings.config import Config

log = logging.getLogger("qioi")


@dataclass(slots=True)
class Ending:
    """How the daemon ends, and whether every restore succeeded. ``own`` is its own group, which is never kept."""

    keep: bool = False
    own: str | None = None
    clean: bool = False


@contextmanager
def restoring(guard: Guard, config: Config) -> Iterator[Ending]:
    """Restore every share at the end, also after an error, unless :attr:`Ending.keep` was set.

    A dry run has changed no share. It leaves the journal, which may be that of a daemon before it.
    """
    ending = Ending(clean=config.dry_run)
    try:
        yield ending
    finally:
        if not config.dry_run:
            ending.clean = keep_shares(guard, config.state_dir, ending.own) if ending.keep else put_back(guard)


def keep_shares(guard: Guard, state_dir: Path, own: str | None) -> bool:
    """Leave the components' shares for the next daemon; if the journal cannot be written, restore them."""
    try:
        restored = keep(state_dir, guard, own)
    except OSError as error:
        log.error("on_exit keep: the journal cannot be written: %s; every share is restored", error)
        return put_back(guard)
    log.info("on_exit keep: shares stay as they are; the next start takes them over, `qioi restore` restores them")
    return tell([restored] if restored is not None else [])


def put_back(guard: Guard) -> bool:
    """Restore every share, log each outcome, and return whether all succeeded."""
    return tell(guard.restore())


def tell(outcomes: list[Outcome]) -> bool:
    """Log the outcome of each restore, and return whether all succeeded."""
    for outcome in outcomes:
        level = logging.INFO if outcome.result in (Result.OK, Result.SKIPPED) else logging.WARNING
        log.log(level, "restore %s: %s: %s", outcome.path, outcome.result, outcome.message)
    return all(outcome.result is not Result.FAILED for outcome in outcomes)
