"""A control group of the tests' own on this host, removed after, and every way to its weight."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_host import Host
from waiting import remove_group

from qioi.controller.files import Files
from qioi.controller.hierarchy import Hierarchy, find_hierarchy
from qioi.controller.journal import Journal
from qioi.controller.libcgroup import Libcgroup, LibcgroupMissingError


@pytest.fixture
def real_group() -> Iterator[tuple[Hierarchy, str]]:
    """A parent group on the real host."""
    if os.geteuid() != 0:
        pytest.skip("needs root: makes control groups")
    hierarchy = find_hierarchy()
    name = f"qioi-test-{os.getpid()}-{uuid.uuid4().hex[:6]}"
    folder = hierarchy.folder(name)
    folder.mkdir()
    if hierarchy.version == 2:
        (folder / "cgroup.subtree_control").write_text("+cpu")
    yield hierarchy, name
    for below in folder.iterdir():
        if below.is_dir():
            remove_group(below)
    remove_group(folder)


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
