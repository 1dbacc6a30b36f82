"""Choose the means again where the API server could not be asked at the start, as during its upgrade.

Until it answers, files are written. Its answer is final: rights that are granted later count from the next start on.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Iterable

from qioi.kubernetes.actuators import Means, Offer, choose, resize_offer
from qioi.kubernetes.client import Api

log = logging.getLogger("qioi")

#: Seconds until the API server is asked again. Each pause varies at random by half, so that nodes do not ask at once.
AGAIN = 20.0


class Choice:
    """Holds what is known of the means, and learns from :meth:`start` until :meth:`close` what is not yet known."""

    def __init__(self, found: Iterable[Offer], api: Api) -> None:
        self._api = api
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="qioi-means", daemon=True)
        #: The newest offers: the same tuple while nothing is learned.
        self.offers = tuple(found)

    @property
    def is_open(self) -> bool:
        """Whether an answer that is missing could change the choice."""
        preferred = self.offers[: self.offers.index(choose(self.offers))]
        return any(one.unanswered for one in preferred)

    def start(self) -> None:
        """Start the thread if something is not known."""
        if self.is_open:
            self._thread.start()

    def close(self) -> None:
        """Stop asking. A question that waits for its answer fails: others need the connection at the end."""
        self._stop.set()
        self._api.interrupt(self._thread)

    def look(self) -> None:
        """Ask the API server once."""
        answer = resize_offer(True, self._api, 0.0)
        if not answer.unanswered:
            self.offers = tuple(answer if one.means is Means.RESIZE else one for one in self.offers)
            log.info("actuator %s: the API server answers: %s", answer.means, answer.text)

    def _run(self) -> None:
        while self.is_open and not self._stop.wait(AGAIN * random.uniform(0.5, 1.5)):
            try:
                self.look()
            except Exception:  # whatever the server answers must not end the thread
                log.exception("kubernetes means")
