"""The shares of the daemon's own group: while real-time is not in force, and where they cannot be written."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from realtime import need_realtime, policy_of
from refusing import read_only
from running import Site, begin_in, end
from waiting import DIES_WITH_TEST, until

from qioi.controller.guard.writer import PAUSE
from qioi.daemon.own import parent_of
from qioi.daemon.own_shares import LOOK
from qioi.kernel.hierarchy import Hierarchy

pytestmark = pytest.mark.slow

FOUND, RAISED = 1024, 8192


@pytest.fixture
def own(site: Site) -> Path:
    """The control group of the daemon's own."""
    site.component("peer0")
    folder = site.hierarchy.folder(f"{site.parent}/daemon")
    folder.mkdir()
    return folder


def shares(hierarchy: Hierarchy, group: Path) -> int:
    return hierarchy.found(int((group / hierarchy.file).read_text()))


def begin(site: Site, own: Path) -> subprocess.Popen[str]:
    """Start the daemon in its group."""
    process = begin_in(own, site, *site.command("run", "-c", str(site.config())))
    until(lambda: site.periods() > 0)
    return process


def pass_periods(site: Site, count: int = 5) -> None:
    last = site.periods() + count
    until(lambda: site.periods() >= last)


@pytest.mark.parametrize("lasts", [True, False])
def test_own_shares_that_cannot_be_set_are_tried_again_and_said_once(site: Site, own: Path, lasts: bool) -> None:
    site.changes = {"own": {"shares": RAISED, "nice": None}, "actuator": "files"}
    file = own / site.hierarchy.file
    raised = site.hierarchy.raw(RAISED, int(file.read_text()))
    with read_only(file):
        process = begin(site, own)
        pass_periods(site)
        if lasts:
            status, text = end(process)
    if not lasts:
        until(lambda: shares(site.hierarchy, own) == RAISED)
        pass_periods(site)
        status, text = end(process)
    assert (status, shares(site.hierarchy, own)) == (0, FOUND)
    said = [line.partition("own.shares: ")[2] for line in text.splitlines() if "own.shares: " in line]
    group = f"{site.parent}/daemon"
    failed, done = (
        f"{group}: {file}: Read-only file system: tried again in each period",
        f"{group}: {file.name} = {raised}",
    )
    assert said == ([failed] if lasts else [failed, done])


def test_own_shares_that_a_daemon_before_has_left_are_not_taken_for_a_components(site: Site, own: Path) -> None:
    site.changes = {"own": {"shares": RAISED, "nice": None}}
    first = begin(site, own)
    first.kill()
    first.wait()
    with read_only(own / site.hierarchy.file):
        process = begin(site, own)
        pass_periods(site)
    pass_periods(site)
    assert shares(site.hierarchy, own) == RAISED
    assert (end(process)[0], shares(site.hierarchy, own)) == (0, FOUND)


def test_own_shares_left_by_a_daemon_before_go_back_once_they_can_where_none_are_wanted(site: Site, own: Path) -> None:
    site.changes = {"own": {"shares": RAISED, "nice": None}}
    first = begin(site, own)
    first.kill()
    first.wait()
    site.changes = {"own": {"realtime": False, "nice": None}}
    company = begin_in(own, site, "sleep", "600")
    until(lambda: str(company.pid) in (own / "cgroup.procs").read_text().split())
    with read_only(own / site.hierarchy.file):
        process = begin(site, own)
        pass_periods(site)
        assert shares(site.hierarchy, own) == RAISED
    until(lambda: shares(site.hierarchy, own) == FOUND)
    status, text = end(process)
    assert (status, text.count("own.shares: ")) == (0, 2)


@pytest.mark.parametrize("again", [True, False])
def test_where_realtime_is_lost_in_mid_run_the_group_has_shares_until_it_is_back(
    site: Site, own: Path, again: bool
) -> None:
    need_realtime()
    for group, microseconds in ((own.parent, "20000"), (own, "10000")):
        if (budget := group / "cpu.rt_runtime_us").exists():
            budget.write_text(microseconds)
    process = begin(site, own)
    if policy_of(process.pid) != os.SCHED_RR:
        pytest.skip("no real-time priority in a group of its own here")
    assert shares(site.hierarchy, own) == FOUND
    for _ in range(2):
        os.sched_setscheduler(process.pid, os.SCHED_OTHER, os.sched_param(0))
        until(lambda: shares(site.hierarchy, own) == RAISED)
        if again:
            os.sched_setscheduler(process.pid, os.SCHED_RR, os.sched_param(1))
            until(lambda: shares(site.hierarchy, own) == FOUND)
    status, text = end(process)
    assert (status, shares(site.hierarchy, own)) == (0, FOUND)
    assert text.count("own protection: real-time priority was taken away") == (2 if again else 1)
    assert text.count("own.shares: ") == (4 if again else 1)


#: Has the shares of its own group looked after, at the times that it is told. It has a child, as a daemon that follows
#: journald has.
LOOKER = """
import subprocess, sys
from pathlib import Path
from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Journal
from qioi.controller.levers.files import Files
from qioi.daemon.own_shares import OwnShares
from qioi.kernel.hierarchy import find_hierarchy
from qioi.settings.config import load_config
config, hierarchy = load_config(Path(sys.argv[1])), find_hierarchy()
config.state_dir.mkdir()
now = 0.0
guard = Guard(hierarchy, Files(hierarchy), Journal(config.state_dir), clock=lambda: now)
own = OwnShares(config, guard, hierarchy)
child = subprocess.Popen(["sleep", "600"])
try:
    for line in sys.stdin:
        now = float(line)
        own.look(now, realtime=False)
        print("looked", flush=True)
finally:
    child.kill()
    child.wait()
"""


@contextmanager
def looker(site: Site, own: Path, before: str = "") -> Iterator[Callable[[float], int]]:
    """Start the looker in the group; give what has it look at a time, and gives the group's shares then.

    ``before`` is what its entrypoint starts first.
    """
    site.changes = {"own": {"realtime": False, "nice": None}}
    join = f'echo $$ > {own}/cgroup.procs; {before}exec "$@"'
    command = ["/bin/sh", "-c", join, "sh", sys.executable, "-c", LOOKER, str(site.config())]
    pipe = subprocess.PIPE
    with subprocess.Popen([*DIES_WITH_TEST, *command], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        answers = process.stdout

        def look(now: float) -> int:
            print(now, file=process.stdin, flush=True)
            assert answers.readline() == "looked\n"
            return shares(site.hierarchy, own)

        yield look


@contextmanager
def joined(site: Site, own: Path) -> Iterator[None]:
    """Have a shell's process in the group for a while."""
    company = begin_in(own, site, *DIES_WITH_TEST, "sleep", "600")
    until(lambda: str(company.pid) in (own / "cgroup.procs").read_text().split())
    yield
    company.kill()
    company.communicate()
    until(lambda: str(company.pid) not in (own / "cgroup.procs").read_text().split())


def test_a_group_that_was_found_with_more_keeps_it(site: Site, own: Path) -> None:
    (own / site.hierarchy.file).write_text("20480")
    with looker(site, own) as look:
        assert [look(0.0), look(LOOK)] == [20480, 20480]


def test_own_shares_go_back_where_company_stays_and_are_raised_again_when_it_has_left(site: Site, own: Path) -> None:
    with looker(site, own) as look:
        assert [look(0.0), look(LOOK)] == [RAISED, RAISED]
        with joined(site, own):
            assert [look(1.5 * LOOK), look(2.0 * LOOK)] == [RAISED, RAISED]
            assert [look(2.5 * LOOK), look(3.0 * LOOK)] == [RAISED, FOUND]
        assert [look(4.0 * LOOK), look(5.0 * LOOK)] == [FOUND, RAISED]


def test_own_shares_stay_where_company_leaves_soon(site: Site, own: Path) -> None:
    with looker(site, own) as look:
        assert look(0.0) == RAISED
        for number in range(1, 9, 2):
            with joined(site, own):
                assert look(number * LOOK) == RAISED
            assert look((number + 1) * LOOK) == RAISED


def test_own_shares_are_raised_when_the_company_of_the_start_has_left(site: Site, own: Path) -> None:
    with ExitStack() as company:
        company.enter_context(joined(site, own))
        with looker(site, own) as look:
            assert [look(0.0), look(LOOK)] == [FOUND, FOUND]
            company.close()
            assert [look(2.0 * LOOK), look(3.0 * LOOK)] == [FOUND, RAISED]


def test_own_shares_that_somebody_has_put_back_are_raised_again_after_a_pause(site: Site, own: Path) -> None:
    file = own / site.hierarchy.file
    found = file.read_text()
    with looker(site, own) as look:
        assert look(0.0) == RAISED
        file.write_text(found)
        assert [look(LOOK), look(LOOK + PAUSE / 2)] == [FOUND, FOUND]
        assert look(2.0 * LOOK + PAUSE) == RAISED
        file.write_text(str(2 * int(found)))
        assert [look(3.0 * LOOK + PAUSE), look(4.0 * LOOK + 100.0 * PAUSE)] == [2 * FOUND, 2 * FOUND]
        file.write_text(found)
        assert [look(5.0 * LOOK + 100.0 * PAUSE), look(6.0 * LOOK + 200.0 * PAUSE)] == [FOUND, RAISED]


def test_what_an_entrypoint_has_left_in_the_group_is_company_though_it_is_a_child(site: Site, own: Path) -> None:
    with looker(site, own, f"{shlex.join(DIES_WITH_TEST)} sleep 600 & ") as look:
        assert [look(0.0), look(LOOK)] == [FOUND, FOUND]
        pids = (own / "cgroup.procs").read_text().split()
        parents = {pid: parent_of(pid) for pid in pids}
        looks = next(pid for pid in pids if parents[pid] not in pids)
        worker = min((pid for pid in pids if pid != looks), key=int)  # its other child came later
        os.kill(int(worker), signal.SIGKILL)
        until(lambda: worker not in (own / "cgroup.procs").read_text().split())
        assert [look(2.0 * LOOK), look(3.0 * LOOK)] == [FOUND, RAISED]
