"""Whose CPU time is foreign work, on the real kernel: by groups' own accounts, and where components can run."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from monitor_groups import Groups
from waiting import until

from qioi.kernel.cpu_accounts import CpuAccounts, find_cpu_accounts
from qioi.kernel.errors import CgroupError
from qioi.kernel.hierarchy import find_hierarchy
from qioi.model import Component, Role
from qioi.model.groups import branches
from qioi.monitor.scheduler.delays import CgroupDelays
from qioi.monitor.scheduler.foreign_groups import LEAST, ForeignGroups
from qioi.monitor.scheduler.group_usage import GroupUsage
from qioi.monitor.scheduler.host import HostWatch
from qioi.monitor.scheduler.pinned import PinnedComponents

CPUS = os.cpu_count() or 1
#: Seconds between two looks at the groups' accounts.
BETWEEN = 0.25
SPIN = "while True: pass"
#: Each lives for some milliseconds, and nobody lists it while it does.
SHORT = (
    "import os,time\n"
    "while True:\n"
    "  if os.fork() == 0:\n"
    "    end = time.thread_time() + 0.004\n"
    "    while time.thread_time() < end: pass\n"
    "    os._exit(0)\n"
    "  os.wait()\n"
)


class Site:
    """Groups of a test's own that stand beside each other on CPU 0, the accounts of them, and the host's load."""

    def __init__(self, groups: Groups) -> None:
        self.hierarchy = find_hierarchy()
        self.accounts = CpuAccounts(self.hierarchy.version, find_cpu_accounts(self.hierarchy))
        self.groups = groups
        self.made_idle: tuple[str, ...] = ()
        self.foreign = ForeignGroups(self.accounts, self.hierarchy.mount, made_idle=lambda: self.made_idle)
        self.usage = GroupUsage(self.accounts, self.foreign)

    def component(self, name: str = "peer") -> Component:
        folder = self.groups.make(name)
        return Component(name, Role.PEER, str(folder.relative_to(self.hierarchy.mount)))

    def run(self, name: str, code: str = SPIN) -> Path:
        folder = self.groups.base / name
        if not folder.exists():
            self.groups.make(name)
        self.groups.run(folder, code)
        return folder

    def path(self, name: str) -> str:
        return str((self.groups.base / name).relative_to(self.hierarchy.mount))


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr("qioi.monitor.scheduler.foreign_groups.EVERY", BETWEEN / 2)
    try:
        hierarchy = find_hierarchy()
    except CgroupError:
        pytest.skip("no CPU controller")
    accounts = find_cpu_accounts(hierarchy)
    if accounts is None or not os.access(hierarchy.mount, os.W_OK):
        pytest.skip("no right to make control groups, or no accounts of them")
    name = f"qioi-test-foreign-{os.getpid()}"
    groups = Groups(hierarchy.mount / name, None if accounts == hierarchy.mount else accounts / name)
    try:
        groups.base.mkdir()
        if groups.accounts is not None:
            groups.accounts.mkdir()
        # So that what else the machine does decides nothing: a daemon of another test's may have raised its own group.
        (groups.base / hierarchy.file).write_text("32768" if hierarchy.version == 1 else "3200")
        yield Site(groups)
    finally:
        groups.remove()


def test_what_short_lived_processes_of_a_component_use_is_its_own(site: Site) -> None:
    """Threads that nobody saw have run all the same: health checks, builders of chaincode."""
    component = site.component()
    site.run("peer", SHORT)
    delays = CgroupDelays([component], site.hierarchy.mount, site.accounts)
    delays.read(time.monotonic())
    begun = site.accounts.seconds(component.cgroup)
    assert begun is not None
    until(lambda: (site.accounts.seconds(component.cgroup) or 0.0) > begun + 0.5)
    (reading,) = delays.read(time.monotonic()).values()
    delays.close()
    assert reading.used is not None
    assert reading.used > 0.5
    assert reading.run < 0.5 * reading.used  # it is not what the threads tell
    assert reading.cores == pytest.approx(reading.used / reading.interval)


@pytest.mark.slow
def test_two_that_are_pinned_beside_a_pinned_component_are_all_of_its_neighbours(site: Site) -> None:
    """On a host of many CPUs they are a few per cent of it: where the component can run there is nothing else."""
    component = site.component()
    site.run("peer")
    site.run("hogs")
    site.run("hogs")
    delays = CgroupDelays([component], site.hierarchy.mount, site.accounts)
    watch = HostWatch(pinned=PinnedComponents([component], site.hierarchy.mount))

    def hogs() -> float:
        return site.accounts.seconds(site.path("hogs")) or 0.0

    # What the hogs used between the two looks bounds what these may say, less what no process had of that CPU in the
    # meantime, and the time between the parts of the first look.
    begun, nobodys = time.monotonic(), nobodys_time()
    watch.read(delays.read(begun).values())
    used, held_up = hogs(), time.monotonic() - begun
    until(lambda: hogs() > used + 1.0)
    least = hogs() - used - held_up
    readings = delays.read(time.monotonic())
    load = watch.read(readings.values())
    delays.close()
    least -= nobodys_time() - nobodys
    assert load is not None
    assert load.of("peer").idle < 0.1
    assert load.of("peer").foreign * (time.monotonic() - begun) > least - 0.05
    assert load.of("somebody") is load
    assert load.foreign + load.idle < 1.0 - 0.5 * readings["peer"].cores / CPUS  # its own is no foreign work


def nobodys_time() -> float:
    """The seconds of CPU 0 so far that were stolen or went to interrupts."""
    times = psutil.cpu_times(percpu=True)[0]
    return times.steal + times.irq + times.softirq


def foreigners(site: Site, component: Component) -> dict[str, float]:
    """Who the usage names, after four looks: two to compare, and more for what is below a busy group."""
    above = branches([component.cgroup])
    looks: list[float] = []
    for _ in range(4):
        time.sleep(BETWEEN)
        looks.append(time.monotonic())
        site.usage.read(looks[-1], [component], {}, above)
        found = site.usage.foreigners(looks[-1])
    # The accounts go on while they are read, and some of them by ticks.
    between = looks[-1] - looks[-2]
    most = CPUS * (1.01 * (time.monotonic() - looks[-2]) + 0.02) / between
    assert all(one.cores <= most for one in found)
    return {one.group: one.cores for one in found}


def named(site: Site, component: Component, path: str) -> dict[str, float]:
    """Who the usage names once this one is among them: beside much else it may have too little for a while."""
    found: dict[str, float] = {}

    def is_named() -> bool:
        found.clear()
        found.update(foreigners(site, component))
        return path in found

    until(is_named, what=f"{path} is named")
    return found


@pytest.mark.slow
def test_the_groups_that_take_the_most_are_named(site: Site) -> None:
    component = site.component()
    site.run("peer")
    site.groups.make("batch")
    site.groups.make("batch", "quiet")
    site.run("batch/hog")
    found = named(site, component, site.path("batch/hog"))  # and not the slice that it is in
    assert not {component.cgroup, site.path("batch"), site.path("batch/quiet")} & found.keys()


@pytest.mark.slow
def test_processes_in_a_group_above_components_go_by_its_name(site: Site) -> None:
    if site.hierarchy.version == 2:
        pytest.skip("cgroup v2 has no processes in a group that has groups below it")
    component = site.component()
    site.groups.run(site.groups.base, SPIN)
    assert named(site, component, site.path("."))[site.path(".")] >= LEAST


@pytest.mark.slow
@pytest.mark.parametrize(
    "code", ["import os\nos.nice(19)\n", "import os\nos.sched_setscheduler(0,os.SCHED_IDLE,os.sched_param(0))\n"]
)
def test_a_nice_neighbour_in_a_group_of_its_own_takes_as_much_as_any(site: Site, code: str) -> None:
    """A nice value counts among the threads of one group. The kernel says so, and it is named."""
    component = site.component()
    site.run("peer")
    site.run("soaker", code + SPIN)
    groups = (component.cgroup, site.path("soaker"))
    before = [site.accounts.seconds(group) or 0.0 for group in groups]
    named(site, component, site.path("soaker"))
    peer, soaker = ((site.accounts.seconds(one) or 0.0) - was for one, was in zip(groups, before, strict=True))
    assert soaker > 0.5 * peer


@pytest.mark.slow
def test_a_group_that_leaves_room_is_no_foreign_work(site: Site) -> None:
    component = site.component()
    soaker = site.run("soaker")
    if not (soaker / "cpu.idle").exists():
        pytest.skip("this kernel has no cpu.idle")
    named(site, component, site.path("soaker"))
    (soaker / "cpu.idle").write_text("1")
    watch = HostWatch(idle_seconds=site.foreign.idle_seconds)

    def is_left_out() -> bool:
        """Beside much else an idle group hardly runs, and is asked about only once it does."""
        assert site.path("soaker") not in foreigners(site, component)
        return site.foreign.idle_groups() == (site.path("soaker"),)

    until(is_left_out)

    def used() -> float:
        return site.accounts.seconds(site.path("soaker")) or 0.0

    # It goes on while this process waits for a CPU: what it used just around a reading bounds what that may say.
    outer, before, inner = used(), site.foreign.idle_seconds(), used()
    watch.read([])
    time.sleep(1.0)
    least, after, most = used() - inner, site.foreign.idle_seconds(), used() - outer
    assert least - 0.02 <= after - before <= most + 0.02
    site.made_idle = (site.path("soaker"),)  # by this daemon, to help: it is as foreign as it was
    assert site.foreign.idle_seconds() == after
    assert site.foreign.idle_groups() == ()
