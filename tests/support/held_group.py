"""A guard that holds a group, and what became of its writes."""

from __future__ import annotations

from real_host import Host

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Journal
from qioi.controller.guard.restore import Result


def results(outcomes: list[object]) -> list[Result]:
    return [outcome.result for outcome in outcomes]  # type: ignore[attr-defined]


def raised(host: Host, journal: Journal, shares: int = 4096) -> tuple[Guard, str]:
    """A guard that holds one group and has raised it."""
    path = host.make("a")
    guard = host.guard(journal)
    guard.hold(path)
    assert results(guard.apply({path: shares})) == [Result.OK]
    return guard, path
