"""What every lever says of itself: how it is known again, what it takes for an original, and what it leaves behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from real_host import Host
from toy_scheduler import DEFAULT, ToyScheduler

from qioi.controller.levers.eevdf import SliceError, ThreadGoneError
from qioi.controller.levers.idle import IDLE, Idle, read_idle
from qioi.controller.levers.lever import ThreadId
from qioi.controller.levers.shares import Shares
from qioi.controller.levers.slices import NOT_FAIR, Slices
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.kernel.files import KernelFiles
from qioi.kernel.hierarchy import Hierarchy


def test_a_group_is_known_again_and_another_one_at_its_path_is_not(host: Host) -> None:
    shares, a, b = Shares(host.hierarchy, host.access), host.make("a"), host.make("b")
    identity = shares.identity(a)
    shares.check(a, identity)
    with pytest.raises(CgroupGoneError, match="b: another group has that path now"):
        shares.check(b, identity)
    host.remove(a)
    with pytest.raises(CgroupGoneError, match="no such control group"):
        shares.check(a, identity)


def test_a_weight_is_an_original_and_that_of_an_idle_group_is_none(host: Host) -> None:
    shares, path = Shares(host.hierarchy, host.access), host.make("a")
    assert shares.original(path, 500) == 500
    with pytest.raises(CgroupError, match="the group is idle"):
        shares.original(path, 0)
    assert shares.left_by_us((500,)) == (500,)
    assert shares.says(500) == f"{host.hierarchy.file} = 500"


def test_an_idle_group_is_no_original_and_leaves_the_default_weight(host: Host) -> None:
    idle, path = Idle(host.hierarchy, host.access), host.make("a")
    with pytest.raises(CgroupError, match="it was idle before"):
        idle.original(path, IDLE)
    assert idle.original(path, 500) == 500
    assert idle.left_by_us((IDLE,)) == (IDLE, 100 if host.hierarchy.version == 2 else 1024)
    assert (idle.says(IDLE), idle.says(500)) == ("cpu.idle = 1", f"cpu.idle = 0, {host.hierarchy.file} = 500")
    assert (idle.raw(IDLE, 500), idle.shown(IDLE, 500)) == (IDLE, None)


def test_a_slice_is_read_as_the_kernel_takes_it_and_a_thread_without_one_is_left_out() -> None:
    scheduler = ToyScheduler()
    slices = Slices(scheduler, DEFAULT)
    scheduler.add(1)
    scheduler.add(2, 300_000)
    scheduler.add(3, policy=2)
    assert [slices.read(tid) for tid in (1, 2, 3)] == [0, 300_000, NOT_FAIR]
    assert slices.identity(1) == ThreadId(1, 101)
    with pytest.raises(ThreadGoneError, match="another one has its number"):
        slices.check(1, ThreadId(1, 5))
    assert slices.original(2, 300_000) == 300_000
    with pytest.raises(SliceError, match="no slices"):
        slices.original(3, NOT_FAIR)


def test_names_of_groups_that_went_take_no_memory_for_ever(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qioi.controller.levers.shares.REMEMBERED", 2)
    files = KernelFiles()
    shares = Shares(host.hierarchy, host.access, files)
    for name in "abc":
        path = host.make(name, 500)
        assert shares.look(path, shares.identity(path)) == 500
    assert len(shares._names) == 1
    files.close()


def test_an_idle_file_whose_name_is_too_long_for_the_kernel_is_said(tmp_path: Path) -> None:
    """Path.is_dir() and Path.exists() raise there, which ended the daemon."""
    hierarchy, most = Hierarchy(2, tmp_path), os.pathconf("/", "PC_PATH_MAX") - 1
    with pytest.raises(CgroupGoneError, match="no such control group"):
        read_idle(hierarchy, "x" * 300)
    deep = ""
    while (room := most - len(f"{tmp_path}/{deep}")) > 0:
        deep += "x" * (room if room <= 200 else 100) + ("/" if room > 200 else "")
    hierarchy.folder(deep).mkdir(parents=True)  # there is no room for a file's name
    with pytest.raises(CgroupError, match=r"cpu\.idle: File name too long$"):
        read_idle(hierarchy, deep)
