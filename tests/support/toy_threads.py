"""A group of threads that a test makes, and the guard of their slices."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from toy_scheduler import DEFAULT, ToyScheduler

from qioi.controller.guard.journal import Journal
from qioi.controller.guard.thread_slices import NAME, SliceGuard


class ToyThreads:
    """Groups that a test fills with threads; those that are ``unlisted`` cannot be listed now."""

    def __init__(self, folder: Path) -> None:
        self.scheduler = ToyScheduler()
        self.groups: dict[str, list[int]] = {"g": [1, 2]}
        self.unlisted: set[str] = set()
        self.journal = Journal(folder, name=NAME)
        self.guard = SliceGuard(self.scheduler, self.journal, self.list, DEFAULT)

    def list(self, group: str) -> list[int]:
        if group in self.unlisted:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self.groups.get(group, [])

    def join(self, tid: int, value: int = DEFAULT) -> None:
        """Have a thread begin in the group."""
        self.scheduler.add(tid, value)
        self.groups["g"].append(tid)

    def end(self, *tids: int) -> None:
        """Have threads of the group end."""
        for tid in tids:
            del self.scheduler.births[tid], self.scheduler.threads[tid]
        self.groups["g"] = [tid for tid in self.groups["g"] if tid not in tids]
