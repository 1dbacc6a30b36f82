"""Find the entries of lost nodes in a policy's status, which another node then removes.

A daemon renews its entries at least every :data:`~qioi.kubernetes.reports.HEARTBEAT` seconds, and removes them when it
ends. Entries that were not renewed for much longer belong to a lost node. No node leads: each waits a little longer
than :data:`LOST`, by a random time, and the first one removes the entries, by an empty status in the lost node's name;
the others see that by their watch. Clocks are not compared: an entry's age counts from its arrival here to the last
look at its policy, because what is not looked at may have been renewed. It counts anew after a time in which the server
could not be reached, or did not let this node write to the policy: others may not have been able to either.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from qioi.kubernetes.policies import Judged
from qioi.kubernetes.reports import HEARTBEAT, Sight, words

#: Seconds between two looks for lost nodes: each reads the entries of every node in every policy.
LOOK = 30.0
#: Seconds without a renewal after which a node is lost: two renewals were missed.
LOST = 3 * HEARTBEAT
#: Most seconds that a node waits beyond :data:`LOST`. With the looks before and after, entries stay 20 minutes at most.
SPREAD = 240.0


class Absences:
    """Holds the time stamps of all nodes' entries in all policies, and since when each is unchanged."""

    def __init__(self, own_node: str, chance: float | None = None) -> None:
        self._own = own_node
        self._patience = LOST + SPREAD * (random.random() if chance is None else chance)
        self._since: dict[tuple[str, str], tuple[str, float]] = {}

    def forget(self, path: str | None = None) -> None:
        """Count every entry's age anew, or that of the entries in one policy."""
        self._since = {} if path is None else {key: one for key, one in self._since.items() if key[0] != path}

    def lost(self, sights: Iterable[Sight], now: float) -> list[tuple[Judged, str]]:
        """Take in the policies' statuses; give each lost node with the policy that has its entries."""
        after: dict[tuple[str, str], tuple[str, float]] = {}
        gone = []
        for one, looked in ((sight.judged, sight.looked) for sight in sights):
            if looked is None:
                continue
            for node, stamp in words(one).items():
                known = self._since.get((one.path, node))
                since = known[1] if known is not None and known[0] == stamp else now
                if looked - since >= self._patience and node != self._own:
                    gone.append((one, node))
                    since = now  # named once, and again after the same time if its entries remain
                after[one.path, node] = stamp, since
        self._since = after
        return gone
