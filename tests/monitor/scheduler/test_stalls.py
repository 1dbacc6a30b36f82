"""What the kernel says of blocked threads, pressure and quotas; and that the daemon says it on and does not raise."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import Site
from toy_daemon import ToySite, peer
from waiting import DIES_WITH_TEST, until

from qioi.commands.explain import lines
from qioi.commands.status import notes
from qioi.controller.findings.bottleneck import Kind
from qioi.kernel.threads import threads_of as threads
from qioi.model import Component, DelayReading, Role, Stalls
from qioi.monitor.scheduler.stalls import ASK_AGAIN, StallWatch, blocked_of, throttled_seconds
from qioi.show.explain import explain
from qioi.show.metrics import render

#: A parent in vfork(2) sleeps uninterruptibly until its child ends: blocked for real, and nothing is needed for it. The
#: child ends with it (PR_SET_PDEATHSIG, SIGKILL).
BLOCKED = "import ctypes, time; libc = ctypes.CDLL(None); libc.vfork(); libc.prctl(1, 9); time.sleep(1000)"
PEER = Component("peer0", Role.PEER, "peer0")


@pytest.mark.slow
def test_a_thread_that_is_blocked_is_counted(site: Site) -> None:
    group = site.component("peer0").parent
    assert blocked_of(threads(group), Path("/proc")) == 0
    process = subprocess.Popen([*DIES_WITH_TEST, sys.executable, "-c", BLOCKED], process_group=0)
    site.processes.append(process)  # type: ignore[arg-type]
    (group / "cgroup.procs").write_text(str(process.pid))
    try:
        until(lambda: blocked_of(threads(group), Path("/proc")) == 1)
        above = site.hierarchy.folder(site.parent)
        until(lambda: blocked_of(threads(above), Path("/proc")) == 1)  # groups below count too
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        until(lambda: not (group / "cgroup.procs").read_text())
    assert blocked_of(threads(group / "gone"), Path("/proc")) == 0


def test_a_component_that_goes_while_it_waits_leaves_nothing_to_the_next_of_its_name(tmp_path: Path) -> None:
    stat = tmp_path / "peer0" / "cpu.stat"
    stat.parent.mkdir()
    delays = {"peer0": DelayReading("peer0", 0.02, 0.98, 10, 1.0)}
    watch = StallWatch(tmp_path)
    stat.write_text("nr_periods 0\nthrottled_time 0\nthrottled_usec 0\n")
    watch.read(0.0, [PEER], delays)
    watch.read(1.0, [], {})
    stat.write_text("nr_periods 9\nthrottled_time 5000000000\nthrottled_usec 5000000\n")
    assert watch.read(10.0, [PEER], delays).throttled == {"peer0": 0.0}


def test_a_group_that_never_had_a_quota_is_asked_again_after_a_while_only(tmp_path: Path) -> None:
    stat = tmp_path / "peer0" / "cpu.stat"
    stat.parent.mkdir()
    delays = {"peer0": DelayReading("peer0", 0.02, 0.98, 10, 1.0)}
    watch = StallWatch(tmp_path)
    stat.write_text("nr_periods 0\nthrottled_time 0\n")
    assert watch.read(0.0, [PEER], delays).throttled == {}
    stat.write_text("nr_periods 9\nthrottled_time 5000000000\n")
    assert watch.read(ASK_AGAIN - 1, [PEER], delays).throttled == {}
    assert watch.read(ASK_AGAIN, [PEER], delays).throttled == {"peer0": 0.0}
    stat.write_text("nr_periods 19\nthrottled_time 5500000000\n")
    assert watch.read(ASK_AGAIN + 1, [PEER], delays).throttled == {"peer0": 0.5}


@pytest.mark.slow
@pytest.mark.parametrize("above", [False, True])
def test_a_group_that_a_quota_stops_its_own_or_one_above_it(site: Site, above: bool) -> None:
    group = site.component("peer0").parent
    limited = group.parent if above else group
    if site.hierarchy.version == 1:
        (limited / "cpu.cfs_quota_us").write_text("2000")
    else:
        (limited / "cpu.max").write_text("2000 100000")
    process = subprocess.Popen([*DIES_WITH_TEST, sys.executable, "-c", "while True: pass"])
    site.processes.append(process)  # type: ignore[arg-type]
    (group / "cgroup.procs").write_text(str(process.pid))
    watch = StallWatch(site.hierarchy.mount)
    peer0 = Component("peer0", Role.PEER, f"{site.parent}/peer0")
    delays = {"peer0": DelayReading("peer0", 0.02, 0.98, 10, 1.0)}
    until(lambda: b"nr_periods 0\n" not in (limited / "cpu.stat").read_bytes())
    watch.read(0.0, [peer0], delays)
    begin = throttled_seconds((limited / "cpu.stat").read_bytes())
    assert begin is not None
    until(lambda: (throttled_seconds((limited / "cpu.stat").read_bytes()) or 0.0) > begin + 0.2)
    stalls = watch.read(1.0, [peer0], delays)
    assert stalls.throttled["peer0"] > 0.15
    assert stalls.quotas == {"peer0": site.parent if above else peer0.cgroup}
    process.kill()
    process.wait()
    until(lambda: not (group / "cgroup.procs").read_text())


def test_of_several_quotas_the_one_that_stops_most_counts_and_each_group_is_read_once(tmp_path: Path) -> None:
    folders = [tmp_path / "pod", tmp_path / "pod" / "peer0", tmp_path / "pod" / "cc0"]
    for folder in folders:
        folder.mkdir()
    components = [Component(name, Role.PEER, f"pod/{name}") for name in ("peer0", "cc0", "idle")]
    delays = {name: DelayReading(name, 0.02, 0.98, 10, 1.0) for name in ("peer0", "cc0")}
    watch = StallWatch(tmp_path, cpus=2)

    def look(now: float, *stopped: float) -> Stalls:
        for folder, seconds in zip(folders, stopped, strict=True):
            (folder / "cpu.stat").write_text(f"nr_periods 9\nthrottled_usec {seconds * 1e6:.0f}\n")
        return watch.read(now, components, delays)

    look(0.0, 5.0, 5.0, 0.0)
    stalls = look(1.0, 5.5, 5.5, 0.0)  # the pod's two threads were stopped on two CPUs, peer0's one on one
    assert stalls.throttled == {"peer0": 0.5, "cc0": 0.25}
    assert stalls.quotas == {"peer0": "pod/peer0", "cc0": "pod"}


def test_cpus_that_come_while_the_daemon_runs_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "peer0").mkdir()
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    watch = StallWatch(tmp_path)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    for now in (0.0, 1.0):
        (tmp_path / "peer0" / "cpu.stat").write_text(f"nr_periods 9\nthrottled_usec {4e6 * now:.0f}\n")
        stalls = watch.read(now, [PEER], {"peer0": DelayReading("peer0", 0.0, 8.0, 10, 1.0)})
    assert stalls.throttled == {"peer0": 0.5}


@dataclass(frozen=True)
class Stopped:
    """A component for a second: its threads' seconds, how long a quota stopped it on all CPUs, and what part that is.

    ``beside`` are the seconds for which another component of the group with the quota was runnable.
    """

    cpus: int
    run: float
    wait: float
    throttled: float
    part: float
    beside: float = 0.0


STOPPED = {
    "one busy thread, half of the time": Stopped(2, 0.5, 0.5, 0.5, 0.5),
    "the same on a large host": Stopped(64, 0.5, 0.5, 0.5, 0.5),
    "as many threads as CPUs, for 7 % of the time": Stopped(64, 54.0, 10.0, 4.48, 0.07),
    "more threads than CPUs, 90 % (measured: 4 on 2 CPUs)": Stopped(2, 0.2, 3.8, 1.8, 0.9),
    "far more threads than CPUs": Stopped(64, 32.0, 600.0, 32.0, 0.5),
    "who waits for neighbours most of the time": Stopped(64, 11.5, 52.5, 1.28, 0.02),
    "who sleeps most of the time": Stopped(64, 0.1, 0.2, 0.15, 0.15),
    "on CPUs on which nothing waits (before Linux 6.6)": Stopped(64, 1.0, 0.5, 20.0, 1 / 3),
    "a slice of many components, for 7 % of the time": Stopped(64, 1.0, 1.0, 2.24, 0.07, beside=30.0),
    "who waits less than it would have been stopped": Stopped(64, 0.8, 0.2, 10.0, 0.2),
}


def look_twice(folder: Path, one: Stopped) -> Stalls:
    """Look before and after that second."""
    components = [Component(name, Role.PEER, f"slice/{name}") for name in ("peer0", "peer1")]
    (folder / "slice").mkdir()
    watch = StallWatch(folder, cpus=one.cpus)
    delays = {
        "peer0": DelayReading("peer0", one.run, one.wait, 10, 1.0),
        "peer1": DelayReading("peer1", one.beside, 0.0, 10, 1.0),
    }
    for now in (0.0, 1.0):
        stat = f"nr_periods 9\nthrottled_usec {1e6 * (5 + now * one.throttled):.0f}\n"
        (folder / "slice" / "cpu.stat").write_text(stat)
        stalls = watch.read(now, components, delays)
    return stalls


@pytest.mark.parametrize("one", STOPPED.values(), ids=STOPPED.keys())
def test_what_the_kernel_adds_up_over_cpus_is_a_part_of_the_time(tmp_path: Path, one: Stopped) -> None:
    assert look_twice(tmp_path, one).throttled == {"peer0": pytest.approx(one.part, rel=0.01)}


SECONDS = st.floats(0, 1e4)


@given(st.builds(Stopped, st.integers(1, 512), SECONDS, SECONDS, SECONDS, st.just(0.0), SECONDS))
def test_no_quota_stops_anybody_for_longer_than_all_the_time_nor_than_it_waits(one: Stopped) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for part in look_twice(Path(folder), one).throttled.values():
            assert 0.0 <= part <= min(1.0, one.wait)


def test_pressure_is_that_since_the_last_look_and_threads_are_looked_at_only_then(tmp_path: Path) -> None:
    proc, group, pressure = tmp_path / "proc", tmp_path / "peer0", tmp_path / "io"
    (proc / "7").mkdir(parents=True)
    (proc / "7" / "stat").write_text("7 (a) D) D 1 7 7 0")
    group.mkdir()
    (group / "tasks").write_text("7\n8\n")
    watch = StallWatch(tmp_path, pressure, proc)

    def look(now: float, microseconds: int) -> Stalls:
        pressure.write_text(f"some avg10=9.00 avg60=9.00 avg300=9.00 total={microseconds}\nfull avg10=0.00 total=1\n")
        return watch.read(now, [PEER], {})

    assert look(10.0, 5_000_000) == Stalls(0.0)
    assert look(11.0, 5_500_000) == Stalls(0.5, {"peer0": 1})
    assert look(12.0, 5_510_000) == Stalls(pytest.approx(0.01))
    pressure.write_text("what?\n")
    assert watch.read(13.0, [PEER], {}) == Stalls(None, {"peer0": 1})
    pressure.unlink()
    assert watch.read(14.0, [PEER], {}) == Stalls(None, {"peer0": 1})
    assert watch.read(15.0, [PEER], {}, suffering=False) == Stalls(None)


def test_a_stat_file_without_quotas_says_nothing() -> None:
    assert throttled_seconds(b"usage_usec 5\n") is None
    assert throttled_seconds(b"") is None
    assert throttled_seconds(b"nr_throttled 3\nthrottled_usec 2500000\n") == 2.5
    assert throttled_seconds(b"nr_throttled 3\nthrottled_time 2500000000\nwait_sum 7\n") == 2.5


def test_a_peer_on_a_slow_disk_leaves_the_others_protected(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "fab/peer0"), peer("peer1", "fab/peer1")], channels={"red": {}})
    site.toy.tps, site.toy.age = {"red": 20.0}, 4.0
    site.toy.waits = {"peer0": (0.1, 0.4), "peer1": (0.1, 0.4)}
    site.toy.stalls = Stalls(0.8, {"peer0": 2})
    site.run(10)
    assert site.weight("fab/peer0") == 100
    assert site.weight("fab/peer1") > 100


def test_between_a_disk_and_neighbours_shares_settle(tmp_path: Path) -> None:
    """A peer that flushes all the time, a T just out of reach, and neighbours.

    Once raised it waits for its disk more than for a CPU; let go of, it would wait for a CPU more again.
    """
    site = ToySite(tmp_path, [peer("peer0", "fab/peer0")], channels={"red": {"threshold": 100}})
    site.toy.tps = {"red": 90.0}
    weights = []
    for _ in range(120):
        wait = 2.0 * 100 / site.weight("fab/peer0")  # by its weight among its neighbours
        site.toy.waits, site.toy.stalls = {"peer0": (0.3, wait)}, Stalls(0.5, {"peer0": 1})
        site.run(1)
        weights.append(site.weight("fab/peer0"))
    assert weights == sorted(weights)
    assert weights[30] == weights[-1] > 100


def test_a_stalled_disk_is_said_everywhere_and_nothing_is_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site = ToySite(tmp_path, [peer("peer0", "fab/peer0")], channels={"red": {"threshold": 100}})
    site.toy.tps, site.toy.waits = {"red": 20.0}, {"peer0": (0.1, 0.4)}
    site.toy.stalls = Stalls(0.8, {"peer0": 2})
    with caplog.at_level(logging.INFO, "qioi"):
        site.run(10)
    assert site.channel().bottleneck.kind is Kind.DISK
    assert site.weight("fab/peer0") == 100
    said = [one.message for one in caplog.records]
    assert sum("the bottleneck is the disk" in line for line in said) == 1
    assert 'qioi_channel_bottleneck{channel="red",kind="disk"} 1.0' in render(site.snapshot).decode()
    assert "qioi_host_io_pressure_ratio 0.8" in render(site.snapshot).decode()
    document = explain(site.snapshot, "peer0", site.hierarchy)
    assert document.rule == "disk"
    assert any(key == "bottleneck" and "the disk" in text for key, text in lines(document))
    assert any("the bottleneck is the disk" in note for note in notes(site.snapshot.document()))
    site.toy.stalls = Stalls(0.0)
    with caplog.at_level(logging.INFO, "qioi"):
        site.run(10)
    assert site.channel().bottleneck.kind is Kind.CPU
    assert site.weight("fab/peer0") > 100
    assert any("that is over" in one.message for one in caplog.records)
