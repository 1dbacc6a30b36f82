"""``cpu.idle``: set only where it was not, with the weight on record, and put back with it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from real_host import Host, real_mount

from qioi.controller.guard.idle_groups import NAME, IdleGuard
from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.restore import Result, restore_entries
from qioi.controller.levers import idle as lever
from qioi.controller.levers.idle import read_idle
from qioi.controller.levers.lever import GroupId, Identity
from qioi.kernel.errors import CgroupError


class Idle:
    def __init__(self, host: Host, folder: Path) -> None:
        self.host = host
        self.real = host.hierarchy.mount == real_mount()
        self.journal = Journal(folder, name=NAME)
        self.guard = IdleGuard(host.hierarchy, host.access, self.journal)

    def make(self, name: str, weight: int) -> str:
        path = self.host.make(name, weight)
        if not self.real:
            self.file(path).write_text("0")
        elif not self.file(path).exists():
            pytest.skip("this kernel has no cpu.idle (5.15)")
        return path

    def file(self, path: str) -> Path:
        return self.host.hierarchy.folder(path) / "cpu.idle"

    def state(self, path: str) -> tuple[int, int]:
        return int(self.file(path).read_text()), self.host.get(path)


@pytest.fixture
def idle(host: Host, tmp_path: Path) -> Idle:
    return Idle(host, tmp_path)


def test_made_idle_and_put_back_with_its_weight(idle: Idle) -> None:
    a, b = idle.make("a", 3000), idle.make("b", 100 if idle.host.hierarchy.version == 2 else 1024)
    before = idle.state(a), idle.state(b)
    assert [one.result for one in idle.guard.make_idle([a, b])] == [Result.OK, Result.OK]
    assert (idle.state(a)[0], idle.state(b)[0]) == (1, 1)
    assert idle.guard.make_idle([a, b]) == []
    assert idle.guard.groups == (a, b)
    assert [one.result for one in idle.guard.restore()] == [Result.OK, Result.OK]
    assert (idle.state(a), idle.state(b)) == before
    assert not idle.journal.file.exists()


def test_after_a_crash_the_journal_puts_back(idle: Idle) -> None:
    path = idle.make("a", 3000)
    idle.guard.make_idle([path])
    outcomes, left = restore_entries(lever.Idle(idle.host.hierarchy, idle.host.access), idle.journal.load().entries)
    assert ([one.result for one in outcomes], left) == ([Result.OK], [])
    assert idle.state(path) == (0, 3000)


def test_what_was_idle_before_is_nobodys_to_change(idle: Idle) -> None:
    path = idle.make("a", 3000)
    idle.file(path).write_text("1")
    assert idle.guard.make_idle([path]) == []
    assert idle.guard.restore() == []
    assert idle.state(path)[0] == 1


def test_what_somebody_else_has_ended_stays_so_but_has_its_weight(idle: Idle) -> None:
    path = idle.make("a", 3000)
    idle.guard.make_idle([path])
    idle.file(path).write_text("0")
    if not idle.real:
        idle.host.set(path, 100)  # as the kernel does
    assert [one.result for one in idle.guard.make_idle([path])] == [Result.FOREIGN]
    assert idle.state(path) == (0, 3000)
    assert idle.guard.make_idle([path]) == []
    assert idle.state(path)[0] == 0


def test_a_weight_that_somebody_else_has_set_since_is_left_alone(idle: Idle) -> None:
    path = idle.make("a", 3000)
    idle.guard.make_idle([path])
    idle.file(path).write_text("0")
    idle.host.set(path, 555)
    assert [one.result for one in idle.guard.restore()] == [Result.FOREIGN]
    assert idle.state(path) == (0, 555)


def test_some_are_put_back_and_the_others_stay(idle: Idle) -> None:
    a, b = idle.make("a", 3000), idle.make("b", 700)
    idle.guard.make_idle([a, b])
    assert idle.guard.release(["never/held"]) == []
    assert [one.result for one in idle.guard.release([a])] == [Result.OK]
    assert (idle.state(a), idle.state(b)[0], idle.guard.groups) == ((0, 3000), 1, (b,))
    assert [entry.path for entry in idle.journal.load().entries] == [b]


def test_a_journal_that_cannot_be_written_is_said_beside_what_was_put_back(idle: Idle, tmp_path: Path) -> None:
    a, b = idle.make("a", 3000), idle.make("b", 700)
    idle.guard.make_idle([a, b])
    (tmp_path / "idle.new").mkdir()
    released, unwritten = idle.guard.release([a])
    assert (released.path, released.result, idle.state(a)) == (a, Result.OK, (0, 3000))
    assert (unwritten.path, unwritten.result) == (str(idle.journal.file), Result.FAILED)
    assert "the journal cannot be written (idle.new is in the way: Is a directory)" in unwritten.message
    assert "it names what was restored, too" in unwritten.message
    assert {entry.path for entry in idle.journal.load().entries} == {a, b}
    (tmp_path / "idle.new").rmdir()
    assert [one.result for one in idle.guard.restore()] == [Result.OK]
    assert not idle.journal.file.exists()


def test_a_group_that_is_gone_or_another_one_by_now(idle: Idle) -> None:
    path = idle.make("a", 3000)
    idle.guard.make_idle([path])
    folder = idle.host.hierarchy.folder(path)
    if idle.real:
        idle.host.remove(path)
    else:  # removed, it might leave its inode to the next one: a folder of files recycles them, the kernel does not
        folder.rename(folder.with_name("former"))
    assert [one.result for one in idle.guard.make_idle([path])] == [Result.GONE]
    again = idle.make("a", 777)
    idle.file(again).write_text("1")
    outcomes, left = restore_entries(lever.Idle(idle.host.hierarchy, idle.host.access), idle.journal.load().entries)
    assert ([one.result for one in outcomes], left) == ([Result.GONE], [])


@pytest.mark.parametrize("host", ["files on a fake of v2"], indirect=True)
def test_what_can_go_wrong_is_said(idle: Idle, tmp_path: Path) -> None:
    path = idle.make("a", 3000)
    idle.file(path).unlink()
    (outcome,) = idle.guard.make_idle([path])
    assert outcome.result is Result.FAILED
    assert "accepted are groups of Linux 5.15" in outcome.message
    idle.file(path).write_text("what?")
    with pytest.raises(CgroupError, match=r"cpu\.idle"):
        read_idle(idle.host.hierarchy, path)
    idle.file(path).write_text("0")
    (tmp_path / "idle.new").mkdir()
    (outcome,) = idle.guard.make_idle([path])
    assert "nothing is made idle without it" in outcome.message
    assert idle.state(path) == (0, 3000)
    (tmp_path / "idle.new").rmdir()
    idle.guard.make_idle([path])
    idle.file(path).unlink()
    (outcome,) = idle.guard.restore()
    assert outcome.result is Result.FAILED
    assert idle.guard.groups == (path,)
    idle.file(path).mkdir()
    assert [one.result for one in idle.guard.make_idle([path])] == [Result.FAILED]
    idle.file(path).rmdir()
    idle.file(path).write_text("1")
    idle.host.set(path, 12)
    (outcome,) = idle.guard.restore()  # the kernel gave it another weight than it does
    assert "its weight is 12" in outcome.message


@pytest.mark.parametrize("host", ["files on a fake of v2"], indirect=True)
def test_a_kernel_that_refuses_is_said(idle: Idle) -> None:
    """The kernel's own refusal: the outermost group can't be made idle."""
    mount = real_mount()
    if mount is None or not (mount / "cpu.idle").exists():
        pytest.skip("no cpu.idle in the outermost group (cgroup v1 of Linux 5.15 has one)")
    path = idle.make("a", 3000)
    idle.file(path).unlink()
    idle.file(path).symlink_to(mount / "cpu.idle")
    (outcome,) = idle.guard.make_idle([path])
    assert outcome.result is Result.FAILED
    assert "Invalid argument" in outcome.message
    assert (mount / "cpu.idle").read_text() == "0\n"


def test_groups_that_come_and_go_while_interference_lasts_leave_nothing_behind(idle: Idle) -> None:
    idle.guard.make_idle([idle.make("stays", 500)])
    for number in range(5):
        group = idle.make(f"batch{number}", 700)
        idle.guard.make_idle([group])
        if not idle.real:
            idle.file(group).unlink()
        idle.host.remove(group)
    last = idle.make("last", 700)
    idle.guard.make_idle([last])
    assert {path.rpartition("/")[2] for path in idle.guard.groups} == {"stays", "last"}
    assert len(idle.journal.load().entries) == 2
    idle.guard.restore()
    assert idle.state(last) == (0, 700)


@pytest.mark.parametrize("host", ["files on a fake of v2"], indirect=True)
def test_a_group_that_somebody_makes_idle_before_we_do_is_theirs(idle: Idle, tmp_path: Path) -> None:
    path = idle.make("a", 3000)
    (tmp_path / "idle.new").mkdir()  # the journal can't be written
    idle.guard.make_idle([path])
    (tmp_path / "idle.new").rmdir()
    idle.file(path).write_text("1")
    (outcome,) = idle.guard.make_idle([path])
    assert (outcome.result, "it was idle before" in outcome.message) == (Result.FAILED, True)
    assert idle.guard.restore() == []
    assert idle.state(path) == (1, 3000)


@pytest.mark.parametrize("host", ["files on a fake of v2"], indirect=True)
def test_a_group_that_somebody_else_ends_and_removes_is_no_failure(idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    path = idle.make("a", 3000)
    idle.guard.make_idle([path])
    idle.file(path).write_text("0")
    idle.host.set(path, 555)
    real = lever.Idle.read

    def read(self: lever.Idle, group: str) -> int:
        value = real(self, group)
        if self.file_is_there(group):
            idle.file(path).unlink()
            idle.host.remove(path)
        return value

    monkeypatch.setattr(lever.Idle, "read", read)
    monkeypatch.setattr(lever.Idle, "file_is_there", lambda self, group: idle.file(group).exists(), raising=False)
    (outcome,) = idle.guard.make_idle([path])
    assert (outcome.result, outcome.message) == (Result.FOREIGN, "somebody else has set 555: left alone")


@pytest.mark.parametrize("host", ["files on a fake of v2"], indirect=True)
def test_a_held_group_that_cannot_be_looked_at_stays_held(idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    path = idle.make("a", 3000)
    idle.guard.make_idle([path])

    def refuse(self: lever.Idle, path: str) -> GroupId:
        raise CgroupError("no")

    with monkeypatch.context() as patch:
        patch.setattr(lever.Idle, "identity", refuse)
        assert [one.result for one in idle.guard.make_idle([])] == []
    assert idle.guard.groups == (path,)


@pytest.mark.parametrize("host", ["files on a fake of v2"], indirect=True)
def test_an_ordinary_group_that_somebody_else_ends_is_left_alone_for_good(idle: Idle) -> None:
    path = idle.make("a", 100)  # so that it has its original again by the kernel's doing
    idle.guard.make_idle([path])
    idle.file(path).write_text("0")
    assert [one.result for one in idle.guard.make_idle([path])] == [Result.FOREIGN]
    idle.guard._writer._clock = lambda: 1e9
    assert idle.guard.make_idle([path]) == []
    assert idle.state(path) == (0, 100)


def test_a_default_weight_that_somebody_sets_before_a_group_is_idle_stays(
    idle: Idle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for the kernel's, which sets it when a group leaves idle."""
    path, store = idle.make("a", 3000), Journal.store
    default = lever.DEFAULT_WEIGHT[idle.host.hierarchy.version]

    def slowly(self: Journal, entries: Iterable[Entry], *, durable: bool = True) -> None:
        store(self, entries, durable=durable)
        idle.host.set(path, default)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "store", slowly)
        (outcome,) = idle.guard.make_idle([path])
    why = f"somebody else has set {default} meanwhile: looked at anew"
    assert (outcome.result, outcome.message) == (Result.FOREIGN, why)
    assert idle.state(path) == (0, default)
    assert [one.result for one in idle.guard.make_idle([path])] == [Result.OK]
    idle.guard.restore()
    assert idle.state(path) == (0, default)


def test_a_group_whose_idling_somebody_ends_at_once_has_its_weight(idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    path, write = idle.make("a", 3000), lever.Idle.write

    def ended_at_once(self: lever.Idle, group: str, value: int, identity: Identity) -> None:
        write(self, group, value, identity)
        if value == lever.IDLE:
            idle.file(path).write_text("0")
            if not idle.real:
                idle.host.set(path, lever.DEFAULT_WEIGHT[idle.host.hierarchy.version])  # as the kernel does

    monkeypatch.setattr(lever.Idle, "write", ended_at_once)
    (outcome,) = idle.guard.make_idle([path])
    assert (outcome.result, outcome.message.startswith("somebody else has ended it: ")) == (Result.FOREIGN, True)
    assert idle.state(path) == (0, 3000)
    assert idle.guard.make_idle([path]) == []
