"""The guard: compare-and-set, and every value back where it was, on real control groups."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from held_group import raised, results
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from real_host import Host, real_mount

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.owners import Nobody
from qioi.controller.guard.restore import Result, restore_entries
from qioi.controller.levers.files import Files
from qioi.controller.levers.lever import Identity
from qioi.controller.levers.shares import Shares
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.kernel.hierarchy import Hierarchy


def test_holding_writes_nothing(host: Host, journal: Journal) -> None:
    path = host.make("a", 300)
    host.guard(journal).hold(path)
    assert host.get(path) == 300
    assert not journal.file.exists()


def test_a_change_is_made_read_back_and_undone(host: Host, journal: Journal) -> None:
    path = host.make("a")
    guard = host.guard(journal)
    found = guard.hold(path)
    original = host.get(path)
    (outcome,) = guard.apply({path: 4 * found})
    assert outcome.result is Result.OK
    assert host.get(path) == 4 * original
    assert outcome.shares == guard.shares(path) == 4 * found
    assert results(guard.restore()) == [Result.OK]
    assert host.get(path) == original
    assert not journal.file.exists()


def test_journalled_before_the_write(host: Host, journal: Journal) -> None:
    path = host.make("a")
    original = host.get(path)

    class Watching:
        name = "watching"
        read = staticmethod(host.access.read)

        def write(self, written: str, value: int, identity: Identity) -> None:
            (entry,) = journal.load().entries
            assert (entry.path, entry.original) == (written, original)
            assert value in entry.ours
            assert host.get(path) in (*entry.ours, original)
            host.access.write(written, value, identity)

    guard = Guard(host.hierarchy, Watching(), journal)
    guard.hold(path)
    for shares in (2048, 4096, 1536):
        assert results(guard.apply({path: shares})) == [Result.OK]


def test_the_disk_is_waited_for_only_while_originals_are_new(
    host: Host, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [host.make("a"), host.make("b")]
    guard = host.guard(journal)
    for path in paths:
        guard.hold(path)
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    guard.record()
    assert len(synced) == 2  # the file and its folder
    assert {entry.path for entry in journal.load().entries} == set(paths)
    for shares in (2048, 4096):
        assert results(guard.apply(dict.fromkeys(paths, shares))) == [Result.OK, Result.OK]
    assert len(synced) == 2
    guard.hold(host.make("c"))
    guard.apply({paths[0]: 1536})
    assert len(synced) == 4


def test_recorded_but_never_changed_is_nothing_to_restore(host: Host, journal: Journal) -> None:
    path = host.make("a")
    guard = host.guard(journal)
    guard.hold(path)
    guard.record()
    host.set(path, 333)
    assert restore_entries(Shares(host.hierarchy, host.access), journal.load().entries, Nobody()) == ([], [])
    assert guard.restore() == []
    assert host.get(path) == 333
    assert not journal.file.exists()


def test_unchanged_values_are_not_written(host: Host, journal: Journal) -> None:
    guard, path = raised(host, journal)
    stamp = journal.file.stat().st_mtime_ns
    assert results(guard.apply({path: 4096})) == [Result.SKIPPED]
    assert journal.file.stat().st_mtime_ns == stamp


def test_a_foreign_value_is_left_alone_from_then_on(host: Host, journal: Journal) -> None:
    guard, path = raised(host, journal)
    host.set(path, 777)
    (outcome,) = guard.apply({path: 2048})
    assert outcome.result is Result.FOREIGN
    assert "somebody else has set 777" in outcome.message
    assert guard.is_foreign(path)
    assert results(guard.apply({path: 8192})) == [Result.FOREIGN]
    assert guard.restore() == []
    assert host.get(path) == 777


def test_a_foreign_value_is_left_alone_by_restore(host: Host, journal: Journal) -> None:
    guard, path = raised(host, journal)
    host.set(path, 777)
    assert results(guard.restore()) == [Result.FOREIGN]
    assert host.get(path) == 777


def test_a_change_before_the_first_write_is_the_new_original(host: Host, journal: Journal) -> None:
    path = host.make("a")
    guard = host.guard(journal)
    guard.hold(path)
    host.set(path, 200)
    assert results(guard.apply({path: 4096})) == [Result.OK]
    guard.restore()
    assert host.get(path) == 200


def test_back_at_the_original_nothing_is_ours(host: Host, journal: Journal) -> None:
    guard, path = raised(host, journal)
    guard.apply({path: guard.found(path)})
    host.set(path, 555)
    assert results(guard.apply({path: 4096})) == [Result.OK]
    guard.apply({path: guard.found(path)})
    assert host.get(path) == 555
    assert guard.restore() == []


def test_a_group_that_vanished_is_fine(host: Host, journal: Journal) -> None:
    guard, path = raised(host, journal)
    host.remove(path)
    assert results(guard.apply({path: 2048})) == [Result.GONE]
    with pytest.raises(CgroupGoneError):
        guard.shares(path)
    assert results(guard.restore()) == [Result.GONE]
    assert not journal.file.exists()


def test_another_group_with_the_same_path_is_not_touched(host: Host, journal: Journal) -> None:
    guard, path = raised(host, journal)
    keep = host.make("keep")  # so that the fake's inode is not given out again at once
    if host.hierarchy.mount == real_mount():
        host.remove(path)
    else:
        host.hierarchy.folder(path).rename(host.hierarchy.folder(path + "-old"))
    host.make("a", 4096)  # by chance with our own value
    (outcome,) = guard.apply({path: 2048})
    assert outcome.result is Result.GONE
    assert "another group has that path now" in outcome.message
    assert results(guard.restore()) == [Result.GONE]
    assert host.get(path) == 4096
    assert host.get(keep) in (100, 1024)


def test_a_group_made_anew_is_held_anew(host: Host, journal: Journal) -> None:
    guard, path = raised(host, journal)
    guard.drop(path)
    host.remove(path)
    host.make("a", 500)
    guard.hold(path)
    assert results(guard.apply({path: 4096})) == [Result.OK]
    guard.restore()
    assert host.get(path) == 500


def test_a_held_group_is_not_read_again(host: Host, journal: Journal) -> None:
    guard, path = raised(host, journal)
    found = guard.found(path)
    assert guard.hold(path) == found


def test_an_entry_of_another_cgroup_version_is_none_of_ours(host: Host, journal: Journal) -> None:
    _, path = raised(host, journal)
    (entry,) = journal.load().entries
    other = Entry(path, "cpu.other", entry.identity, entry.original, entry.ours)
    outcomes, left = restore_entries(Shares(host.hierarchy, host.access), [other], Nobody())
    assert results(outcomes) == [Result.GONE]
    assert left == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(
    st.integers(2, 5000),
    st.integers(2, 5000),
    st.lists(st.dictionaries(st.sampled_from(["a", "b"]), st.integers(2, 262144), min_size=1), max_size=6),
    st.integers(0, 6),
)
def test_restore_is_the_identity(
    real_group: tuple[object, str], tmp_path_factory: pytest.TempPathFactory, a: int, b: int,
    writes: list[dict[str, int]], crash_after: int,
) -> None:  # fmt: skip
    """Whatever is written, and wherever the daemon dies, the journal alone brings the originals back."""
    hierarchy, parent = real_group
    host = Host(hierarchy, Files(hierarchy), parent)  # type: ignore[arg-type]
    journal = Journal(tmp_path_factory.mktemp("journal"))
    paths = {name: f"{parent}/{name}" for name in ("a", "b")}
    for name, value in (("a", a), ("b", b)):
        if not host.hierarchy.folder(paths[name]).exists():
            host.make(name)
        host.set(paths[name], value)
    guard = host.guard(journal)
    for path in paths.values():
        guard.hold(path)
    for change in writes[:crash_after]:
        guard.apply({paths[name]: shares for name, shares in change.items()})
    if crash_after >= len(writes):
        guard.restore()
    else:  # the process is gone; the next one has the journal only
        _, left = restore_entries(Shares(host.hierarchy, host.access), journal.load().entries, Nobody())
        assert left == []
    assert (host.get(paths["a"]), host.get(paths["b"])) == (a, b)


def test_a_group_made_anew_while_the_journal_was_written_is_left_alone(
    host: Host, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may take seconds over the first entry, and a service may be restarted in them."""
    path = host.make("a")
    guard = host.guard(journal)
    guard.hold(path)
    store = journal.store

    def slowly(entries: object, *, durable: bool = True) -> None:
        store(entries, durable=durable)  # type: ignore[arg-type]
        folder = host.hierarchy.folder(path)
        before = folder.stat().st_ino
        host.remove(path)
        host.make("a", 300)
        while folder.stat().st_ino == before:  # that of control groups uses no number again, ordinary ones do
            folder.rename(folder.with_name(f"b{len(list(folder.parent.iterdir()))}"))
            host.make("a", 300)

    monkeypatch.setattr(journal, "store", slowly)
    (outcome,) = guard.apply({path: 4096})
    assert outcome.result is Result.GONE
    assert "another group has that path now" in outcome.message
    assert host.get(path) == 300


def test_an_idle_group_has_no_weight_to_raise(tmp_path: Path, journal: Journal) -> None:
    """Its cpu.weight reads 0 on Linux before 6.12 (sched_group_set_idle gives it 3 of 1024), and takes no other."""
    hierarchy = Hierarchy(2, tmp_path / "cgroup2")
    for name, weight in (("idle", 0), ("later", 100), ("ours", 100)):
        (hierarchy.mount / name).mkdir(parents=True)
        (hierarchy.mount / name / "cpu.weight").write_text(f"{weight}\n")
    guard = Guard(hierarchy, Files(hierarchy), journal)
    for name in ("later", "ours"):
        guard.hold(name)
    guard.apply({"ours": 4096})
    for name in ("later", "ours"):
        (hierarchy.mount / name / "cpu.weight").write_text("0\n")
    for act in (lambda: guard.hold("idle"), lambda: guard.shares("later")):
        with pytest.raises(CgroupError, match=r"cpu.weight is 0: the group is idle \(cpu.idle\)"):
            act()
    assert results(guard.apply({"later": 4096, "ours": 2048})) == [Result.FAILED, Result.FOREIGN]
    assert results(guard.restore()) == []
    for name in ("idle", "later", "ours"):
        assert (hierarchy.mount / name / "cpu.weight").read_text() == "0\n"


def test_a_group_that_the_kernel_has_idle_is_refused(host: Host, journal: Journal) -> None:
    """Whatever its weight reads then: 3 on v1, on v2 0 or, since Linux 6.12, 1. The very number alone is no reason."""
    path, small = host.make("a"), host.make("b", 3 if host.hierarchy.version == 1 else 1)
    if host.hierarchy.mount != real_mount():
        host.set(path, 1)
    (host.hierarchy.folder(path) / "cpu.idle").write_text("1")
    guard = host.guard(journal)
    with pytest.raises(CgroupError, match=r"is [013]: the group is idle \(cpu.idle\): nothing raises it"):
        guard.hold(path)
    assert guard.hold(small) == (3 if host.hierarchy.version == 1 else 1024)
    (host.hierarchy.folder(path) / "cpu.idle").write_text("0")
    if host.hierarchy.mount != real_mount():
        host.set(path, 100)
    assert guard.hold(path) == 1024
    assert results(guard.apply({path: 2048})) == [Result.OK]
    (host.hierarchy.folder(path) / "cpu.idle").write_text("1")  # by somebody else, while it is raised
    if host.hierarchy.mount != real_mount():
        host.set(path, 1)
    assert results(guard.apply({path: 4096})) == [Result.FOREIGN]
    assert guard.restore() == []
    assert (host.hierarchy.folder(path) / "cpu.idle").read_text().strip() == "1"


def test_a_group_is_left_only_with_nothing_of_ours_in_it(host: Host, journal: Journal) -> None:
    guard, path = raised(host, journal)
    foreign, untouched = host.make("b"), host.make("c")
    for one in (foreign, untouched):
        guard.hold(one)
    guard.apply({foreign: 4096})
    host.set(foreign, 777)
    assert results(guard.apply({foreign: 2048})) == [Result.FOREIGN]
    assert [guard.leave(one) for one in (path, foreign, untouched, "never/held")] == [False, False, True, True]
    assert (guard.holds(path), guard.is_foreign(foreign), guard.holds(untouched)) == (True, True, False)
    for one in (path, foreign):
        host.remove(one)
        assert guard.leave(one)
        assert not guard.holds(one)
    assert not guard.is_foreign(foreign)


def test_a_group_that_cannot_be_looked_at_is_not_left(
    host: Host, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel may be short of memory for a moment: nothing says that the group is gone."""
    guard, path = raised(host, journal)

    def refuse(_path: str) -> object:
        raise CgroupError(f"{path}: {os.strerror(errno.ENOMEM)}")

    with monkeypatch.context() as short:
        short.setattr(guard._shares, "identity", refuse)
        assert not guard.leave(path)
    assert guard.holds(path)
    assert results(guard.restore()) == [Result.OK]


def test_the_disk_is_waited_for_again_for_a_group_that_was_let_go_of(
    host: Host, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, path = raised(host, journal)
    other = host.make("b")
    guard.hold(other)
    guard.record()
    assert guard.leave(other)
    assert results(guard.apply({path: 2048})) == [Result.OK]  # the journal is without it now
    guard.hold(other)
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    assert results(guard.apply({other: 4096})) == [Result.OK]
    assert len(synced) == 2
