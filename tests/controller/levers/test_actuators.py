"""Every way to a group's weight gives the same answers."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_host import Host

import qioi.controller.levers.libcgroup as binding
from qioi.controller.levers.choose import choose_access
from qioi.controller.levers.files import Files
from qioi.controller.levers.lever import GroupId
from qioi.controller.levers.libcgroup import Libcgroup
from qioi.kernel.cpu_accounts import find_cpu_accounts
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.kernel.hierarchy import Hierarchy, find_hierarchy, unescape
from qioi.model import MAX_SHARES, MIN_SHARES


def test_what_is_written_is_what_the_kernel_has(host: Host) -> None:
    path = host.make("a")
    for value in (2, 100, 1024, 5120, 10_000):
        host.write(path, value)
        assert host.get(path) == value
        assert host.access.read(path) == value


def test_what_others_write_is_what_is_read(host: Host) -> None:
    path = host.make("a", 321)
    assert host.access.read(path) == 321


def test_names_with_odd_characters(host: Host) -> None:
    path = host.make("docker-ab12.scope:x y")
    host.write(path, 777)
    assert host.access.read(path) == 777


def test_a_missing_group_is_said_to_be_gone(host: Host) -> None:
    path = f"{host.parent}/nobody"
    with pytest.raises(CgroupGoneError, match="nobody: no such control group"):
        host.access.read(path)
    with pytest.raises(CgroupGoneError, match="nobody: no such control group"):
        host.access.write(path, 100, GroupId(0, 0))


def test_a_value_the_kernel_refuses_is_an_error_with_its_place(host: Host) -> None:
    if host.hierarchy.mount != find_hierarchy().mount:
        pytest.skip("only a kernel refuses")
    path = host.make("a")
    idle = host.hierarchy.folder(path) / "cpu.idle"
    if not idle.exists():
        pytest.skip("cpu.idle came with Linux 5.15")
    idle.write_text("1")  # an idle group has no weight to set
    before = host.get(path)
    with pytest.raises(CgroupError, match=r"a/cpu\.\w+: Invalid argument"):
        host.write(path, 2048)
    assert host.get(path) == before


def test_a_group_without_the_controller_is_told_from_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    with pytest.raises(CgroupError, match=r"has no cpu\.weight: is `cpu` in its parent's cgroup\.subtree_control\?"):
        Files(Hierarchy(2, tmp_path)).read("bare")
    with pytest.raises(CgroupError, match=r"has no cpu\.shares$"):
        Files(Hierarchy(1, tmp_path)).read("bare")


@pytest.mark.parametrize("path", ["x" * 256, "/".join(["x" * 200] * 30)], ids=["its name", "its path"])
def test_a_name_that_no_group_can_have_is_that_of_none(host: Host, path: str) -> None:
    with pytest.raises(CgroupGoneError, match="no such control group"):
        host.access.read(path)
    with pytest.raises(CgroupGoneError, match="no such control group"):
        host.access.write(path, 2048, GroupId(0, 0))


def test_a_file_without_a_number(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "cpu.weight").write_text("max\n")
    with pytest.raises(CgroupError, match="is no number"):
        Files(Hierarchy(2, tmp_path)).read("g")


def test_libcgroup_on_another_hierarchy_is_not_used(tmp_path: Path) -> None:
    other = Hierarchy(1, tmp_path)
    assert choose_access("auto", other).name == "files"
    with pytest.raises(CgroupError, match="accepted are auto, files"):
        choose_access("libcgroup", other)


def test_without_libcgroup_auto_takes_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "SONAMES", ("libcgroup-that-nobody-has.so.9",))
    assert choose_access("auto", find_hierarchy()).name == "files"
    with pytest.raises(CgroupError, match="libcgroup is not installed"):
        choose_access("libcgroup", find_hierarchy())


def test_auto_prefers_libcgroup() -> None:
    try:
        ctypes.CDLL(binding.SONAMES[0])
    except OSError:
        pytest.skip("libcgroup is not installed")
    assert isinstance(choose_access("auto", find_hierarchy()), Libcgroup)
    assert isinstance(choose_access("files", find_hierarchy()), Files)


V1 = "32 31 0:29 / {mount} rw,relatime - cgroup cgroup rw,{controllers}\n"
V2 = "41 31 0:38 / {mount} rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"


def mounts(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "mountinfo"
    file.write_text("31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n" + text)
    return file


def test_v1_is_found_where_cpu_is_one_of_several_controllers(tmp_path: Path) -> None:
    text = V1.format(mount="/m/cpuset", controllers="cpuset") + V1.format(
        mount="/m/cpu,acct", controllers="cpu,cpuacct"
    )
    assert find_hierarchy(mounts(tmp_path, text)) == Hierarchy(1, Path("/m/cpu,acct"))


def test_v2_is_found_with_an_escaped_space(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "cgroup.controllers").write_text("cpuset cpu io\n")
    escaped = str(tmp_path / "a b").replace(" ", "\\040")
    assert find_hierarchy(mounts(tmp_path, V2.format(mount=escaped))) == Hierarchy(2, tmp_path / "a b")
    assert unescape(escaped) == str(tmp_path / "a b")


@pytest.mark.parametrize("with_cpu_in_v2", [False, True])
def test_hybrid_takes_the_one_that_has_the_controller(tmp_path: Path, with_cpu_in_v2: bool) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu\n" if with_cpu_in_v2 else "hugetlb\n")
    unified = V2.format(mount=tmp_path)
    v1 = V1.format(mount="/m/memory", controllers="memory")
    if with_cpu_in_v2:
        assert find_hierarchy(mounts(tmp_path, unified + v1)).version == 2
    else:
        v1 += V1.format(mount="/m/cpu", controllers="cpu")
        assert find_hierarchy(mounts(tmp_path, unified + v1)) == Hierarchy(1, Path("/m/cpu"))


def test_a_mount_that_a_user_has_named_badly_hides_nothing(tmp_path: Path) -> None:
    """FUSE lets everybody mount, and the kernel escapes a few characters only."""
    table = tmp_path / "mountinfo"
    bad = [f"40 1 0:9 / /home/eve/{name} rw - fuse.x x rw\n" for name in ("a\udcff", "b\u2028c", "d\x0ce", "f\x85g")]
    table.write_bytes(os.fsencode("".join(bad) + V1.format(mount="/m/cpu", controllers="cpu,cpuacct")))
    hierarchy = Hierarchy(1, Path("/m/cpu"))
    assert find_hierarchy(table) == hierarchy
    assert find_cpu_accounts(hierarchy, table) == Path("/m/cpu")


def test_a_host_without_the_controller_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("io\n")
    with pytest.raises(CgroupError, match="no CPU controller"):
        find_hierarchy(mounts(tmp_path, V2.format(mount=tmp_path)))


@pytest.mark.parametrize(
    ("found", "shares", "weight"),
    [(100, 1024, 100), (100, 5120, 500), (39, 1024, 39), (39, 5120, 195), (100, 262144, 10_000), (100, 2, 1)],
)
def test_v2_keeps_ratios_to_the_weight_found(found: int, shares: int, weight: int) -> None:
    assert Hierarchy(2, Path("/")).raw(shares, found) == weight


@given(st.integers(), st.integers())
def test_whatever_a_journal_says_a_share_of_v2_is_within_the_kernels_bounds(raw: int, found: int) -> None:
    """An original of 0, which no group takes, ended a restore with a ZeroDivisionError."""
    assert MIN_SHARES <= Hierarchy(2, Path("/")).shares(raw, found) <= MAX_SHARES


@given(st.integers(1, 10_000), st.integers(MIN_SHARES, MAX_SHARES), st.integers(MIN_SHARES, MAX_SHARES))
def test_units_keep_order_bounds_and_the_value_found(found: int, one: int, other: int) -> None:
    v1, v2 = Hierarchy(1, Path("/")), Hierarchy(2, Path("/"))
    low, high = sorted((one, other))
    assert v1.raw(one, found) == v1.shares(one, found) == one
    assert 1 <= v2.raw(low, found) <= v2.raw(high, found) <= 10_000
    assert v2.shares(found, found) == 1024
    assert v2.raw(1024, found) == found
    if high <= 10_000 * 1024 / found:  # beyond, the weight is the kernel's most whatever the share
        assert v2.raw(v2.shares(v2.raw(one, found), found), found) == v2.raw(one, found)
