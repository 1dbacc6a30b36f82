"""Putting originals back: where the value is ours, and the group the same one, or made anew by its owner."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from qioi.controller.guard.journal import Entry
from qioi.controller.levers.files import Access
from qioi.controller.levers.owner import Owners
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.kernel.hierarchy import Hierarchy


class Result(StrEnum):
    """How a write or a restore ended."""

    OK = "ok"
    SKIPPED = "skipped"  # the value was there already
    FOREIGN = "foreign"  # somebody else has changed it: left alone
    GONE = "gone"  # the group is, or another one has its path
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one write. ``shares`` is the value in force after it, in v1 units, if it is known."""

    path: str
    result: Result
    shares: int | None
    message: str


def identity(hierarchy: Hierarchy, path: str) -> tuple[int, int]:
    """Device and inode of a group's folder."""
    folder = f"{hierarchy.mount}/{path}"  # a Path takes longer than the call, and this is done for every group
    try:
        found = os.stat(folder)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        raise CgroupGoneError(f"{folder}: no such control group") from None
    except OSError as error:
        raise CgroupError(f"{folder}: {error.strerror}") from error
    return found.st_dev, found.st_ino


def restore_entries(
    hierarchy: Hierarchy, access: Access, entries: Iterable[Entry], owners: Owners
) -> tuple[list[Outcome], list[Entry]]:
    """Put originals back; return what came of each, and the entries that are still to be restored."""
    outcomes: list[Outcome] = []
    left: list[Entry] = []
    released: dict[str, tuple[int, Entry]] = {}
    for entry in entries:
        if not entry.ours:  # never changed by us
            continue
        try:
            outcomes.append(restore_entry(hierarchy, access, entry, settled=not entry.owner))
        except CgroupGoneError as error:
            outcomes.append(Outcome(entry.path, Result.GONE, None, str(error)))
        except CgroupError as error:
            outcomes.append(Outcome(entry.path, Result.FAILED, None, str(error)))
            left.append(entry)
            continue
        if entry.owner:
            owners.release(entry)
            released[entry.owner] = len(outcomes) - 1, entry
    problems = owners.settle() if released else {}
    for owner, (place, entry) in released.items():
        outcomes[place] = _confirm(hierarchy, access, entry, outcomes[place], problems.get(owner))
        if owner in problems or outcomes[place].result is Result.FAILED:
            left.append(entry)
    return outcomes, left


def _confirm(hierarchy: Hierarchy, access: Access, entry: Entry, outcome: Outcome, problem: str | None) -> Outcome:
    """Look again after the owner was waited for: what it was told last may have come after us, also if it is silent."""
    try:
        restore_entry(hierarchy, access, entry)
    except CgroupGoneError:
        pass
    except CgroupError as error:
        outcome = Outcome(entry.path, Result.FAILED, None, str(error))
    if problem is None:
        return outcome
    return replace(outcome, message=f"{outcome.message}; the record of its owner is not put back yet: {problem}")


def restore_entry(hierarchy: Hierarchy, access: Access, entry: Entry, *, settled: bool = True) -> Outcome:
    """Put one original back if the value is still ours, and the group the same or, by its owner, made anew.

    Until all is ``settled``, an owner may yet write a value of ours that it was told.
    """
    same = identity(hierarchy, entry.path) == (entry.device, entry.inode)
    if not (same or entry.owner) or entry.file != hierarchy.file:
        raise CgroupGoneError(f"{hierarchy.folder(entry.path)}: another group has that path now")
    current = access.read(entry.path)
    shares = hierarchy.shares(current, entry.original)
    if current == entry.original:
        return Outcome(entry.path, Result.SKIPPED, shares, f"is at its original {current}")
    if current not in entry.ours:
        return Outcome(entry.path, Result.FOREIGN, shares, f"somebody else has set {current}: left alone")
    access.write(entry.path, entry.original)
    now = access.read(entry.path)
    if now != entry.original and (settled or now not in entry.ours):
        raise CgroupError(f"{hierarchy.folder(entry.path)}: wrote {entry.original}, reads {now}")
    shares = hierarchy.shares(entry.original, entry.original)
    return Outcome(entry.path, Result.OK, shares, f"{current} -> {entry.original}, its original")
