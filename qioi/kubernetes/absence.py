"""Whose words in a policy's status are a lost node's, and are to be taken back by somebody else.

A daemon renews what it says at least every :data:`~qioi.kubernetes.reports.HEARTBEAT` seconds, and takes it back when
it ends. Words that nobody has renewed for much longer are those of a node that went away. No node leads: each waits a
little longer than :data:`LOST`, by a chance of its own, and the first one takes them back, by an empty statement in the
lost one's name; the others see that by their watch. Clocks are not compared: a word's age counts from when it came.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from qioi.kubernetes.policies import Judged
from qioi.kubernetes.reports import HEARTBEAT

#: Seconds without a renewal after which a node is lost: two renewals were left out.
LOST = 3 * HEARTBEAT
#: Seconds by which nodes differ at most in when they act.
SPREAD = 300.0


class Absences:
    """All nodes' words in all policies, and since when they have not changed."""

    def __init__(self, own_node: str, chance: float | None = None) -> None:
        self._own = own_node
        self._patience = LOST + SPREAD * (random.random() if chance is None else chance)
        self._since: dict[tuple[str, str], tuple[str, float]] = {}

    def lost(self, judged: Iterable[Judged], now: float) -> list[tuple[Judged, str]]:
        """Take in what is in the policies' status; name the nodes that are lost, with their policies."""
        after: dict[tuple[str, str], tuple[str, float]] = {}
        gone = []
        for one in judged:
            for node, stamp in words(one).items():
                known = self._since.get((one.path, node))
                since = known[1] if known is not None and known[0] == stamp else now
                if now - since >= self._patience and node != self._own:
                    gone.append((one, node))
                    since = now  # asked for once; tried again if it has not helped
                after[one.path, node] = stamp, since
        self._since = after
        return gone


def words(judged: Judged) -> dict[str, str]:
    """Give each node that has something in a policy's status, and when it says that it has said it."""
    status = judged.status or {}
    nodes = {str(one.get("node")): "" for one in status.get("components") or ()}
    return nodes | {str(one.get("name")): str(one.get("observedAt")) for one in status.get("nodes") or ()}
