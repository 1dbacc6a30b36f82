"""What the kernel itself works, beside all processes."""

from __future__ import annotations

import gzip
import platform
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from qioi.experiment.kernel_work import KTHREADD, accounts_apart, kernel_seconds
from qioi.experiment.task_work import TICKS, Work, stats


def stat(pid: int, name: str, parent: int, seconds: float, start: int = 5) -> str:
    """Write the first fields of /proc/PID/stat as the kernel does; three tenths of the time are a user's."""
    user, system = int(0.3 * seconds * TICKS), seconds * TICKS - int(0.3 * seconds * TICKS)
    return f"{pid} ({name}) S {parent} 0 0 0 -1 0 0 0 0 0 {user} {system:.0f} 0 0 20 0 1 0 {start} 0 0"


def write(proc: Path, texts: Iterable[str]) -> None:
    """Have these processes, and no interrupts."""
    for folder in proc.iterdir() if proc.exists() else ():
        shutil.rmtree(folder) if folder.is_dir() else folder.unlink()
    for text in texts:
        (proc / text.split()[0]).mkdir(parents=True)
        (proc / text.split()[0] / "stat").write_text(text)
    (proc / "stat").write_text("cpu  900 0 900 900 900 0 0 0 0 0\n")


def test_the_kernel_s_own_time_is_of_its_threads_alone(tmp_path: Path) -> None:
    jbd2 = "jbd2/sda (x) 1-8"
    write(tmp_path, [stat(2, "kthreadd", 0, 0.1), stat(9, jbd2, 2, 1.0, start=77), stat(40, "qioi-ledger", 1, 18.0)])
    (tmp_path / "77").mkdir()  # it has ended between two calls
    (tmp_path / "meminfo").write_text("-")
    assert kernel_seconds(stats(tmp_path), tmp_path, tmp_path) == {(9, 77): pytest.approx(1.0)}


def test_a_thread_that_ends_takes_no_more_away_than_its_own_work_since(tmp_path: Path) -> None:
    """A worker of an hour ends; its id is taken again; another one begins, and a third goes on."""
    write(tmp_path, [stat(9, "kworker/0:1", 2, 3600.0), stat(10, "kworker/0:2", 2, 50.0), stat(11, "jbd2", 2, 7.0)])
    work = Work()

    def seconds() -> float:
        return work.seconds(kernel_seconds(stats(tmp_path), tmp_path, tmp_path))

    before = seconds()
    write(tmp_path, [stat(10, "kworker/1:0", 2, 2.0, start=9), stat(11, "jbd2", 2, 8.0), stat(12, "jbd2", 2, 0.5)])
    assert seconds() - before == pytest.approx(2.0 + 1.0 + 0.5)
    write(tmp_path, [stat(11, "jbd2", 2, 8.25)])
    assert seconds() - before == pytest.approx(3.5 + 0.25)


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
        (proc / pid / "stat").write_text(stat(int(pid), name, 2, 1.0))
    (proc / "stat").write_text(f"cpu  900 0 900 900 900 {irq * TICKS // 100} {TICKS} 0 0 0\ncpu0 1 1 1 1 1 1 1 0 0 0\n")
    boot.mkdir()
    if config is not None:
        text = f"CONFIG_SMP=y\n{config}\n".encode()
        if packed:
            (proc / "config.gz").write_bytes(gzip.compress(text))
        else:
            (boot / f"config-{platform.release()}").write_bytes(text)
    assert sum(kernel_seconds(stats(proc), proc, boot).values()) == pytest.approx(seconds)


@pytest.mark.skipif(
    not Path("/proc/2/comm").exists() or Path("/proc/2/comm").read_text() != "kthreadd\n",
    reason="a process namespace of its own shows no threads of the kernel",
)
def test_this_kernel_has_worked() -> None:
    assert sum(kernel_seconds(stats()).values()) > 0


def test_softirqs_of_a_kernel_that_charges_them_to_tasks_are_not_counted_twice(tmp_path: Path) -> None:
    if accounts_apart(Path("/proc"), Path("/boot")):
        pytest.skip("this kernel accounts for interrupts apart")
    threads = sum(one.seconds for one in stats() if one.parent == KTHREADD)
    assert sum(kernel_seconds(stats()).values()) == pytest.approx(threads, abs=1.0)
