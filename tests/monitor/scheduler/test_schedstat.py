from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from descriptors import open_files
from monitor_groups import Groups
from waiting import until

from qioi.kernel.cpu_accounts import CpuAccounts, find_cpu_accounts
from qioi.kernel.hierarchy import find_hierarchy
from qioi.model import DelayReading
from qioi.monitor import SchedstatReader
from qioi.monitor.scheduler.schedstat import RELIST

BUSY = "while True: pass"
SLEEP = "import time; time.sleep(600)"
THREADS = "import threading,time\nfor _ in range(9): threading.Thread(target=time.sleep,args=(600,)).start()"


@pytest.fixture(params=["files-kept-open", "opened-each-time", "by-accounts"])
def reader(request: pytest.FixtureRequest, groups: Groups) -> SchedstatReader:
    if request.param != "by-accounts":
        return SchedstatReader(max_open=4096 if request.param == "files-kept-open" else 0)
    accounts = accounts_of()
    return SchedstatReader(max_open=4, used=lambda name: accounts.nanoseconds(str(watched[name])))


#: Where the groups of the readers' components stand, below the mount.
watched: dict[str, Path] = {}


def accounts_of() -> CpuAccounts:
    """The CPU time of whole groups, as this host accounts for it."""
    hierarchy = find_hierarchy()
    mount = find_cpu_accounts(hierarchy)
    if mount is None:
        pytest.skip("this host does not account for groups' CPU time")
    return CpuAccounts(hierarchy.version, mount)


def watch(reader: SchedstatReader, groups: dict[str, Path]) -> None:
    watched.update({name: group.relative_to(find_hierarchy().mount) for name, group in groups.items()})
    reader.watch(groups)


def by_name(readings: list[DelayReading]) -> dict[str, DelayReading]:
    return {reading.component: reading for reading in readings}


def kernels_sums(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """What a process's only thread ran and waited so far, in seconds."""
    run, wait, _ = Path(f"/proc/{process.pid}/schedstat").read_text().split()
    return int(run) / 1e9, int(wait) / 1e9


def asleep(process: subprocess.Popen[bytes], where: str) -> int:
    """How many of its threads sleep in a function of the kernel's that is called so."""
    return sum(where in file.read_text() for file in Path(f"/proc/{process.pid}/task").glob("*/wchan"))


@pytest.mark.slow
def test_two_busy_groups_on_one_cpu_wait_for_each_other(groups: Groups, reader: SchedstatReader) -> None:
    group, rival = groups.make(), groups.make()
    process = groups.run(group, BUSY)
    groups.run(rival, BUSY)
    watch(reader, {"a": group})
    # The kernel's own sums, read just around the first reading and the last one, bound what lies between.
    outer = kernels_sums(process)
    reader.read(time.monotonic())
    inner = kernels_sums(process)
    run = wait = 0.0
    while run < 0.5:
        time.sleep(0.1)
        before = kernels_sums(process)
        for reading in reader.read(time.monotonic()):
            run, wait = run + reading.run, wait + reading.wait
        after = kernels_sums(process)
    assert before[0] - inner[0] - 1e-6 <= run <= after[0] - outer[0] + 1e-6
    assert before[1] - inner[1] - 1e-6 <= wait <= after[1] - outer[1] + 1e-6
    assert wait > 0.2 * run
    reader.close()


@pytest.mark.slow
def test_a_reading_that_comes_late_counts_in_full(groups: Groups, reader: SchedstatReader) -> None:
    # The reader itself may wait for a CPU between the instant that it is told and its reading: no thread is then new.
    group = groups.make()
    process = groups.run(group, BUSY)
    watch(reader, {"a": group})
    reader.read(0.0)
    begun, _ = kernels_sums(process)
    until(lambda: kernels_sums(process)[0] > begun + 0.3)
    ran, _ = kernels_sums(process)
    assert by_name(reader.read(0.1))["a"].run >= ran - begun - 1e-6
    reader.close()


def test_a_sleeping_group_neither_runs_nor_waits(groups: Groups, reader: SchedstatReader) -> None:
    group = groups.make()
    process = groups.run(group, SLEEP)
    until(lambda: asleep(process, "nanosleep"))  # where it sleeps for good
    watch(reader, {"a": group})
    assert (reader.read(0), reader.met) == ([], {"a"})
    reading = by_name(reader.read(1))["a"]
    assert (reading, reader.met) == (DelayReading("a", 0, 0, 0, 1, 1), set())
    assert reading.delay is None
    reader.close()


def test_threads_that_come_are_counted_and_those_that_go_are_dropped(groups: Groups, reader: SchedstatReader) -> None:
    group = groups.make()
    watch(reader, {"a": group})
    assert reader.read(0) == []
    process = groups.run(group, THREADS)
    until(lambda: len(list(Path(f"/proc/{process.pid}/task").iterdir())) == 10)
    own = sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{process.pid}/task").glob("*/schedstat"))
    reading = by_name(reader.read(600))["a"]
    assert reading.threads == 10
    assert 0 < own / 1e9 <= reading.run  # born since the reading before: all that they did counts
    groups.end(process)
    assert by_name(reader.read(601))["a"] == DelayReading("a", 0, 0, 0, 1, 0)
    assert reader.open_files == 0
    reader.close()


@pytest.mark.slow
def test_what_a_thread_did_before_it_came_into_the_group_does_not_count(
    groups: Groups, reader: SchedstatReader
) -> None:
    elsewhere, group = groups.make(), groups.make()
    process = groups.run(elsewhere, "import time\nwhile time.process_time() < 0.5: pass\ntime.sleep(600)")
    until(lambda: int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) > 5e8)
    watch(reader, {"a": group})
    reader.read(0)
    (group / "cgroup.procs").write_text(str(process.pid))
    assert by_name(reader.read(0.1))["a"].run == 0
    reader.close()


def test_groups_below_are_looked_into(groups: Groups, reader: SchedstatReader) -> None:
    groups.run(groups.make("a", "system.slice", "unit"), SLEEP)
    groups.run(groups.make("a", "user.slice"), SLEEP)
    watch(reader, {"a": groups.base / "a"})
    reader.read(0)
    assert by_name(reader.read(1))["a"].threads == 2
    reader.close()


def test_a_group_that_is_gone_is_left_out_and_one_that_is_back_begins_anew(
    groups: Groups, reader: SchedstatReader
) -> None:
    group = groups.make()
    watch(reader, {"a": group, "b": groups.make()})
    reader.read(0)
    group.rmdir()
    assert list(by_name(reader.read(1))) == ["b"]
    group.mkdir()
    groups.run(group, BUSY)
    assert list(by_name(reader.read(2))) == ["b"]
    assert list(by_name(reader.read(3))) == ["a", "b"]
    reader.close()


def test_time_that_stands_still_gives_no_reading(groups: Groups, reader: SchedstatReader) -> None:
    watch(reader, {"a": groups.make()})
    reader.read(5)
    assert reader.read(5) == []
    assert len(reader.read(6)) == 1
    reader.close()


def test_files_are_bounded_and_closed(groups: Groups) -> None:
    before = open_files(Path("/proc"))
    group = groups.make()
    process = groups.run(group, THREADS)
    until(lambda: len(list(Path(f"/proc/{process.pid}/task").iterdir())) == 10)
    reader = SchedstatReader(max_open=4)
    watch(reader, {"a": group})
    reader.read(0)
    assert reader.open_files == 4
    assert by_name(reader.read(1))["a"].threads == 10
    watch(reader, {"a": groups.make()})
    assert reader.open_files == 0
    reader.close()
    reader.close()
    assert open_files(Path("/proc")) == before


def test_a_group_is_listed_again_only_where_its_threads_do_not_explain_what_it_used(groups: Groups) -> None:
    group = groups.make()
    used = 0
    reader = SchedstatReader(used=lambda _: used)
    reader.watch({"a": group})
    reader.read(0)
    process = groups.run(group, SLEEP)
    until(lambda: asleep(process, "nanosleep"))
    assert by_name(reader.read(1))["a"].threads == 0  # nothing was used: nobody can have come
    used = int(kernels_sums(process)[0] * 1e9)
    reading = by_name(reader.read(1000))["a"]  # on a busy host it may have taken long to come so far
    assert reading.threads == 1
    assert reading.run == pytest.approx(used * 1e-9, rel=0.5)  # it was born since the listing
    groups.end(process)
    later = [by_name(reader.read(1001 + number))["a"].threads for number in range(RELIST)]
    assert later[-1] == 0  # listed now and then anyway
    reader.close()


def test_an_account_that_goes_back_is_another_groups(groups: Groups) -> None:
    """A container was started anew. What it uses told of less than none, and all of that was taken for foreign work."""
    group = groups.make()
    used = 9_000_000_000
    reader = SchedstatReader(used=lambda _: used)
    reader.watch({"a": group})
    reader.read(0)
    assert by_name(reader.read(1))["a"].used == 0.0
    groups.run(group, SLEEP)
    used = 100_000
    reading = by_name(reader.read(2))["a"]
    assert (reading.used, reading.threads) == (None, 1)
    used = 300_000
    assert by_name(reader.read(3))["a"].used == pytest.approx(200e-6)
    reader.close()


def test_a_thread_that_uses_little_in_each_period_is_found_by_the_sum_of_it(groups: Groups) -> None:
    group = groups.make()
    used = 0
    reader = SchedstatReader(used=lambda _: used)
    reader.watch({"a": group})
    reader.read(0)
    groups.run(group, SLEEP)
    threads = []
    for period in range(1, 4):
        used += 150_000  # of the account alone: too little to matter by itself
        threads.append(by_name(reader.read(period))["a"].threads)
    assert threads == [0, 1, 1]
    reader.close()


@pytest.mark.slow
def test_what_a_thread_did_before_the_interval_is_not_all_of_this_interval(
    groups: Groups, reader: SchedstatReader
) -> None:
    group, rival = groups.make(), groups.make()
    watch(reader, {"a": group})
    reader.read(0)
    process = groups.run(group, BUSY)
    groups.run(rival, BUSY)
    until(lambda: kernels_sums(process)[1] > 0.5)
    reading = by_name(reader.read(0.1))["a"]
    assert 0 < reading.wait < 0.11  # it lives for longer than this, by clock ticks of 0.01 s
    assert 0 < reading.run < 0.11
    reader.close()


#: Nine threads that sleep; the one that reads a line then runs for 50 ms and goes back to sleep.
WAKES = (
    "import sys,threading,time\n"
    "for _ in range(8): threading.Thread(target=time.sleep,args=(600,),daemon=True).start()\n"
    "while sys.stdin.readline():\n"
    "  end = time.thread_time() + 0.05\n"
    "  while time.thread_time() < end: pass\n"
    "  print('ran', flush=True)\n"
)


def test_threads_that_sleep_are_read_in_turns_until_somebody_has_run_that_was_not_read(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = groups.make()
    process = groups.run(group, WAKES, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    until(lambda: [asleep(process, "nanosleep"), asleep(process, "pipe")] == [8, 1])  # all where they stay
    used, read = 0, 0
    reader = SchedstatReader(max_open=0, used=lambda _: used)
    original = reader._read_once

    def counted(tid: bytes, name: bytes) -> bytes:
        nonlocal read
        read += name == b"schedstat"
        return original(tid, name)

    monkeypatch.setattr(reader, "_read_once", counted)
    reader.watch({"a": group})
    counts = []
    for period in range(12):
        used += 1000  # so little that nobody is missed
        reader.read(period)
        counts.append(read)
        read = 0
    assert counts[1:4] == [9, 9, 9]
    assert max(counts[5:]) <= 2
    before = kernels_sums(process)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    process.stdout.readline()
    until(lambda: asleep(process, "pipe"))
    ran = kernels_sums(process)[0] - before[0]
    used += round(ran * 1e9)
    reading = by_name(reader.read(12))["a"]
    assert reading.run == pytest.approx(ran, abs=0.002)  # at once, and once
    assert sum(by_name(reader.read(period))["a"].run for period in range(13, 30)) < 0.002
    reader.close()
