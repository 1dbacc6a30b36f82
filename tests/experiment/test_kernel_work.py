"""What the kernel itself works, beside all processes."""

from __future__ import annotations

import gzip
import platform
from pathlib import Path

import pytest

from qioi.experiment.kernel_work import TICKS, accounts_apart, kernel_seconds, thread_seconds


def test_the_kernel_s_own_time_is_of_its_threads_alone(tmp_path: Path) -> None:
    stats = {
        "2": "2 (kthreadd) S 0 0 0 0 -1 0 0 0 0 0 5 5",
        "9": "9 (jbd2/sda (x) 1-8) S 2 0 0 0 -1 0 0 0 0 0 30 70",
        "40": "40 (qioi-ledger) S 1 0 0 0 -1 0 0 0 0 0 900 900",
    }
    for pid, text in stats.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "stat").write_text(text)
    (tmp_path / "77").mkdir()  # it has ended between two calls
    (tmp_path / "meminfo").write_text("-")
    assert list(thread_seconds(tmp_path)) == [("jbd2/sda (x) 1-8", 100 / TICKS)]


IRQ_TIME = "CONFIG_IRQ_TIME_ACCOUNTING"


@pytest.mark.parametrize(
    ("packed", "config", "irq", "seconds"),
    [
        (True, f"{IRQ_TIME}=y", 50, 2.5),
        (False, f"{IRQ_TIME}=y", 50, 2.5),
        (True, f"# {IRQ_TIME} is not set", 0, 2.0),
        (True, f"# CONFIG_PREEMPT is not set\n{IRQ_TIME}=y", 0, 2.0),  # its clock is too coarse
        (False, f"# {IRQ_TIME} is not set", 50, 2.0),  # as on s390
        (False, None, 50, 2.0),
    ],
)
def test_interrupts_are_the_kernel_s_own_where_they_are_charged_to_nobody_else(
    tmp_path: Path, packed: bool, config: str | None, irq: int, seconds: float
) -> None:
    """A thread has 1 s, and ksoftirqd another one, which is all that softirqs have."""
    proc, boot = tmp_path / "proc", tmp_path / "boot"
    for pid, name in (("9", "kworker/0:1"), ("10", "ksoftirqd/0")):
        (proc / pid).mkdir(parents=True)
        (proc / pid / "stat").write_text(f"{pid} ({name}) S 2 0 0 0 -1 0 0 0 0 0 0 {TICKS}")
    (proc / "stat").write_text(f"cpu  900 0 900 900 900 {irq * TICKS // 100} {TICKS} 0 0 0\ncpu0 1 1 1 1 1 1 1 0 0 0\n")
    boot.mkdir()
    if config is not None:
        text = f"CONFIG_SMP=y\n{config}\n".encode()
        if packed:
            (proc / "config.gz").write_bytes(gzip.compress(text))
        else:
            (boot / f"config-{platform.release()}").write_bytes(text)
    assert kernel_seconds(proc, boot) == pytest.approx(seconds)


@pytest.mark.skipif(
    not Path("/proc/2/comm").exists() or Path("/proc/2/comm").read_text() != "kthreadd\n",
    reason="a process namespace of its own shows no threads of the kernel",
)
def test_this_kernel_has_worked() -> None:
    assert kernel_seconds() > 0


def test_softirqs_of_a_kernel_that_charges_them_to_tasks_are_not_counted_twice(tmp_path: Path) -> None:
    if accounts_apart(Path("/proc"), Path("/boot")):
        pytest.skip("this kernel accounts for interrupts apart")
    assert kernel_seconds() == pytest.approx(sum(seconds for _, seconds in thread_seconds(Path("/proc"))), abs=1.0)
