"""The system calls of slices, on this kernel, and which kernels have them."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from slice_kernel import child
from toy_scheduler import DEFAULT, ToyScheduler

from qioi.controller.levers import eevdf
from qioi.controller.levers.eevdf import Attributes, Kernel, SliceError, ThreadGoneError, default_slice, why_not


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


def test_a_thread_that_is_gone_and_one_that_may_not_be_set() -> None:
    """Any kernel has the calls, and refuses alike: what decides and restores is tested on one without slices too."""
    calls = Kernel()
    with child() as process:
        gone = process.pid  # waited for at the end of this block
    for act in (calls.read, calls.born, lambda tid: calls.write(tid, Attributes(0, 0, 0, 0))):
        with pytest.raises(ThreadGoneError):
            act(gone)
    with pytest.raises(SliceError, match="Invalid argument"):
        calls.write(0, Attributes(99, 0, 0, 0))


@pytest.mark.parametrize("name", ["peer", "a) S 1 (b"])
def test_when_a_thread_was_born(name: str, tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    stat = tmp_path / "7" / "stat"
    fields = " ".join(str(number) for number in range(4, 53))  # each is its own number (proc(5))
    stat.write_text(f"7 ({name}) S {fields}\n")
    assert Kernel(tmp_path).born(7) == 22
    stat.write_text(f"7 ({name}) S 4 5\n")
    with pytest.raises(ThreadGoneError, match="thread 7: gone"):
        Kernel(tmp_path).born(7)


def test_a_kernel_that_takes_slices() -> None:
    assert default_slice(ToyScheduler()) == DEFAULT


def test_a_kernel_that_takes_no_slices() -> None:
    class Old(ToyScheduler):
        def write(self, tid: int, attributes: Attributes) -> None:
            self.threads[tid] = Attributes(0, 0, 0, 0)

    assert default_slice(Old()) is None

    class Refusing(ToyScheduler):
        def write(self, tid: int, attributes: Attributes) -> None:
            raise SliceError("no")

    assert default_slice(Refusing()) is None
