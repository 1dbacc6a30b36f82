"""The shares of the daemon's own group: as configured, or a default for as long as real-time is not in force."""

from __future__ import annotations

import logging
import math
from contextlib import suppress

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.restore import Outcome, Result, failed
from qioi.daemon.own import Company, competing, own_cgroup, why_none
from qioi.kernel.errors import CgroupError
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import DEFAULT_SHARES
from qioi.settings.config import Config

log = logging.getLogger("qioi")

#: Shares of the daemon's own group where real-time is not in force, for its 1 % of a core. On cgroup v1 they are what
#: eight ordinary groups have, and the least; on v2 they are eight times what the group was found with.
OWN_SHARES = 8 * DEFAULT_SHARES
#: Seconds between two looks at the group: at who is in it, and at its shares, which somebody else may have restored.
LOOK = 10.0


class OwnShares:
    """Sets and restores the shares of the group whose shares protect the daemon, through the guard.

    What fails is tried again in each period; it is said once, and so is that it is done. Where somebody else restores
    the original, the guard's pause passes before it is changed again.
    """

    def __init__(self, config: Config, guard: Guard, hierarchy: Hierarchy) -> None:
        group = None if config.dry_run else own_cgroup(hierarchy)
        #: The group; ``None`` in the root group, where a namespace hides it, and in a dry run.
        self.group = competing(group) if group else None
        self._guard = guard
        self._always = config.own.shares
        #: Who is in the group: the default is for one that has the daemon alone.
        self._company = Company(hierarchy.folder(group)) if group and self._always is None else None
        self._wanted: int | None = None
        self._due = True
        self._next_look = -math.inf
        self._news = self._failing = False
        if self._always is not None and self.group is None and not config.dry_run:
            log.warning("own.shares: ignored: %s", why_none(hierarchy))

    def look(self, now: float, *, realtime: bool) -> None:
        """Have the shares that are wanted where ``realtime`` is in force, or is not. To be called once a period.

        ``now`` is the monotonic time.
        """
        if now >= self._next_look:
            self._next_look = now + LOOK
            self._look_again()
        alone = self._company is not None and self._company.alone
        wanted = OWN_SHARES if alone and not realtime else self._always
        if wanted != self._wanted:
            self._wanted, self._due = wanted, True
        if self._due and self.group is not None:
            self._tell(self.group, self._put_back(self.group) if wanted is None else self._set(self.group, wanted))
        self._news = True  # what is done at the start is none

    def _look_again(self) -> None:
        """Look at who is in the group, and have its shares looked at."""
        if self._company is not None:
            self._company.look()
        if self.group is None or self._wanted is None:
            return
        if not self._guard.is_foreign(self.group):
            self._due = True
            return
        with suppress(CgroupError):  # somebody else's shares are left alone, until that one puts the original back
            self._guard.shares(self.group)

    def _set(self, group: str, shares: int) -> Outcome | None:
        try:
            found = self._guard.hold(group)
        except CgroupError as error:
            return failed(group, error)
        if self._always is None:
            shares = max(shares, found)
        (outcome,) = self._guard.apply({group: shares})
        return None if outcome.result is Result.SKIPPED and not self._failing else outcome

    def _put_back(self, group: str) -> Outcome | None:
        """Restore the group's shares if this daemon, or one before it, has changed them."""
        return self._guard.release(group) if group in self._guard.changed() else None

    def _tell(self, group: str, outcome: Outcome | None) -> None:
        """Log what came of it, and note whether it is to be tried again."""
        done = outcome is None or outcome.result in (Result.OK, Result.SKIPPED)
        self._due = not done and not self._guard.is_foreign(group)
        if outcome is not None and done and (self._news or self._failing):
            log.info("own.shares: %s: %s", group, outcome.message)
        if outcome is not None and not done and not self._failing:
            again = ": tried again in each period" if self._due else ""
            log.warning("own.shares: %s: %s%s", group, outcome.message, again)
        self._failing = not done
