from __future__ import annotations

import time
from pathlib import Path

import pytest
from monitor_groups import Groups, open_files, wait_for

from qioi.monitor import SchedstatReader
from qioi.types import DelayReading

BUSY = "while True: pass"
SLEEP = "import time; time.sleep(600)"
THREADS = "import threading,time\nfor _ in range(9): threading.Thread(target=time.sleep,args=(600,)).start()"


@pytest.fixture(params=[4096, 0], ids=["files-kept-open", "opened-each-time"])
def reader(request: pytest.FixtureRequest) -> SchedstatReader:
    return SchedstatReader(max_open=request.param)


def by_name(readings: list[DelayReading]) -> dict[str, DelayReading]:
    return {reading.component: reading for reading in readings}


def until(reader: SchedstatReader, enough: float) -> tuple[float, float, float]:
    """Read until component ``a`` has run for ``enough`` seconds: its run, its wait, and the time covered."""
    run = wait = 0.0
    started = time.monotonic()
    reader.read(started)
    while run < enough:
        time.sleep(0.1)
        for reading in reader.read(time.monotonic()):
            if reading.component == "a":
                run, wait = run + reading.run, wait + reading.wait
        assert time.monotonic() - started < 60
    return run, wait, time.monotonic() - started


def test_two_busy_groups_on_one_cpu_wait_for_each_other(groups: Groups, reader: SchedstatReader) -> None:
    group, rival = groups.make(), groups.make()
    process = groups.run(group, BUSY)
    groups.run(rival, BUSY)
    reader.watch({"a": group})
    before = Path(f"/proc/{process.pid}/schedstat").read_text().split()
    run, wait, covered = until(reader, 0.5)
    after = Path(f"/proc/{process.pid}/schedstat").read_text().split()
    # It never sleeps, so it runs or waits all the time; the kernel's own sums, read around ours, bound them.
    assert run <= (int(after[0]) - int(before[0])) / 1e9 + 1e-6
    assert wait <= (int(after[1]) - int(before[1])) / 1e9 + 1e-6
    assert run + wait == pytest.approx(covered, rel=0.2)
    assert wait > 0.2 * run
    reader.close()


def test_a_sleeping_group_neither_runs_nor_waits(groups: Groups, reader: SchedstatReader) -> None:
    group = groups.make()
    process = groups.run(group, SLEEP)
    wait_for(
        lambda: (
            Path(f"/proc/{process.pid}/wchan").exists()
            and "State:\tS" in Path(f"/proc/{process.pid}/status").read_text()
        )
    )
    time.sleep(0.3)
    reader.watch({"a": group})
    assert reader.read(0) == []
    reading = by_name(reader.read(1))["a"]
    assert reading == DelayReading("a", 0, 0, 0, 1, 1)
    assert reading.delay is None
    reader.close()


def test_threads_that_come_are_counted_and_those_that_go_are_dropped(groups: Groups, reader: SchedstatReader) -> None:
    group = groups.make()
    reader.watch({"a": group})
    assert reader.read(0) == []
    process = groups.run(group, THREADS)
    wait_for(lambda: len(list(Path(f"/proc/{process.pid}/task").iterdir())) == 10)
    own = sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{process.pid}/task").glob("*/schedstat"))
    reading = by_name(reader.read(600))["a"]
    assert reading.threads == 10
    assert 0 < own / 1e9 <= reading.run  # born since the reading before: all that they did counts
    groups.end(process)
    assert by_name(reader.read(601))["a"] == DelayReading("a", 0, 0, 0, 1, 0)
    assert reader.open_files == 0
    reader.close()


def test_what_a_thread_did_before_it_came_into_the_group_does_not_count(
    groups: Groups, reader: SchedstatReader
) -> None:
    elsewhere, group = groups.make(), groups.make()
    process = groups.run(elsewhere, "import time\nwhile time.process_time() < 0.5: pass\ntime.sleep(600)")
    wait_for(lambda: int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[0]) > 5e8)
    reader.watch({"a": group})
    reader.read(0)
    (group / "cgroup.procs").write_text(str(process.pid))
    assert by_name(reader.read(0.1))["a"].run == 0
    reader.close()


def test_groups_below_are_looked_into(groups: Groups, reader: SchedstatReader) -> None:
    groups.run(groups.make("a", "system.slice", "unit"), SLEEP)
    groups.run(groups.make("a", "user.slice"), SLEEP)
    reader.watch({"a": groups.base / "a"})
    reader.read(0)
    assert by_name(reader.read(1))["a"].threads == 2
    reader.close()


def test_a_group_that_is_gone_is_left_out_and_one_that_is_back_begins_anew(
    groups: Groups, reader: SchedstatReader
) -> None:
    group = groups.make()
    reader.watch({"a": group, "b": groups.make()})
    reader.read(0)
    group.rmdir()
    assert list(by_name(reader.read(1))) == ["b"]
    group.mkdir()
    groups.run(group, BUSY)
    assert list(by_name(reader.read(2))) == ["b"]
    assert list(by_name(reader.read(3))) == ["a", "b"]
    reader.close()


def test_time_that_stands_still_gives_no_reading(groups: Groups, reader: SchedstatReader) -> None:
    reader.watch({"a": groups.make()})
    reader.read(5)
    assert reader.read(5) == []
    assert len(reader.read(6)) == 1
    reader.close()


def test_files_are_bounded_and_closed(groups: Groups) -> None:
    before = open_files()
    group = groups.make()
    process = groups.run(group, THREADS)
    wait_for(lambda: len(list(Path(f"/proc/{process.pid}/task").iterdir())) == 10)
    reader = SchedstatReader(max_open=4)
    reader.watch({"a": group})
    reader.read(0)
    assert reader.open_files == 4
    assert by_name(reader.read(1))["a"].threads == 10
    reader.watch({"a": groups.make()})
    assert reader.open_files == 0
    reader.close()
    reader.close()
    assert open_files() == before
