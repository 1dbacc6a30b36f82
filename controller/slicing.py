"""Slices for the components' threads while interference lasts, as the configuration and the evidence have it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from qioi.controller.findings.slice_trial import Look, Trial
from qioi.controller.guard.journal import Journal
from qioi.controller.guard.left import read_left, still_left, store_left
from qioi.controller.guard.restore import Outcome, Result
from qioi.controller.guard.thread_slices import NAME, SliceGuard, restore_threads
from qioi.controller.levers.eevdf import SHORTEST, Kernel, SliceError, default_slice, why_not
from qioi.controller.levers.slices import size
from qioi.kernel.hierarchy import Hierarchy
from qioi.kernel.threads import threads_now
from qioi.model import ChannelReading, Component, DelayReading, Role

log = logging.getLogger("qioi")

#: Seconds after its last commit in which a channel is at work: long enough for one that commits now and then to stay.
AT_WORK = 60.0
#: Verdicts that are remembered, one for each set of channels at work; the one used longest ago goes first.
REMEMBERED = 16


@dataclass(frozen=True, slots=True)
class SliceState:
    """What is done with slices, and why. ``slices`` in force are in ns, by component."""

    mode: str = "off"
    on: bool = False
    text: str = "off"
    slices: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlicePeriod:
    """What a slicer sees of one period, which ended at the monotonic time ``now``.

    ``disturbed``: foreign work keeps the host full while commits are made. ``moved``: somebody's share was changed,
    or is on trial. ``lacking``: a channel is short of what it is owed, and what it waits for is the CPU.
    """

    now: float
    components: Iterable[Component]
    delays: Mapping[str, DelayReading]
    channels: Mapping[str, ChannelReading]
    disturbed: bool
    moved: bool = False
    lacking: bool = False


class StuckSlices:
    """Logs that slices could not be put back, and that they are, once each."""

    def __init__(self) -> None:
        self._stuck = False

    def tell(self, stuck: Outcome | None) -> None:
        """Take in a period's first failure to put a slice back; ``None``: there was none."""
        if stuck is not None and not self._stuck:
            log.warning("slices: %s: %s: tried again in each period", stuck.path, stuck.message)
        if stuck is None and self._stuck:
            log.info("slices: all that could not be put back are back")
        self._stuck = stuck is not None


class NoSlicer:
    """Where slices are off. ``left`` holds those that a daemon before this one has set, which are to be put back."""

    def __init__(self, state: SliceState | None = None, left: SliceGuard | None = None) -> None:
        self._state = state or SliceState()
        self._left = left
        self._stuck = StuckSlices()
        #: Whether every slice was put back at the end.
        self.clean = True

    @property
    def trying(self) -> bool:
        """Nothing is on trial."""
        return False

    def step(self, period: SlicePeriod) -> SliceState:
        """Try to put back what is left."""
        if self._left is not None:
            self._left.look()
            self._stuck.tell(self._left.apply({}).stuck)
        return self._state


class Slicer:
    """Sizes, tries and sets slices."""

    def __init__(self, mode: str, guard: SliceGuard) -> None:
        self._mode = mode
        self._guard = guard
        self._trials: dict[frozenset[str], Trial] = {}
        self._at_work: frozenset[str] = frozenset()
        self._sizes: dict[str, int] = {}
        self._stuck = StuckSlices()
        #: Whether every slice was put back at the end.
        self.clean = True

    @property
    def trying(self) -> bool:
        """Whether phases with and without slices are compared: no share is to be moved for a trial meanwhile."""
        trial = self._trials.get(self._at_work)
        return trial is not None and trial.phase is not None

    def step(self, period: SlicePeriod) -> SliceState:
        """Do one period's work."""
        delays, default = period.delays, self._guard.look()
        its = {one.name: one for one in period.components if one.role is not Role.CLIENT}
        on, text = period.disturbed, "required"
        if self._mode == "auto":
            trial = self._try(period, {name: delays[name] for name in its if name in delays})
            on, text = trial.on, trial.text
        sizes = {}
        for name in its if on else ():
            delay, before = delays.get(name), self._sizes.get(name)  # a look that failed changes nothing
            wanted = before
            if delay is not None and delay.slices:
                wanted = size(delay.run / delay.slices, default, SHORTEST, before)
            if wanted is not None:
                sizes[name] = wanted
        self._sizes = sizes
        counts = self._guard.apply({its[name].cgroup: value for name, value in sizes.items()})
        self._stuck.tell(counts.stuck)
        if counts.problem:
            text = f"{text}; {counts.problem}"
        return SliceState(self._mode, on, text, sizes)

    def _try(self, period: SlicePeriod, delays: Mapping[str, DelayReading]) -> Trial:
        """Continue the trial of the channels at work; channels differ in what slices do for them.

        ``delays`` are the components' that count.
        """
        runnable = sum(one.run + one.wait for one in delays.values())
        at_work = {name: one for name, one in period.channels.items() if one.age is not None and one.age <= AT_WORK}
        key = frozenset(at_work)
        if key != self._at_work and (left := self._trials.get(self._at_work)) is not None:
            self._trials[self._at_work] = left.step(Look(period.now, False, runnable))  # not to be gone on with
        self._at_work = key
        counts = {f"{one.channel} {one.source}": one.committed for one in at_work.values() if one.committed is not None}
        before = self._trials.pop(key, Trial())
        look = Look(period.now, period.disturbed, runnable, counts, period.moved, period.lacking, frozenset(delays))
        after = self._trials[key] = before.step(look)
        if after.verdict is not before.verdict and after.verdict is not None:
            log.info("slices: %s", after.text)
        while len(self._trials) > REMEMBERED:
            del self._trials[next(iter(self._trials))]
        return after


AnySlicer = Slicer | NoSlicer


def lister(hierarchy: Hierarchy) -> Callable[[str], Iterable[int]]:
    """Give how to list a group's threads; none where it is gone. OSError: they cannot be listed."""
    return lambda group: [int(tid) for tid in threads_now(hierarchy.folder(group))]


def find_slices(*, early: bool) -> tuple[Kernel, int]:
    """Give the kernel's slice calls and the default slice in ns. SliceError: the kernel has none, or refuses."""
    if (problem := why_not(os.uname().release, early=early)) is not None:
        raise SliceError(problem)
    kernel = Kernel()
    default = default_slice(kernel)
    if default is None:
        raise SliceError("this kernel takes no slices")
    return kernel, default


def kernel_of_left() -> tuple[Kernel, int]:
    """Give the same to put slices back, whatever the release. SliceError: no slice was ever set on this machine."""
    kernel = Kernel()
    return kernel, default_slice(kernel) or 0


@contextmanager
def slicing(mode: str, early: bool, state_dir: Path, hierarchy: Hierarchy) -> Iterator[AnySlicer]:
    """Give the slicer for this host, and put every slice back at the end. SliceError: required, and not to be had.

    UnreadError: those that a daemon before this one has left are not known.
    Where slices are off, or not to be had, it still puts back those that a daemon before this one has left.
    """
    found, state = _find(mode, early)
    journal = Journal(state_dir, name=NAME)
    left = still_left(journal)
    slicer: AnySlicer = NoSlicer(state)
    guard: SliceGuard | None = None
    failures: list[Outcome] = []
    if found is not None or left:
        try:
            kernel, default = found or kernel_of_left()
            guard = SliceGuard(kernel, journal, lister(hierarchy), default)
            guard.go_on(left)
            slicer = NoSlicer(state, guard) if found is None else Slicer(mode, guard)
        except SliceError as error:  # the journal stays as it is
            failures = [Outcome(str(journal.file), Result.FAILED, None, str(error))]
    try:
        yield slicer
    finally:
        if guard is not None:
            failures = guard.restore()
        slicer.clean = not failures
        for one in failures:
            log.error("restore %s: %s: %s", one.path, one.result, one.message)


def _find(mode: str, early: bool) -> tuple[tuple[Kernel, int] | None, SliceState]:
    """Give the kernel's side of slices, or ``None`` and the state that says why slices are left out. SliceError."""
    if mode == "off":
        return None, SliceState()
    try:
        return find_slices(early=early), SliceState(mode)
    except SliceError as error:
        if mode == "required":
            raise SliceError(f"slices: required: {error}") from None
        log.warning("slices: %s: left out", error)
        return None, SliceState(mode, False, str(error))


def recover_slices(state_dir: Path, hierarchy: Hierarchy) -> tuple[int, list[str]]:
    """Restore what a daemon that died left; give the number of threads that are done with, and problems as text."""
    journal = Journal(state_dir, name=NAME)
    try:
        entries, problems = read_left(journal)
        if not entries:
            return 0, [*problems, *store_left(journal, (), durable=False)]
        kernel, default = kernel_of_left()
    except OSError as error:
        return 0, [f"{journal.file}: {error.strerror}: no slice could be put back"]
    except SliceError as error:
        return 0, [*problems, f"{journal.file}: {error}: no slice could be put back"]
    outcomes, left = restore_threads(kernel, lister(hierarchy), entries, default)
    problems += [f"{one.path}: {one.message}" for one in outcomes if one.result is Result.FAILED]
    done = {one.identity for one in entries} - {one.identity for one in left}
    return len(done), [*problems, *store_left(journal, left, durable=False)]
