"""Slices in the daemon: chosen at the start, in force while interference lasts, put back after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from running import Site
from toy_daemon import ToySite, peer
from toy_scheduler import DEFAULT
from toy_threads import ToyThreads
from waiting import DIES_WITH_TEST, until

from qioi.commands.explain import lines
from qioi.controller.findings.limits import Reason
from qioi.controller.findings.slice_trial import IN_FORCE, LOSING_PAIRS, NOT_NEEDED, PHASE
from qioi.controller.guard.restore import Result
from qioi.controller.guard.thread_slices import Counts
from qioi.controller.levers.eevdf import Attributes, Kernel, SliceError, default_slice
from qioi.controller.slicing import (
    REMEMBERED,
    NoSlicer,
    SlicePeriod,
    Slicer,
    SliceState,
    find_slices,
    slicing,
)
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import ChannelReading, Component, DelayReading, HostLoad, Role
from qioi.settings.config import load_config
from qioi.show.explain import explain
from qioi.show.metrics import render


class ToyGuard:
    def __init__(self) -> None:
        self.wanted: dict[str, int] = {}
        self.default = DEFAULT
        self.problem: str | None = None

    def look(self) -> int:
        return self.default

    def apply(self, wanted: dict[str, int]) -> Counts:
        self.wanted = wanted
        return Counts(problem=self.problem)


def make(folder: Path, mode: str, threshold: float | None = 100) -> tuple[ToySite, ToyGuard]:
    guard = ToyGuard()
    components = [peer("peer0", "g/p"), peer("load", "g/load", role="client")]
    site = ToySite(folder, components, channels={"red": {"threshold": threshold}})
    site.toy.slicer = Slicer(mode, guard)  # type: ignore[arg-type]
    site.restart()
    site.toy.tps = {"red": 50.0}
    site.toy.waits = {"peer0": (0.02, 0.1), "load": (0.02, 0.1)}  # 100 slices a second: 0.2 ms each
    return site, guard


def test_required_is_in_force_while_interference_lasts(tmp_path: Path) -> None:
    site, guard = make(tmp_path, "required")
    site.run(2)
    assert guard.wanted == {"g/p": 400_001}
    assert 'qioi_component_slice_seconds{component="peer0"} 0.0004' in render(site.snapshot).decode()
    assert dict(lines(explain(site.snapshot, "peer0", site.hierarchy)))["slice"] == "0.40 ms (required: required)"
    site.toy.host = HostLoad(0.9, 0.0)
    site.run(1)
    assert guard.wanted == {}
    site.toy.host = HostLoad(0.0, 0.9)
    site.toy.age = 60.0  # nobody sends
    site.run(1)
    assert guard.wanted == {}
    site.toy.age, guard.problem = 0.1, "no journal"
    assert "no journal" in site.run(1).slices.text


def test_threads_keep_their_slice_while_they_cannot_be_looked_at(tmp_path: Path) -> None:
    site, guard = make(tmp_path, "required")
    site.run(2)
    del site.toy.waits["peer0"]
    site.run(2)
    assert guard.wanted == {"g/p": 400_001}


def rest(site: ToySite) -> None:
    """Let shares come to rest at the ceiling: nothing is tried while they move."""
    site.run(10)
    assert not site.snapshot.slices.on


def test_auto_alternates_until_there_is_evidence(tmp_path: Path) -> None:
    site, guard = make(tmp_path, "auto")
    rest(site)
    seen = set()
    for _ in range(100):
        site.toy.waits["peer0"] = (0.02, 0.02 if guard.wanted else 0.1)
        site.run(1)
        seen.add(bool(guard.wanted))
    assert seen == {True, False}
    assert site.snapshot.slices.text.startswith("kept: ")
    assert guard.wanted


def test_auto_counts_running_as_well(tmp_path: Path) -> None:
    """Slices that halve the waiting but make more running of it are no gain."""
    site, guard = make(tmp_path, "auto")
    rest(site)
    on = 0
    for _ in range(100):
        site.toy.waits["peer0"] = (0.1, 0.05) if guard.wanted else (0.02, 0.1)
        site.run(1)
        on += bool(guard.wanted)
    assert site.snapshot.slices.text.startswith("not kept: ")
    assert 0 < on <= LOSING_PAIRS * PHASE


def test_auto_takes_less_time_for_less_work_for_no_gain(tmp_path: Path) -> None:
    site, guard = make(tmp_path, "auto")
    rest(site)
    for _ in range(100):
        site.toy.waits["peer0"] = (0.02, 0.04 if guard.wanted else 0.1)
        site.toy.tps["red"] = 20.0 if guard.wanted else 50.0
        site.run(1)
    assert site.snapshot.slices.text.startswith("not kept: ")


@pytest.mark.parametrize(
    ("threshold", "tps", "waits", "tried"),
    [
        (100, 50.0, (0.02, 0.1), True),
        (100, 97.0, (0.02, 0.1), False),  # it has what it is owed
        (None, 50.0, (0.02, 0.1), False),  # nobody knows what it is owed
        (100, 50.0, (0.02, 0.001), False),  # it does not wait for the CPU
    ],
)
def test_auto_tries_only_where_a_channel_is_short_of_what_it_is_owed_for_want_of_the_cpu(
    threshold: float | None, tps: float, waits: tuple[float, float], tried: bool, tmp_path: Path
) -> None:
    site, guard = make(tmp_path, "auto", threshold)
    site.toy.tps["red"], site.toy.waits["peer0"] = tps, waits
    on = 0
    for _ in range(60):
        site.run(1)
        on += bool(guard.wanted)
    assert bool(on) is tried
    assert tried or site.snapshot.slices.text == NOT_NEEDED


class Listener(NoSlicer):
    """Keeps what it is told of moves."""

    def __init__(self) -> None:
        super().__init__()
        self.moved: list[bool] = []

    def step(self, period: SlicePeriod) -> SliceState:
        self.moved.append(period.moved)
        return super().step(period)


def test_a_share_that_is_wanted_but_rounded_by_the_kernel_has_not_moved(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "g/p")], channels={"red": {}})
    site.toy.slicer = listener = Listener()
    site.restart()
    site.toy.tps = {"red": 50.0}
    site.toy.waits = {"peer0": (0.02, 0.013)}
    site.run(1)
    site.toy.waits = {"peer0": (0.02, 0.0011)}  # just enough; later a lower share is probed
    site.run(120)
    one = site.component("peer0")
    assert one.share != one.wanted
    assert site.snapshot.totals.decisions < 10  # what can't be had is not asked for again and again
    assert sum(listener.moved) == site.snapshot.totals.writes[Result.OK] < 10


@pytest.mark.parametrize("gap", [8, 20, 30, 100])
def test_a_channel_that_commits_now_and_then_neither_hinders_a_trial_nor_draws_it_out(gap: int, tmp_path: Path) -> None:
    site, guard = make(tmp_path, "auto")
    rest(site)
    site.toy.tps["blue"] = 0.0
    on = 0
    for second in range(600):
        site.toy.ages["blue"] = float(second % gap)
        site.toy.tps["blue"] = float(second % gap == 0)
        site.run(1)
        on += bool(guard.wanted)
    assert site.snapshot.slices.text.startswith("not kept: ")
    assert 0 < on <= 2 * IN_FORCE  # two sets of channels at the most


def test_auto_remembers_what_it_found_of_each_set_of_channels_at_work(tmp_path: Path) -> None:
    site, guard = make(tmp_path, "auto")
    rest(site)
    site.run(100)
    assert site.snapshot.slices.text.startswith("not kept: ")
    site.toy.tps = {"red": 50.0, "blue": 50.0}  # other channels are at work: nothing is known of these
    site.run(1)
    assert site.snapshot.slices.text == "not tried yet"
    site.toy.tps = {"red": 50.0}
    site.run(100)
    assert site.snapshot.slices.text.startswith("not kept: ")
    assert not guard.wanted


def test_yaml_says_off_as_a_boolean(tmp_path: Path) -> None:
    text = "components: [{name: p, role: peer, cgroup: g/p, log: p.log, channels: [red]}]\nslices: "
    for word, expected in (("off", "off"), ("auto", "auto"), ("required", "required")):
        (tmp_path / "qioi.yaml").write_text(text + word)
        assert load_config(tmp_path / "qioi.yaml").slices == expected


def test_a_kernel_without_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "n", "5.10.0", "v", "x86_64")))
    with slicing("auto", False, tmp_path, Hierarchy(2, tmp_path)) as slicer:
        state = slicer.step(SlicePeriod(0.0, [], {}, {}, True))
        assert (state.mode, state.on) == ("auto", False)
        assert "older than 6.15" in state.text
    with pytest.raises(SliceError, match=r"required: kernel .* is older"), \
         slicing("required", False, tmp_path, Hierarchy(2, tmp_path)):  # fmt: skip
        pass
    with slicing("off", False, tmp_path, Hierarchy(2, tmp_path)) as slicer:
        assert isinstance(slicer, NoSlicer)


#: Gives a group's threads their slices and waits to be killed, as a daemon that dies does.
SLICER = """
import sys, time
from pathlib import Path
from qioi.kernel.hierarchy import find_hierarchy
from qioi.controller.slicing import SlicePeriod, slicing
from qioi.model import Component, DelayReading, Role
with slicing("required", True, Path(sys.argv[1]), find_hierarchy()) as slicer:
    one = Component("p", Role.PEER, sys.argv[2])
    period = SlicePeriod(0.0, [one], {"p": DelayReading("p", 0.02, 0.1, 100, 1.0)}, {}, True)
    print(slicer.step(period).slices, flush=True)
    time.sleep(1000)
"""


@pytest.mark.slow
def test_after_a_kill_restore_puts_real_threads_back(site: Site) -> None:
    kernel = Kernel()
    default = default_slice(kernel)
    if default is None:
        pytest.skip("this kernel has no slices (they are from 6.12 on)")
    group = site.component("peer0").parent
    site.state.mkdir()
    worker = subprocess.Popen([*DIES_WITH_TEST, sys.executable, "-c", "import time; time.sleep(1000)"])
    site.processes.append(worker)  # type: ignore[arg-type]
    (group / "cgroup.procs").write_text(str(worker.pid))
    before = kernel.read(worker.pid)
    path = str(group.relative_to(site.hierarchy.mount))
    command = [*DIES_WITH_TEST, sys.executable, "-c", SLICER, str(site.state), path]
    slicer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    site.processes.append(slicer)
    assert slicer.stdout is not None
    assert slicer.stdout.readline() == "{'p': 400001}\n"
    assert kernel.read(worker.pid) == Attributes(before.policy, before.flags, before.nice, 400_001)
    slicer.send_signal(signal.SIGKILL)
    slicer.communicate()
    assert kernel.read(worker.pid).slice == 400_001
    done = site.qioi("restore", "--state-dir", str(site.state))
    assert done.returncode == 0, done.stderr
    assert "slices of 1 threads: put back" in done.stdout
    assert kernel.read(worker.pid) == before
    assert "nothing is to be restored" in site.qioi("restore", "--state-dir", str(site.state)).stdout
    worker.kill()
    worker.wait()
    until(lambda: not (group / "cgroup.procs").read_text())


@pytest.mark.parametrize(("found", "said"), [(None, "this kernel takes no slices"), (2_800_000, None)])
def test_a_kernel_is_asked_whether_it_takes_slices(
    found: int | None, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "n", "6.18.0", "v", "x86_64")))
    monkeypatch.setattr("qioi.controller.slicing.default_slice", lambda _: found)
    if said is None:
        assert find_slices(early=False)[1] == found
    else:
        with pytest.raises(SliceError, match=said):
            find_slices(early=False)


def test_what_was_found_of_the_sets_of_channels_used_longest_ago_goes_first(tmp_path: Path) -> None:
    site, _ = make(tmp_path, "auto")
    slicer = site.toy.slicer
    assert isinstance(slicer, Slicer)
    for number in range(REMEMBERED + 3):
        reading = ChannelReading(f"red{number}", 50.0, 0.1)
        slicer.step(SlicePeriod(float(number), [], {}, {reading.channel: reading}, True))
    assert len(slicer._trials) == REMEMBERED
    assert frozenset({"red0"}) not in slicer._trials


def test_a_component_that_was_put_on_no_cpu_has_no_slice(tmp_path: Path) -> None:
    guard = ToyGuard()
    slicer = Slicer("required", guard)  # type: ignore[arg-type]
    delays = {"p": DelayReading("p", 0.0, 0.1, 0, 1.0)}
    state = slicer.step(SlicePeriod(0.0, [Component("p", Role.PEER, "g")], delays, {}, True))
    assert (state.slices, guard.wanted) == ({}, {})


def test_a_component_that_pauses_keeps_its_slice(tmp_path: Path) -> None:
    """An idle chaincode met each burst with the kernel's slice."""
    guard = ToyGuard()
    slicer = Slicer("required", guard)  # type: ignore[arg-type]

    def step(slices: int, disturbed: bool = True) -> dict[str, int]:
        delays = {"p": DelayReading("p", 0.0002 * slices, 0.1, slices, 1.0)}
        slicer.step(SlicePeriod(0.0, [Component("p", Role.PEER, "g")], delays, {}, disturbed))
        return guard.wanted

    sized = step(100)
    assert sized
    assert step(0) == sized
    assert step(0, disturbed=False) == {}
    assert step(0) == {}


def test_the_default_is_looked_at_in_every_period(tmp_path: Path) -> None:
    """At 0.7 ms nothing is to be gained, at 2.8 ms something is; a thread asleep since 1.4 ms has no slice."""
    toy = ToyThreads(tmp_path)
    toy.groups = {"g": [1]}
    slicer = Slicer("required", toy.guard)

    def step(default: int, disturbed: bool) -> dict[str, int]:
        toy.scheduler.default = default
        delays = {"p": DelayReading("p", 0.03, 0.1, 100, 1.0)}
        return dict(slicer.step(SlicePeriod(0.0, [Component("p", Role.PEER, "g")], delays, {}, disturbed)).slices)

    assert step(700_000, True) == {}
    assert step(1_400_001, False) == {}
    toy.scheduler.add(1, 1_400_001)
    assert step(DEFAULT, True) == {"p": 600_001}
    assert step(DEFAULT, False) == {}
    assert toy.scheduler.slices() == {1: DEFAULT}
    assert step(DEFAULT, True) == {"p": 600_001}
    toy.scheduler.default = 2_100_000
    NoSlicer(left=toy.guard).step(SlicePeriod(0.0, [], {}, {}, False))
    assert toy.scheduler.slices() == {1: 2_100_000}
    assert not toy.journal.file.exists()


def test_slices_and_shares_are_never_on_trial_at_once(tmp_path: Path) -> None:
    """Slices are first, and shares wait until there is a verdict on them."""
    site, _ = make(tmp_path, "auto")
    effects, slicer = site.daemon._finder._effects, site.toy.slicer
    tried: list[tuple[bool, bool]] = []
    site.toy.waits["peer0"] = (0.05, 0.95)
    for second in range(120):
        site.run(1)
        tried.append((effects.trying, slicer.trying))
        # From the raise on it seems to have helped, until real-time neighbours come in a trial of slices.
        site.toy.waits["peer0"] = (0.05, 0.3) if second < 20 else (0.05, 0.95)
    assert (True, True) not in tried
    assert tried.index((False, True)) < tried.index((True, False))
    assert (True, False) not in tried[:30]
    limit = site.component("peer0").limit
    assert limit is not None
    assert limit.reason is Reason.NO_EFFECT
