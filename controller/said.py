"""Says each problem once for as long as it lasts, and a bounded number of problems."""

from __future__ import annotations

import logging

log = logging.getLogger("qioi")

#: The most problems that are remembered.
MOST = 1000
#: Seconds after which a problem that did not come again is over.
OVER = 600.0


class SaidProblems:
    """Remembers the problems that were logged, and when each came last. Times are monotonic, in seconds."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._full = False

    def say(self, now: float, about: str, message: str) -> None:
        """Log a problem, unless one about the same was logged and is not over yet."""
        came = self._last.get(about)
        if came is None or now - came > OVER:
            self._last = {one: last for one, last in self._last.items() if now - last <= OVER}
            if self._is_full():
                return
            log.warning("%s", message)
        self._last[about] = now

    def _is_full(self) -> bool:
        """Whether there is no room for another problem; log that once, until half of them are over."""
        if len(self._last) >= MOST and not self._full:
            log.warning("%d problems are logged: others are not, until some of these are over", MOST)
            self._full = True
        elif len(self._last) <= MOST // 2:
            self._full = False
        return len(self._last) >= MOST

    def forget(self, prefix: str) -> None:
        """Forget the problems whose ``about`` begins so, because they are over."""
        self._last = {about: last for about, last in self._last.items() if not about.startswith(prefix)}
