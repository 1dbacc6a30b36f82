"""A neighbour that outweighs whatever a fixed ceiling allows, on the real kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from running import BUSY, Site
from waiting import remove_group

from qioi.kernel.cpu_accounts import find_cpu_accounts

pytestmark = pytest.mark.slow

#: The kernel's most shares, which a privileged container or a unit may well have.
HEAVY = 262_144
#: CPU time in s of both together that tells: the clock of processes ticks every 10 ms.
LOOK = 3.0
#: A component's part of what both have: as many shares as the heavy one's bring half of it, 16,384 shares a sixteenth.
MUCH = 0.3


@contextmanager
def accounted(site: Site) -> Iterator[Path]:
    """Give the site's parent group where CPU time is accounted for, which may be mounted apart from the shares."""
    mount = find_cpu_accounts(site.hierarchy)
    if mount is None:
        pytest.skip("this host keeps no account of CPU time")
    parent = mount / site.parent
    parent.mkdir(exist_ok=True)
    try:
        yield parent
    finally:
        for process in site.processes:
            process.kill()
            process.wait()
        for below in parent.iterdir():
            if below.is_dir() and mount != site.hierarchy.mount:
                remove_group(below)
        if mount != site.hierarchy.mount:
            remove_group(parent)


def work(site: Site, accounts: Path, name: str) -> list[psutil.Process]:
    """Have a group burn what it gets on all CPUs."""
    (accounts / name).mkdir(exist_ok=True)
    processes = [psutil.Process(site.work(name, BUSY).pid) for _ in range(os.cpu_count() or 1)]
    for one in processes:
        (accounts / name / "cgroup.procs").write_text(str(one.pid))
    return processes


def test_a_component_beside_the_heaviest_neighbour_there_is_gets_its_cpu(site: Site) -> None:
    share = site.component("peer0")
    site.weigh(8192)
    site.changes = {"channels": {"red": {"law": "adaptive"}}}
    with accounted(site) as accounts:
        groups = [work(site, accounts, name) for name in ("peer0", "heavy")]
        (site.hierarchy.folder(f"{site.parent}/heavy") / site.hierarchy.file).write_text(str(HEAVY))
        site.start()
        site.commit_until(lambda: int(share.read_text()) > MUCH * HEAVY)
        before = used(groups)
        site.commit_until(lambda: sum(used(groups)) >= sum(before) + LOOK)
        its, others = (now - then for now, then in zip(used(groups), before, strict=True))
    assert its > MUCH * (its + others)


def used(groups: list[list[psutil.Process]]) -> list[float]:
    """Give the CPU time in s of each group's processes."""
    return [sum(one.cpu_times().user for one in processes) for processes in groups]
