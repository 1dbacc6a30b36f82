"""The end of the daemon: everything is put back, or kept on purpose for the next one."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.handover import keep
from qioi.controller.guard.restore import Result

log = logging.getLogger("qioi")


@dataclass(slots=True)
class Ending:
    """How the daemon is to end, and whether it ended well. ``own`` is its own group, which is never kept."""

    keep: bool = False
    own: str | None = None
    clean: bool = False


@contextmanager
def restoring(guard: Guard, state_dir: Path) -> Iterator[Ending]:
    """Put every share back at the end, also after an error, unless it was said at the very end to keep them."""
    ending = Ending()
    try:
        yield ending
    finally:
        ending.clean = keep_shares(guard, state_dir, ending.own) if ending.keep else put_back(guard)


def keep_shares(guard: Guard, state_dir: Path, own: str | None) -> bool:
    """Leave the components' shares for the next daemon; if that cannot be written down, put them back."""
    try:
        keep(state_dir, guard, own)
    except OSError as error:
        log.error("on_exit keep: the journal cannot be written: %s; everything is put back", error)
        return put_back(guard)
    log.info("on_exit keep: shares are left as they are; the next start goes on with them, `qioi restore` ends it")
    return True


def put_back(guard: Guard) -> bool:
    """Restore, say each, and say whether nothing failed."""
    try:
        outcomes = guard.restore()
    except OSError as error:
        log.error("the journal could not be emptied: %s; every value in it is back all the same", error)
        return False
    for outcome in outcomes:
        level = logging.INFO if outcome.result in (Result.OK, Result.SKIPPED) else logging.WARNING
        log.log(level, "restore %s: %s: %s", outcome.path, outcome.result, outcome.message)
    return all(outcome.result is not Result.FAILED for outcome in outcomes)
