"""Room that lasts: a moment of it does not show that neighbours are gone."""

from __future__ import annotations

import math

#: Seconds of room after which neighbours are gone.
ROOM_FOR = 3.0


class LastingRoom:
    """Remembers when some CPUs were last full; before the first period they count as free."""

    def __init__(self) -> None:
        self._full_at = -math.inf

    def step(self, now: float, room: bool) -> bool:
        """Take one period in, at ``now`` in seconds, with or without ``room``; say whether room has lasted."""
        if not room:
            self._full_at = now
        return now - self._full_at >= ROOM_FOR
