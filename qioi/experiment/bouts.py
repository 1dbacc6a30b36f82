"""Neighbours that work in bouts: stopped and continued by turns, as jobs do that wait for something else."""

from __future__ import annotations

import signal
import threading

from qioi.experiment.neighbours import Neighbours, Untold
from qioi.processes.cgroups import Group


class Bouts(Untold):
    """Neighbours that work for ``seconds`` and rest for as long, by SIGSTOP and SIGCONT, from their start on.

    A thread does it: the loop that samples is too slow for bouts of tenths of a second. Whatever is stopped goes on
    before the end, so that it can end in its own way. What neighbours say of their work while they are stopped now and
    then is not to be relied on, so only their CPU time counts.
    """

    def __init__(self, neighbours: Neighbours, seconds: float) -> None:
        self._neighbours, self._seconds = neighbours, seconds
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: OSError | None = None
        self.names = neighbours.names

    @property
    def groups(self) -> tuple[Group, ...]:
        """Their control groups."""
        return self._neighbours.groups

    def prepare(self) -> None:
        """Prepare a place for each."""
        self._neighbours.prepare()

    def start(self) -> None:
        """Start them with a bout of work."""
        self._neighbours.start()
        self._thread = threading.Thread(target=self._alternate, name="bouts")
        self._thread.start()

    def check(self) -> None:
        """Raise if one has ended by itself, or they could not be stopped or continued."""
        if self._error is not None:
            raise self._error
        self._neighbours.check()

    def stop(self) -> None:
        """Let them go on, and end them."""
        self._over.set()
        try:
            if self._thread is not None and self._thread.ident is not None:  # it had begun before an interruption
                self._thread.join()
        finally:  # whoever interrupts the wait wants them to end all the more
            self._neighbours.stop()

    def _alternate(self) -> None:
        try:
            while not self._over.wait(self._seconds):
                self._send(signal.SIGSTOP)
                self._over.wait(self._seconds)
                self._send(signal.SIGCONT)
        except OSError as error:
            self._error = error

    def _send(self, number: signal.Signals) -> None:
        for group in self.groups:
            group.signal(number)
