"""Threads that a test makes: what the kernel would say of their slices."""

from __future__ import annotations

from qioi.controller.levers.eevdf import Attributes, SliceError, ThreadGoneError

DEFAULT = 2_800_000


class ToyScheduler:
    """Threads that a test makes: their attributes and birthdays."""

    def __init__(self) -> None:
        self.default = DEFAULT
        self.threads: dict[int, Attributes] = {}
        self.births: dict[int, int] = {}
        self.broken: set[int] = set()

    def add(self, tid: int, value: int = DEFAULT, policy: int = 0, born: int | None = None) -> None:
        self.threads[tid] = Attributes(policy, 1, -5, value)
        self.births[tid] = 100 + tid if born is None else born

    def read(self, tid: int) -> Attributes:
        if tid not in self.threads:
            raise ThreadGoneError(f"thread {tid}")
        return self.threads[tid]

    def write(self, tid: int, attributes: Attributes) -> None:
        if tid in self.broken:
            raise SliceError(f"thread {tid}: not permitted")
        self.threads[tid] = Attributes(
            attributes.policy, attributes.flags, attributes.nice, attributes.slice or self.default
        )

    def born(self, tid: int) -> int:
        if tid not in self.births:
            raise ThreadGoneError(f"thread {tid}")
        return self.births[tid]

    def slices(self) -> dict[int, int]:
        """Give what the test's threads have, and not the one that is asked for the default."""
        return {tid: one.slice for tid, one in self.threads.items() if tid in self.births}
