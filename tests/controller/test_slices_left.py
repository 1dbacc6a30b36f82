"""Slices at the end of a daemon, and those that a daemon before it has left: what cannot be put back is said."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest
from toy_scheduler import DEFAULT, ToyScheduler

from qioi.controller.guard.journal import Journal
from qioi.controller.guard.left import UnreadError
from qioi.controller.levers.eevdf import Kernel, SliceError
from qioi.controller.slicing import NoSlicer, SlicePeriod, Slicer, SliceState, recover_slices, slicing
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Component, DelayReading, Role


def full(*_: object, durable: bool = True) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_damaged_journal_of_slices_is_said_and_set_aside(tmp_path: Path) -> None:
    (tmp_path / "slices").write_text("half")
    count, problems = recover_slices(tmp_path, Hierarchy(2, tmp_path))
    assert count == 0
    assert "half-written or damaged" in problems[0]
    assert (tmp_path / "slices.damaged").read_text() == "half"
    assert recover_slices(tmp_path, Hierarchy(2, tmp_path)) == (0, [])


def test_a_damaged_journal_of_slices_stays_where_it_cannot_be_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Journal, "set_aside", full)
    (tmp_path / "slices").write_text("half")
    why = "line 1: half-written or damaged; it cannot be set aside: No space left on device: no slice could be put back"
    assert recover_slices(tmp_path, Hierarchy(2, tmp_path)) == (0, [f"{tmp_path}/slices: {why}"])
    assert (tmp_path / "slices").read_text() == "half"


@pytest.fixture
def site_of_toy_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToyScheduler:
    """A kernel with slices, and one group with one thread."""
    scheduler = ToyScheduler()
    scheduler.add(7)
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "cgroup.threads").write_text("7\n")
    monkeypatch.setattr("qioi.controller.slicing.find_slices", lambda early: (scheduler, DEFAULT))
    monkeypatch.setattr("qioi.controller.slicing.Kernel", lambda: scheduler)
    monkeypatch.setattr("qioi.controller.slicing.default_slice", lambda _: DEFAULT)
    return scheduler


def in_force(slicer: Slicer | NoSlicer) -> SliceState:
    delays = {"p": DelayReading("p", 0.02, 0.1, 100, 1.0)}
    return slicer.step(SlicePeriod(0.0, [Component("p", Role.PEER, "g")], delays, {}, True))


def test_slices_are_put_back_at_the_end_and_what_cannot_be_is_said(
    tmp_path: Path, site_of_toy_threads: ToyScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    threads = site_of_toy_threads
    with slicing("required", False, tmp_path, Hierarchy(1, tmp_path)) as slicer:
        assert in_force(slicer).slices == {"p": 400_001}
        assert threads.slices() == {7: 400_001}
    assert (threads.slices(), caplog.messages, slicer.clean) == ({7: DEFAULT}, [], True)
    with slicing("required", False, tmp_path, Hierarchy(1, tmp_path)) as slicer:
        in_force(slicer)
        threads.broken = {7}
    why = "thread 7: not permitted; it has a slice of 400001 ns, and should have a slice of 2800000 ns"
    assert (caplog.messages, slicer.clean) == ([f"restore g: failed: {why}"], False)
    assert recover_slices(tmp_path, Hierarchy(1, tmp_path)) == (0, [f"g: {why}"])
    threads.broken = set()
    assert recover_slices(tmp_path, Hierarchy(1, tmp_path)) == (1, [])
    assert threads.slices() == {7: DEFAULT}
    assert recover_slices(tmp_path, Hierarchy(1, tmp_path)) == (0, [])


def refuse_slices(early: bool) -> None:
    raise SliceError("the kernel is too old")


@pytest.fixture
def left(tmp_path: Path, site_of_toy_threads: ToyScheduler, caplog: pytest.LogCaptureFixture) -> ToyScheduler:
    """A thread whose slice a daemon has set and could not put back."""
    with slicing("required", False, tmp_path, Hierarchy(1, tmp_path)) as slicer:
        in_force(slicer)
        site_of_toy_threads.broken = {7}
    caplog.clear()
    caplog.set_level(logging.INFO, "qioi")
    return site_of_toy_threads


@pytest.mark.parametrize(("mode", "refused"), [("required", False), ("off", False), ("auto", True)])
def test_slices_that_cannot_be_put_back_for_a_while_are_said_once_and_when_they_are(
    tmp_path: Path,
    left: ToyScheduler,
    mode: str,
    refused: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    threads, calm = left, SlicePeriod(1.0, [], {}, {}, True)
    if refused:
        monkeypatch.setattr("qioi.controller.slicing.find_slices", refuse_slices)
    with slicing(mode, False, tmp_path, Hierarchy(1, tmp_path)) as slicer:  # the next daemon
        caplog.clear()
        for _ in range(3):
            slicer.step(calm)
        threads.broken = set()
        for _ in range(3):
            slicer.step(calm)
        assert threads.slices() == {7: DEFAULT}
    why = "thread 7: not permitted; it has a slice of 400001 ns, and should have a slice of 2800000 ns"
    assert caplog.messages == [
        f"slices: g: {why}: tried again in each period",
        "slices: all that could not be put back are back",
    ]
    assert slicer.clean
    assert not (tmp_path / "slices").exists()


def test_where_slices_are_off_what_is_still_left_at_the_end_is_said_and_not_clean(
    tmp_path: Path, left: ToyScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    with slicing("off", False, tmp_path, Hierarchy(1, tmp_path)) as slicer:
        assert slicer.step(SlicePeriod(1.0, [], {}, {}, False)) == SliceState()
        caplog.clear()
    why = "thread 7: not permitted; it has a slice of 400001 ns, and should have a slice of 2800000 ns"
    assert (caplog.messages, slicer.clean, left.slices()) == ([f"restore g: failed: {why}"], False, {7: 400_001})
    assert [one.place for one in Journal(tmp_path, name="slices").load().entries] == [7]


def test_an_unknown_architecture_ends_no_daemon_without_slices(
    tmp_path: Path, left: ToyScheduler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As below a personality(2) of another machine: setarch(8)."""
    monkeypatch.setattr("qioi.controller.slicing.Kernel", Kernel)
    monkeypatch.setattr("platform.machine", lambda: "i686")
    before = (tmp_path / "slices").read_bytes()
    with slicing("off", False, tmp_path, Hierarchy(1, tmp_path)) as slicer:
        assert slicer.step(SlicePeriod(1.0, [], {}, {}, False)) == SliceState()
    (said,) = caplog.messages
    assert said.startswith(f"restore {tmp_path}/slices: failed: slices: the system calls of i686 are not known")
    assert (slicer.clean, (tmp_path / "slices").read_bytes()) == (False, before)


def test_a_recovery_of_slices_says_what_it_could_do(
    tmp_path: Path, site_of_toy_threads: ToyScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    with slicing("required", False, tmp_path, Hierarchy(1, tmp_path)) as slicer:
        in_force(slicer)
        kept = (tmp_path / "slices").read_bytes()
    (tmp_path / "slices").write_bytes(kept)
    site_of_toy_threads.add(7, 400_001)

    def without() -> ToyScheduler:
        raise SliceError("no such call")

    with monkeypatch.context() as patch:
        patch.setattr("qioi.controller.slicing.Kernel", without)
        assert recover_slices(tmp_path, Hierarchy(1, tmp_path)) == (
            0, [f"{tmp_path}/slices: no such call: no slice could be put back"]
        )  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "store", full)
        assert recover_slices(tmp_path, Hierarchy(1, tmp_path)) == (
            1, [f"{tmp_path}/slices: No space left on device: it stays as it was, and names what was restored, too"]
        )  # fmt: skip
    assert site_of_toy_threads.slices() == {7: DEFAULT}


def test_a_group_that_cannot_be_listed_stays_in_the_journal_for_the_next_recovery(
    tmp_path: Path, site_of_toy_threads: ToyScheduler
) -> None:
    threads, file = site_of_toy_threads, tmp_path / "g" / "cgroup.threads"
    with slicing("required", False, tmp_path, Hierarchy(1, tmp_path)) as slicer:
        in_force(slicer)
        kept = (tmp_path / "slices").read_bytes()
    (tmp_path / "slices").write_bytes(kept)
    threads.add(7, 400_001)
    threads.add(8, 400_001)  # made by that one
    file.unlink()
    file.mkdir()  # it can be opened, and not be read
    assert recover_slices(tmp_path, Hierarchy(1, tmp_path)) == (
        0, ["g: its threads cannot be listed (Is a directory): new ones may have inherited a slice"]
    )  # fmt: skip
    assert threads.slices() == {7: DEFAULT, 8: 400_001}
    file.rmdir()
    file.write_text("7\n8\n")
    assert recover_slices(tmp_path, Hierarchy(1, tmp_path)) == (1, [])
    assert threads.slices() == {7: DEFAULT, 8: DEFAULT}


def test_a_journal_of_slices_that_cannot_be_emptied_is_said(
    tmp_path: Path, site_of_toy_threads: ToyScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    (state := tmp_path / "state").mkdir()
    with slicing("required", False, state, Hierarchy(1, tmp_path)) as slicer:
        in_force(slicer)
        (state / "slices").unlink()
        (state / "slices").mkdir()
    assert site_of_toy_threads.slices() == {7: DEFAULT}
    (message,) = caplog.messages
    assert message.startswith(f"restore {state}/slices: failed: the journal cannot be written (Is a directory): ")
    assert not slicer.clean


def test_a_journal_of_slices_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "slices").mkdir()
    assert recover_slices(tmp_path, Hierarchy(1, tmp_path)) == (
        0, [f"{tmp_path}/slices: not a regular file: no slice could be put back"]
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["off", "required"])
def test_a_journal_of_slices_that_cannot_be_read_is_not_replaced(
    tmp_path: Path, left: ToyScheduler, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that went on emptied it at its end, and the slices in it stayed for good."""

    def fails(_: Journal) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    before = (tmp_path / "slices").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "load", fails)
        with (
            pytest.raises(UnreadError, match="slices: Input/output error: the originals in it would be lost"),
            slicing(mode, False, tmp_path, Hierarchy(1, tmp_path)),
        ):
            pytest.fail("it has begun")
    assert (tmp_path / "slices").read_bytes() == before
