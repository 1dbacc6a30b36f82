"""The level that counts, by what the kernel accounts for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from running import Site, end
from waiting import DIES_WITH_TEST, until

from qioi.daemon.level_watch import LevelWatch
from qioi.kernel.cpu_accounts import CpuAccounts, find_cpu_accounts
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Component, DelayReading, Role


@contextmanager
def burner(hierarchy: Hierarchy, path: str) -> Iterator[None]:
    """A busy loop in a real group, which stands in every hierarchy that accounts for it."""
    process = subprocess.Popen([*DIES_WITH_TEST, sys.executable, "-c", "while True: pass"])
    try:
        for mount in mounts(hierarchy):
            (mount / path).mkdir(parents=True, exist_ok=True)
            (mount / path / "cgroup.procs").write_text(str(process.pid))
        yield
    finally:
        process.kill()
        process.wait()


def mounts(hierarchy: Hierarchy) -> set[Path]:
    return {hierarchy.mount, find_cpu_accounts(hierarchy) or hierarchy.mount}


def sweep(hierarchy: Hierarchy, *paths: str) -> None:
    for mount in mounts(hierarchy):
        for path in paths:
            if (mount / path).is_dir():
                until(lambda folder=mount / path: not (folder / "cgroup.procs").read_text())  # type: ignore[misc]
                (mount / path).rmdir()


@pytest.mark.slow
@pytest.mark.parametrize("outside", [True, False])
def test_real_busy_loops_show_the_level(site: Site, outside: bool) -> None:
    """A component in engine/peer, a busy loop beside `engine` or beside `engine/peer`."""
    engine = f"{site.parent}/engine"
    site.weigh(262_144)  # else the most foreign work by far may be beside the test itself
    site.hierarchy.folder(engine).mkdir()
    if site.hierarchy.version == 2:
        (site.hierarchy.folder(engine) / "cgroup.subtree_control").write_text("+cpu")
    component = f"{engine}/peer"
    foreign = f"{site.parent}/outsider" if outside else f"{engine}/insider"
    site.hierarchy.folder(component).mkdir()
    for mount in mounts(site.hierarchy):
        (mount / component).mkdir(parents=True, exist_ok=True)
    site.components.append(
        {"name": "peer0", "role": "peer", "cgroup": component, "channels": ["red"], "log": str(site.log)}
    )
    weight = site.hierarchy.folder(engine if outside else component) / site.hierarchy.file
    other = site.hierarchy.folder(component if outside else engine) / site.hierarchy.file
    originals = weight.read_text(), other.read_text()
    try:
        with burner(site.hierarchy, foreign):
            process = site.start()
            site.commit_until(lambda: weight.read_text() != originals[0])
            assert other.read_text() == originals[1]
            said = site.qioi("explain", "peer0", "--socket", str(site.socket), "--output", "json").stdout
            # Whatever else runs on this host may be another level, farther out.
            assert json.loads(said)["acted_at"][0] == (engine if outside else component)
            assert (component if outside else engine) not in json.loads(said)["acted_at"]
            assert end(process)[0] == 0
        assert (weight.read_text(), other.read_text()) == originals
    finally:
        for one in site.processes:
            if one.poll() is None:
                one.kill()
                one.wait()
        sweep(site.hierarchy, foreign, component, engine)
        for mount in mounts(site.hierarchy) - {site.hierarchy.mount}:
            (mount / site.parent).rmdir()


def test_cpu_time_is_read_where_the_host_accounts_for_it(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "30 20 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n31 20 0:2 / /x/acct rw - cgroup cgroup rw,cpuacct\n"
    )
    assert find_cpu_accounts(Hierarchy(1, tmp_path), table) == Path("/x/acct")
    assert find_cpu_accounts(Hierarchy(2, tmp_path), table) == tmp_path
    table.write_text("30 20 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n")
    assert find_cpu_accounts(Hierarchy(1, tmp_path), table) is None


@pytest.mark.parametrize(
    ("version", "file", "text"), [(1, "cpuacct.usage", "%d000"), (2, "cpu.stat", "usage_usec %d\nuser_usec 1\n")]
)
def test_levels_are_found_from_the_kernels_accounts(tmp_path: Path, version: int, file: str, text: str) -> None:
    one = Component("p", Role.PEER, "docker/p")
    watch = LevelWatch(CpuAccounts(version, tmp_path))
    (tmp_path / "docker").mkdir()

    def account(host: int, docker: int) -> None:
        (tmp_path / file).write_text(text % host)
        (tmp_path / "docker" / file).write_text(text % docker)

    delays = {"p": DelayReading("p", 0.1, 0.0, 10, 1.0)}
    account(1_000_000, 1_000_000)
    assert "not known" in watch.read(10.0, [one], delays, [], {})["docker/p"].why
    account(2_900_000, 1_100_000)
    assert watch.read(11.0, [one], delays, [], {})["docker/p"].groups == ("docker",)
    (tmp_path / file).write_text("what\n")
    assert watch.read(12.0, [one], delays, [], {})["docker/p"].groups == ("docker/p",)
    assert "not known" in LevelWatch(CpuAccounts(version, None)).read(1.0, [one], delays, [], {})["docker/p"].why


def test_what_is_much_is_told_by_the_processors_that_are_there_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual machine may be given more while it runs."""
    watch, one = LevelWatch(CpuAccounts(1, tmp_path)), Component("p", Role.PEER, "docker/p")
    delays, levels = {"p": DelayReading("p", 0.1, 0.0, 10, 1.0)}, []
    (tmp_path / "docker").mkdir()
    for second, cpus in enumerate((2, 2, 64)):
        monkeypatch.setattr(os, "cpu_count", lambda cpus=cpus: cpus)
        (tmp_path / "cpuacct.usage").write_text(f"{second * 500_000_000}\n")  # 0.4 CPUs beside docker
        (tmp_path / "docker/cpuacct.usage").write_text(f"{second * 100_000_000}\n")
        levels.append(watch.read(float(second), [one], delays, [], {})["docker/p"].groups)
    assert levels[1:] == [("docker",), ("docker/p",)]


def test_a_component_that_is_down_hides_no_level_from_the_others(tmp_path: Path) -> None:
    """It uses nothing; and one that has just begun, of which nothing is known yet, changes nothing."""
    watch = LevelWatch(CpuAccounts(1, tmp_path))
    here, down, new = (Component(name, Role.PEER, f"docker/{name}") for name in ("p", "down", "new"))
    delays = {"p": DelayReading("p", 0.1, 0.0, 10, 1.0)}

    def account(second: int) -> None:
        for group, cores in {"": 2.0, "docker": 0.1, "docker/p": 0.1}.items():
            (tmp_path / group).mkdir(exist_ok=True)
            (tmp_path / group / "cpuacct.usage").write_text(f"{round(second * cores * 1e9)}\n")

    for second in range(3):
        account(second)
        placed = watch.read(float(second), [here, down], delays, [], {})
    assert placed["docker/p"].groups == ("docker",)
    (tmp_path / "docker/new").mkdir()
    (tmp_path / "docker/new/cpuacct.usage").write_text("5000000000\n")
    account(3)
    assert watch.read(3.0, [here, down, new], delays, [], {})["docker/p"].groups == ("docker",)
