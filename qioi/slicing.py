"""Slices for the components' threads while interference lasts, as the configuration and the evidence have it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from qioi.controller.eevdf import SHORTEST, Kernel, SliceError, default_slice, why_not
from qioi.controller.hierarchy import Hierarchy
from qioi.controller.journal import Journal
from qioi.controller.slice_trial import Trial
from qioi.controller.slices import NAME, SliceGuard, restore_threads, size
from qioi.stalls import threads
from qioi.types import Component, DelayReading, Role

log = logging.getLogger("qioi")


@dataclass(frozen=True, slots=True)
class SliceState:
    """What is done with slices, and why. ``slices`` are in ns, by component, as long as they are in force."""

    mode: str = "off"
    on: bool = False
    text: str = "off"
    slices: Mapping[str, int] = field(default_factory=dict)


class NoSlicer:
    """Where slices are off."""

    def __init__(self, state: SliceState | None = None) -> None:
        self._state = state or SliceState()

    def step(
        self, now: float, components: Iterable[Component], delays: Mapping[str, DelayReading], disturbed: bool
    ) -> SliceState:
        """Nothing to do."""
        return self._state


class Slicer:
    """Sizes, tries and sets slices."""

    def __init__(self, mode: str, guard: SliceGuard, default: int) -> None:
        self._mode = mode
        self._guard = guard
        self._default = default
        self._trial = Trial()
        self._sizes: dict[str, int] = {}

    def step(
        self, now: float, components: Iterable[Component], delays: Mapping[str, DelayReading], disturbed: bool
    ) -> SliceState:
        """Do one period's work; ``disturbed`` says that foreign work keeps the host full while commits are made."""
        its = {one.name: one for one in components if one.role is not Role.CLIENT and one.name in delays}
        if self._mode == "auto":
            run, wait = (sum(getattr(delays[name], key) for name in its) for key in ("run", "wait"))
            before, self._trial = self._trial, self._trial.step(now, disturbed, run, wait)
            if self._trial.verdict is not before.verdict and self._trial.verdict is not None:
                log.info("slices: %s", self._trial.text)
            on, text = self._trial.on, self._trial.text
        else:
            on, text = disturbed, "required"
        sizes = {}
        for name in its if on else ():
            slices = delays[name].slices
            wanted = size(delays[name].run / slices, self._default, SHORTEST, self._sizes.get(name)) if slices else None
            if wanted is not None:
                sizes[name] = wanted
        self._sizes = sizes
        counts = self._guard.apply({its[name].cgroup: value for name, value in sizes.items()})
        if counts.problem:
            text = f"{text}; {counts.problem}"
        return SliceState(self._mode, on, text, sizes)


AnySlicer = Slicer | NoSlicer


def threads_of(hierarchy: Hierarchy) -> Callable[[str], Iterable[int]]:
    """Give how to list a group's threads."""
    return lambda group: [int(tid) for tid in threads(hierarchy.folder(group))]


@contextmanager
def slicing(mode: str, early: bool, state_dir: Path, hierarchy: Hierarchy) -> Iterator[AnySlicer]:
    """Give the slicer for this host, and put every slice back at the end. SliceError: required, and not to be had."""
    if mode == "off":
        yield NoSlicer()
        return
    problem = why_not(os.uname().release, early=early)
    default = None
    try:
        kernel = Kernel()
        default = None if problem else default_slice(kernel)
    except SliceError as error:
        problem = str(error)
    if default is None:
        problem = problem or "this kernel takes no slices"
        if mode == "required":
            raise SliceError(f"slices: required: {problem}")
        log.warning("slices: %s: left out", problem)
        yield NoSlicer(SliceState(mode, False, problem))
        return
    guard = SliceGuard(kernel, Journal(state_dir, name=NAME), threads_of(hierarchy), default)
    try:
        yield Slicer(mode, guard, default)
    finally:
        try:
            for problem in guard.restore():
                log.error("%s", problem)
        except OSError as error:
            log.error("the journal of slices could not be emptied: %s", error)


def recover_slices(state_dir: Path, hierarchy: Hierarchy) -> tuple[int, list[str]]:
    """Put back what a daemon that died has left; give how many threads were named, and what is left, in words."""
    journal = Journal(state_dir, name=NAME)
    try:
        loaded = journal.load()
        if not loaded.entries and not loaded.problems:
            return 0, []
        problems = [f"{journal.file}: {problem}" for problem in loaded.problems]
        if problems:
            journal.set_aside()
        kernel = Kernel()
        left = restore_threads(kernel, threads_of(hierarchy), loaded.entries, default_slice(kernel) or 0)
        journal.store(left, durable=False)
    except (OSError, SliceError) as error:
        return 0, [f"{journal.file}: {error}: no slice could be put back"]
    problems += [f"slice of thread {entry.device} in {entry.path} could not be put back" for entry in left]
    return len(loaded.entries), problems
