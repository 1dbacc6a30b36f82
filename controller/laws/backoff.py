"""Try, and the more often it has hurt the longer wait for the next try."""

from __future__ import annotations

import math
from typing import NamedTuple


class Backoff(NamedTuple):
    """Something that may be tried again at ``until``. ``wait`` is the time between two tries, 0 while none has hurt.

    Times in seconds. A try has hurt if what follows within :data:`RELAPSE` of it says so.
    """

    wait: float = 0.0
    until: float = -math.inf
    tried_at: float = -math.inf

    def tried(self, now: float) -> Backoff:
        """Note a try, after which the next one may come when ``wait`` has passed."""
        return Backoff(self.wait, now + self.wait, now)

    def put_off(self, now: float) -> Backoff:
        """Leave a try out."""
        return self._replace(until=now + self.wait)

    def is_recent(self, now: float) -> bool:
        """Whether a try is so recent that it may have hurt."""
        return now - self.tried_at <= RELAPSE

    def hurt(self, now: float, first: float, most: float) -> Backoff:
        """Double the wait, from ``first`` to ``most``; it begins now."""
        wait = min(most, max(first, 2 * self.wait))
        return Backoff(wait, now + wait)


#: What is needed so many seconds after a try is the try's doing.
RELAPSE = 15.0
