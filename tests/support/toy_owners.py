"""Owners of groups whose one record changes when a test says so."""

from __future__ import annotations

from collections.abc import Mapping

from real_host import Host

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.restore import Result
from qioi.model import Owner

OWNER = Owner("toy", "container")


class ToyOwners:
    """One record. What is asked for is done when the test says so."""

    def __init__(self) -> None:
        self.record = 0
        self.asked: list[int] = []
        self.left: list[Owner] = []
        self.ours: set[int] = set()
        self.problem: str | None = None

    def tell(self, entry: Entry) -> None:
        self.asked.append(entry.ours[-1])
        self.ours.update(entry.ours)

    def done(self) -> None:
        """What was asked for last is on the record."""
        self.record = self.asked[-1]
        self.ours = {self.record}

    def release(self, entry: Entry) -> None:
        self.asked.append(entry.original)
        self.ours.update(entry.ours)

    def leave(self, owner: Owner) -> None:
        self.left.append(owner)

    def kept(self, owner: Owner | None) -> tuple[int, ...]:
        return tuple(self.ours) if owner else ()

    def settle(self) -> Mapping[Owner, str]:
        if self.problem is not None:
            return {OWNER: self.problem}
        if self.asked:
            self.record, self.asked, self.ours = self.asked[-1], [], set()
        return {}


def raised(host: Host, journal: Journal, owners: ToyOwners) -> tuple[Guard, str, int, int]:
    """A group that was raised, and its original and present values, in the file's own unit."""
    guard = Guard(host.hierarchy, host.access, journal, owners)
    path = host.make("a")
    original = host.get(path)
    guard.hold(path, OWNER)
    (outcome,) = guard.apply({path: 4096})
    assert outcome.result is Result.OK
    assert owners.asked == [host.get(path)]
    return guard, path, original, host.get(path)
