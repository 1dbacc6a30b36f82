"""Restore originals where the value is ours and the place is the same one, or one that its owner recreated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from qioi.controller.guard.journal import Entry
from qioi.controller.guard.owners import Owners
from qioi.controller.guard.rule import Whose, whose
from qioi.controller.levers.lever import Lever
from qioi.kernel.errors import CgroupError, GoneError, KernelError
from qioi.model import Owner


class Result(StrEnum):
    """How a write or a restore ended."""

    OK = "ok"
    SKIPPED = "skipped"  # the value was already in force
    FOREIGN = "foreign"  # somebody else changed the value: left alone
    GONE = "gone"  # the group is removed, or another group has its path
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one write. ``shares`` is the value in force after it, in v1 units, if it is known."""

    path: str
    result: Result
    shares: int | None
    message: str


def failed(path: str, error: KernelError) -> Outcome:
    """Make the outcome of a write that raised ``error``."""
    return Outcome(path, Result.GONE if isinstance(error, GoneError) else Result.FAILED, None, str(error))


def restore_entries(
    lever: Lever[Any], entries: Iterable[Entry], owners: Owners | None = None
) -> tuple[list[Outcome], list[Entry]]:
    """Restore originals; return the outcome of each, and the entries that are still to be restored."""
    owners = owners or Owners()
    outcomes: list[Outcome] = []
    left: list[Entry] = []
    released: dict[Owner, tuple[int, Entry]] = {}
    for entry in entries:
        if not entry.ours:  # never changed by us
            continue
        try:
            outcomes.append(restore_entry(lever, entry, settled=entry.owner is None))
        except GoneError as error:
            outcomes.append(failed(entry.path, error))
        except KernelError as error:
            outcomes.append(unrestored(lever, entry, error))
            left.append(entry)
            continue
        if entry.owner is not None:
            owners.release(entry)
            released[entry.owner] = len(outcomes) - 1, entry
    problems = owners.settle() if released else {}
    for owner, (place, entry) in released.items():
        outcomes[place] = _confirm(lever, entry, outcomes[place], problems.get(owner))
        if owner in problems or outcomes[place].result is Result.FAILED:
            left.append(entry)
    return outcomes, left


def unrestored(lever: Lever[Any], entry: Entry, error: KernelError) -> Outcome:
    """Make the outcome that says why a place could not be restored, which value it has, and which it should have."""
    try:
        now = f"it has {lever.says(lever.read(entry.place))}"
    except KernelError:
        now = "what it has cannot be read"
    return Outcome(entry.path, Result.FAILED, None, f"{error}; {now}, and should have {lever.says(entry.original)}")


def _confirm(lever: Lever[Any], entry: Entry, outcome: Outcome, problem: str | None) -> Outcome:
    """Restore again after waiting for the owner: it may have written our value after the first restore.

    That may happen even where the owner gave no answer.
    """
    try:
        restore_entry(lever, entry)
    except GoneError:
        pass
    except KernelError as error:
        outcome = unrestored(lever, entry, error)
    if problem is None:
        return outcome
    return replace(outcome, message=f"{outcome.message}; the record of its owner is not put back yet: {problem}")


def restore_entry(lever: Lever[Any], entry: Entry, *, settled: bool = True) -> Outcome:
    """Restore one original if the value is still ours and the place is the same, or has an owner that recreated it.

    Until all is ``settled``, an owner may still write one of our values that it was told. KernelError.
    """
    place, path, original = entry.place, entry.path, entry.original
    identity = lever.identity(place)
    same = identity == entry.identity
    if not (same or entry.owner) or entry.file != lever.file:
        raise lever.gone(place)
    current = lever.read(place)
    shown = lever.shown(current, original)
    match whose(current, original, lever.left_by_us(entry.ours)):
        case Whose.ORIGINAL:
            return Outcome(path, Result.SKIPPED, shown, f"is at its original {current}")
        case Whose.FOREIGN:
            return Outcome(path, Result.FOREIGN, shown, f"somebody else has set {current}: left alone")
    lever.write(place, original, identity)
    now = lever.read(place)
    if now != original and (settled or now not in entry.ours):
        raise CgroupError(f"{lever.file} of {place}: wrote {original}, reads {now}")
    said = lever.says(original) if shown is None else f"{current} -> {original}, its original"
    return Outcome(path, Result.OK, lever.shown(original, original), said)
