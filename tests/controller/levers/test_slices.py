"""Slices: sized by what a thread runs, journalled before they are set, and put back; nobody else's touched."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qioi.controller.guard.journal import Journal
from qioi.controller.guard.thread_slices import NAME, Counts, SliceGuard, restore_threads
from qioi.controller.levers import eevdf
from qioi.controller.levers.eevdf import Attributes, Kernel, SliceError, ThreadGoneError, default_slice, why_not
from qioi.controller.levers.slices import size

DEFAULT = 2_800_000


class ToyScheduler:
    """Threads that a test makes: their attributes and birthdays."""

    def __init__(self) -> None:
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
            attributes.policy, attributes.flags, attributes.nice, attributes.slice or DEFAULT
        )

    def born(self, tid: int) -> int:
        if tid not in self.births:
            raise ThreadGoneError(f"thread {tid}")
        return self.births[tid]

    def slices(self) -> dict[int, int]:
        return {tid: one.slice for tid, one in self.threads.items()}


class Toy:
    def __init__(self, folder: Path) -> None:
        self.scheduler = ToyScheduler()
        self.groups: dict[str, list[int]] = {"g": [1, 2]}
        self.journal = Journal(folder, name=NAME)
        self.guard = SliceGuard(self.scheduler, self.journal, self.list, DEFAULT)

    def list(self, group: str) -> list[int]:
        return self.groups.get(group, [])


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    toy = Toy(tmp_path)
    toy.scheduler.add(1)
    toy.scheduler.add(2, 5_000_000)
    return toy


def test_set_refreshed_and_put_back(toy: Toy) -> None:
    assert toy.guard.apply({"g": 300_000}) == Counts(set=2)
    assert toy.guard.apply({"g": 300_000}) == Counts()
    assert toy.scheduler.threads[1] == Attributes(0, 1, -5, 300_000)  # policy, flags and nice are kept
    toy.groups["g"].append(3)
    toy.scheduler.add(3, 300_000)  # made by one of them, and has its slice from there
    toy.groups["g"].append(4)
    toy.scheduler.add(4)
    assert toy.guard.apply({"g": 300_000}) == Counts(set=1)
    assert toy.guard.apply({"g": 400_000}) == Counts(set=4)
    assert toy.guard.restore() == []
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000, 3: DEFAULT, 4: DEFAULT}
    assert not toy.journal.file.exists()


def test_a_group_that_is_not_wanted_any_more_is_put_back(toy: Toy) -> None:
    toy.guard.apply({"g": 300_000})
    assert toy.guard.apply({}) == Counts()
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000}


def test_threads_that_are_not_fair_or_gone_are_left_out(toy: Toy) -> None:
    toy.scheduler.add(3, 0, policy=2)
    toy.groups["g"] += [3, 99]
    assert toy.guard.apply({"g": 300_000}) == Counts(set=2)
    assert toy.scheduler.slices()[3] == 0


def test_what_somebody_else_sets_is_left_alone(toy: Toy) -> None:
    toy.guard.apply({"g": 300_000})
    toy.scheduler.add(1, 777_777)
    assert toy.guard.apply({"g": 400_000}) == Counts(set=1, foreign=1)
    assert toy.guard.apply({"g": 500_000}) == Counts(set=1)
    assert toy.guard.restore() == []
    assert toy.scheduler.slices() == {1: 777_777, 2: 5_000_000}


def test_a_recycled_number_is_never_touched(toy: Toy) -> None:
    toy.guard.apply({"g": 300_000})
    toy.scheduler.add(1, 300_000, born=9999)  # another thread, outside of the group, with just that slice
    toy.groups["g"] = [2]
    assert toy.guard.restore() == []
    assert toy.scheduler.slices() == {1: 300_000, 2: 5_000_000}
    toy.groups["g"] = [1, 2]
    toy.guard.apply({"g": 300_000})
    toy.scheduler.births[2] = 5
    assert toy.guard.apply({"g": 400_000}) == Counts(set=1)


def test_a_thread_that_ends_is_forgotten(toy: Toy) -> None:
    toy.guard.apply({"g": 300_000})
    del toy.scheduler.births[1]
    assert toy.guard.apply({"g": 400_000}) == Counts(set=1)
    del toy.scheduler.births[2]
    assert toy.guard.restore() == []
    assert not toy.journal.file.exists()


def test_one_that_fails_does_not_stop_the_others_and_is_kept_for_later(toy: Toy) -> None:
    toy.scheduler.broken = {1}
    counts = toy.guard.apply({"g": 300_000})
    assert (counts.set, counts.failed, counts.problem) == (1, 1, "thread 1: not permitted")
    toy.scheduler.broken = set()
    toy.guard.apply({"g": 400_000})
    toy.scheduler.broken = {1}
    assert toy.guard.restore() == ["slice of thread 1 in g could not be put back"]
    assert [entry.place for entry in toy.journal.load().entries] == [1]
    toy.scheduler.broken = set()
    assert toy.guard.restore() == []
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000}


def test_without_a_journal_nothing_is_set(toy: Toy, tmp_path: Path) -> None:
    (tmp_path / "slices.new").mkdir()  # no file can be written there
    counts = toy.guard.apply({"g": 300_000})
    assert "no slice is set without it" in str(counts.problem)
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000}
    (tmp_path / "slices.new").rmdir()
    assert toy.guard.apply({"g": 300_000}) == Counts(set=2)


def test_after_a_crash_the_journal_puts_back_threads_and_what_they_have_made_since(toy: Toy) -> None:
    toy.guard.apply({"g": 300_000})
    toy.groups["g"] += [3, 4]
    toy.scheduler.add(3, 300_000)
    toy.scheduler.add(4, 600_000)
    toy.groups["g"].append(99)
    entries = toy.journal.load().entries
    assert restore_threads(toy.scheduler, toy.list, entries, DEFAULT) == []
    assert toy.scheduler.slices() == {1: DEFAULT, 2: 5_000_000, 3: DEFAULT, 4: 600_000}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.integers(1, 6), st.integers(100_000, 9_000_000), max_size=6),
    st.lists(st.dictionaries(st.sampled_from("gh"), st.integers(100_000, 2_000_000)), max_size=6),
)
def test_restore_is_identity(tmp_path: Path, found: dict[int, int], rounds: list[dict[str, int]]) -> None:
    toy = Toy(tmp_path)
    toy.groups = {"g": [tid for tid in found if tid % 2], "h": [tid for tid in found if not tid % 2]}
    for tid, value in found.items():
        toy.scheduler.add(tid, value)
    for wanted in rounds:
        toy.guard.apply(wanted)
    assert toy.guard.restore() == []
    assert toy.scheduler.slices() == found


@pytest.mark.parametrize(
    ("run", "before", "expected"),
    [
        (0.00005, None, 100_000),
        (0.00001, None, 100_000),
        (0.0002, None, 400_000),
        (0.0002, 350_000, 350_000),
        (0.0002, 200_000, 400_000),
        (0.0012, None, None),  # longer than the default serves: nothing is to be gained
    ],
)
def test_sized_by_what_a_component_runs_at_a_stretch(run: float, before: int | None, expected: int | None) -> None:
    assert size(run, DEFAULT, 100_000, before) == expected


@pytest.mark.parametrize(
    ("release", "early", "reason"),
    [
        ("6.18.44-fc", False, None),
        ("6.15.0", False, None),
        ("6.12.1", False, "older than 6.15 (slices_before_6_15"),
        ("6.12.1", True, None),
        ("5.10.0-28", True, "older than 6.12"),
        ("who knows", False, "older than 6.15"),
    ],
)
def test_kernels(release: str, early: bool, reason: str | None) -> None:
    said = why_not(release, early=early)
    assert said is None if reason is None else reason in str(said)


def test_a_machine_whose_calls_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eevdf.platform, "machine", lambda: "vax")
    with pytest.raises(SliceError, match="vax are not known"):
        Kernel()


# ---- the kernel itself

SPAWN = "import threading, sys, time\n" \
        "grow = lambda: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n" \
        "grow()\nprint('up', flush=True)\n" \
        "for line in sys.stdin: grow(); print('more', flush=True)"  # fmt: skip


@pytest.fixture
def kernel() -> tuple[Kernel, int]:
    kernel = Kernel()
    default = default_slice(kernel)
    if default is None:
        pytest.skip("this kernel has no slices (they are from 6.12 on)")
    return kernel, default


@contextlib.contextmanager
def child() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", SPAWN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def tids(process: subprocess.Popen[str]) -> list[int]:
    return sorted(int(name.name) for name in Path(f"/proc/{process.pid}/task").iterdir())


def grow(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()


def test_real_threads_keep_all_but_their_slice(kernel: tuple[Kernel, int], tmp_path: Path) -> None:
    calls, default = kernel
    with child() as process:
        main = process.pid
        os.setpriority(os.PRIO_PROCESS, main, 3)
        os.sched_setscheduler(main, os.SCHED_BATCH | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        before = {tid: calls.read(tid) for tid in tids(process)}
        assert before[main] == Attributes(os.SCHED_BATCH, eevdf.RESET_ON_FORK, 3, default)
        guard = SliceGuard(calls, Journal(tmp_path, name=NAME), lambda _: tids(process), default)
        assert guard.apply({"g": 300_000}).set == 2
        assert calls.read(main) == Attributes(os.SCHED_BATCH, eevdf.RESET_ON_FORK, 3, 300_000)
        grow(process)
        guard.apply({"g": 300_000})
        assert {calls.read(tid).slice for tid in tids(process)} == {300_000}
        grow(process)  # this one the guard never sees before the end
        assert guard.restore() == []
        after = {tid: calls.read(tid) for tid in tids(process)}
        assert {tid: after[tid] for tid in before} == before
        assert {one.slice for one in after.values()} == {default}


def test_clamps_of_utilisation_are_kept(kernel: tuple[Kernel, int]) -> None:
    calls, _ = kernel
    text = eevdf.LAYOUT.pack(eevdf.LAYOUT.size, 0, 0x18 | 0x20 | 0x40, 0, 0, 0, 0, 0, 100, 900)  # keep all, set clamps
    with child() as process:
        if ctypes.CDLL(None).syscall(calls._set, process.pid, ctypes.create_string_buffer(text, len(text)), 0):
            pytest.skip("this kernel has no utilisation clamps")

        def clamps() -> tuple[int, ...]:
            buffer = ctypes.create_string_buffer(eevdf.LAYOUT.size)
            ctypes.CDLL(None).syscall(calls._get, process.pid, buffer, eevdf.LAYOUT.size, 0)
            return eevdf.LAYOUT.unpack(buffer.raw)[-2:]

        assert clamps() == (100, 900)
        calls.write(process.pid, Attributes(0, 0, 0, 300_000))
        assert clamps() == (100, 900)


def test_a_thread_that_is_gone_and_one_that_may_not_be_set(kernel: tuple[Kernel, int]) -> None:
    calls, _ = kernel
    with child() as process:
        gone = process.pid  # waited for at the end of this block
    for act in (calls.read, calls.born, lambda tid: calls.write(tid, Attributes(0, 0, 0, 0))):
        with pytest.raises(ThreadGoneError):
            act(gone)
    with pytest.raises(SliceError, match="Invalid argument"):
        calls.write(0, Attributes(99, 0, 0, 0))


def test_a_kernel_that_takes_no_slices() -> None:
    class Old(ToyScheduler):
        def write(self, tid: int, attributes: Attributes) -> None:
            self.threads[tid] = Attributes(0, 0, 0, 0)

    assert default_slice(Old()) is None

    class Refusing(ToyScheduler):
        def write(self, tid: int, attributes: Attributes) -> None:
            raise SliceError("no")

    assert default_slice(Refusing()) is None
