"""Take over the shares that an earlier daemon kept, or restore what a crashed one left."""

from __future__ import annotations

import logging
from dataclasses import replace

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.handover import take_over
from qioi.controller.guard.journal import Journal
from qioi.controller.guard.left import still_left
from qioi.daemon.recover import recover, recover_rest, tell
from qioi.discovery.told import ToldFiles
from qioi.kernel.hierarchy import Hierarchy
from qioi.model.groups import chain
from qioi.settings.config import Config

log = logging.getLogger("qioi")


def warn_of_before(text: str) -> None:
    """Log one outcome of restoring what a crashed daemon left."""
    log.warning("left by a daemon before this one: %s", text)


def inherit(config: Config, guard: Guard, hierarchy: Hierarchy) -> tuple[str, ...]:
    """Adopt the shares that an earlier daemon kept on purpose; restore those that a crashed one left.

    Return the groups that stay raised, of components and above them, also because they could not be restored.
    UnreadError, once all other journals are put back: a guard would take the raised shares for the originals.
    """
    listed = {level for one in config.components for level in chain(one.cgroup)}
    outcomes = take_over(config.state_dir, guard, None if config.discovers else listed)
    if outcomes is None:
        recovery = recover(config.state_dir, config.record_dir, hierarchy)
        tell(recovery, warn_of_before)
        if recovery.unread is not None:
            raise recovery.unread
        still_left(Journal(config.state_dir))  # a damaged one that cannot be set aside is not to be replaced, either
        for entry in recovery.left:
            guard.adopt(entry)  # to restore it later, or to have the original of a group that starts again raised
        return guard.changed()
    told, problems = ToldFiles(config.record_dir).load()
    for entry in told:
        if entry.owner not in guard.owners():  # left by a daemon that was killed earlier
            guard.adopt(entry)
    rest = recover_rest(config.state_dir, hierarchy)  # only shares are kept
    tell(replace(rest, problems=(*problems, *rest.problems)), warn_of_before)
    log.info("going on with the shares that the daemon before this one has kept")
    for outcome in outcomes:
        log.warning("%s: %s: %s", outcome.path, outcome.result, outcome.message)
    return guard.changed()
