"""Errors that a user can correct before anything starts: all problems at once, one line each."""

from __future__ import annotations

from collections.abc import Iterable

from qioi.processes.errors import LabError


class SpecError(LabError):
    """An experiment that cannot be run as it is written. ``problems`` are complete lines."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))
