"""Fixtures of several rooms: sites of real daemons, control groups of the tests' own on this host."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from monitor_groups import MOUNTS, Groups
from real_host import Host
from running import Site, make_parent
from waiting import remove_tree

from qioi.controller.guard.journal import Journal
from qioi.controller.levers.eevdf import Kernel, default_slice
from qioi.controller.levers.files import Files
from qioi.controller.levers.libcgroup import Libcgroup, LibcgroupMissingError
from qioi.kernel.hierarchy import Hierarchy, find_hierarchy
from qioi.processes.cgroups import find_mounts
from qioi.processes.tree import Tree


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("needs root: makes control groups")
    if find_hierarchy().version != 1:
        pytest.skip("counts in cgroup v1's shares (make test-host runs the daemon on v2)")
    site = Site(tmp_path)
    yield site
    site.close()


@pytest.fixture
def real_group() -> Iterator[tuple[Hierarchy, str]]:
    """A parent group on the real host."""
    if os.geteuid() != 0:
        pytest.skip("needs root: makes control groups")
    hierarchy = find_hierarchy()
    name = f"qioi-test-{os.getpid()}-{uuid.uuid4().hex[:6]}"
    folder = make_parent(hierarchy, name)
    yield hierarchy, name
    remove_tree(folder)


@pytest.fixture(params=["files", "libcgroup", "files on a fake of v2"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    """Every actuator on the real host. No host here has v2's cpu controller, so v2 is a folder of files."""
    if request.param == "files on a fake of v2":
        mount = tmp_path / "cgroup2"
        (mount / "parent").mkdir(parents=True)
        fake = Hierarchy(2, mount)
        return Host(fake, Files(fake), "parent")
    hierarchy, parent = request.getfixturevalue("real_group")
    if request.param == "files":
        return Host(hierarchy, Files(hierarchy), parent)
    try:
        return Host(hierarchy, Libcgroup(hierarchy), parent)
    except LibcgroupMissingError as error:
        pytest.skip(str(error))


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    (tmp_path / "state").mkdir()
    return Journal(tmp_path / "state")


@pytest.fixture
def kernel() -> tuple[Kernel, int]:
    kernel = Kernel()
    default = default_slice(kernel)
    if default is None:
        pytest.skip("this kernel has no slices (they are from 6.12 on)")
    return kernel, default


@pytest.fixture
def groups() -> Iterator[Groups]:
    mount = next((path for path in MOUNTS if (path / "cgroup.procs").exists()), None)
    if mount is None or os.geteuid() != 0:
        pytest.skip("needs root and the CPU controller")
    made = Groups(mount / f"qioi-test-{uuid.uuid4().hex[:12]}")
    made.base.mkdir()
    try:
        yield made
    finally:
        made.remove()


@pytest.fixture
def tree() -> Iterator[Tree]:
    """A group of the tests' own in the real hierarchy, gone afterwards with all that runs in it."""
    tree = Tree(f"qioi-test-{uuid.uuid4().hex[:12]}", find_mounts())
    tree.create()
    yield tree
    tree.remove(grace=0)
