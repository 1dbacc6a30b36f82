"""The guard: compare-and-set, and every value back where it was, on real control groups."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from real_host import Host, real_mount

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Entry, Journal
from qioi.controller.guard.owners import Nobody
from qioi.controller.guard.restore import Result, restore_entries
from qioi.controller.guard.writer import LONGEST, PAUSE
from qioi.controller.levers.files import Files
from qioi.controller.levers.shares import Shares
from qioi.kernel.errors import CgroupError, CgroupGoneError
from qioi.kernel.hierarchy import Hierarchy


def results(outcomes: list[object]) -> list[Result]:
    return [outcome.result for outcome in outcomes]  # type: ignore[attr-defined]


def raised(host: Host, journal: Journal, shares: int = 4096) -> tuple[Guard, str]:
    """A guard that holds one group and has raised it."""
    path = host.make("a")
    guard = host.guard(journal)
    guard.hold(path)
    assert results(guard.apply({path: shares})) == [Result.OK]
    return guard, path


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

        def write(self, written: str, value: int) -> None:
            (entry,) = journal.load().entries
            assert (entry.path, entry.original) == (written, original)
            assert value in entry.ours
            assert host.get(path) in (*entry.ours, original)
            host.access.write(written, value)

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


def test_full_disk_under_the_journal_means_no_write(
    host: Host, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, path = raised(host, journal)
    other = host.make("b")
    guard.hold(other)
    before = host.get(path), host.get(other)

    def full(entries: object, *, durable: bool) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal, "store", full)
    outcomes = guard.apply({path: 2048, other: 2048})
    assert results(outcomes) == [Result.FAILED, Result.FAILED]
    assert "No space left on device: nothing is written without it" in outcomes[0].message
    assert (host.get(path), host.get(other)) == before
    monkeypatch.undo()
    assert results(guard.apply({path: 2048, other: 2048})) == [Result.OK, Result.OK]


def test_a_journal_that_cannot_be_written_stops_no_way_back_to_the_original(
    host: Host, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on the disk names the value in force and the original: that is enough for whoever restores."""
    guard, path = raised(host, journal)
    other = host.make("b")
    guard.hold(other)
    stored, original = journal.load(), guard.raw(path, guard.found(path))

    def full(entries: object, *, durable: bool) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal, "store", full)
    outcomes = {one.path: one.result for one in guard.apply({path: guard.found(path), other: 2048})}
    assert outcomes == {path: Result.OK, other: Result.FAILED}
    assert (host.get(path), journal.load()) == (original, stored)
    assert guard.changed() == ()
    monkeypatch.undo()
    assert results(guard.apply({path: 4096, other: 2048})) == [Result.OK, Result.OK]
    guard.restore()
    assert host.get(path) == original


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


class Broken(Files):
    """Files of which one cannot be written, or takes another value than the one written."""

    def __init__(self, host: Host, path: str, takes: int | None = None) -> None:
        super().__init__(host.hierarchy)
        self.path, self.takes = path, takes

    def write(self, path: str, value: int) -> None:
        if path != self.path:
            super().write(path, value)
        elif self.takes is None:
            raise CgroupError(f"{path}: Input/output error")
        else:
            super().write(path, self.takes)


def test_one_that_fails_does_not_stop_the_others_and_stays_in_the_journal(host: Host, journal: Journal) -> None:
    good, bad = host.make("a"), host.make("b")
    guard = host.guard(journal)
    original = host.get(good)
    for path in (bad, good):
        guard.hold(path)
    guard.apply({bad: 4096, good: 4096})
    guard._lever.access = Broken(host, bad)
    assert results(guard.apply({bad: 2048, good: 2048})) == [Result.FAILED, Result.OK]
    assert sorted(results(guard.restore())) == [Result.FAILED, Result.OK]
    assert host.get(good) == original
    assert [entry.path for entry in journal.load().entries] == [bad]
    guard._lever.access = host.access
    assert results(guard.restore()) == [Result.OK]
    assert host.get(bad) == original


def test_a_failed_write_is_tried_again(host: Host, journal: Journal) -> None:
    path = host.make("a")
    guard = host.guard(journal)
    guard.hold(path)
    guard._lever.access = Broken(host, path)
    assert results(guard.apply({path: 4096})) == [Result.FAILED]
    guard._lever.access = host.access
    assert results(guard.apply({path: 4096})) == [Result.OK]
    assert guard.shares(path) == 4096


def test_a_value_that_reads_back_otherwise_is_left_alone(host: Host, journal: Journal) -> None:
    path = host.make("a")
    guard = host.guard(journal)
    guard.hold(path)
    guard._lever.access = Broken(host, path, takes=900)
    (outcome,) = guard.apply({path: 4096})
    assert outcome.result is Result.FOREIGN
    assert "reads 900: left alone" in outcome.message


def test_a_restore_that_reads_back_otherwise_is_a_failure(host: Host, journal: Journal) -> None:
    guard, path = raised(host, journal)
    guard._lever.access = Broken(host, path, takes=900)
    (outcome,) = guard.restore()
    assert outcome.result is Result.FAILED
    assert "reads 900" in outcome.message
    assert journal.load().entries


def test_a_folder_that_cannot_be_looked_at_is_an_error(host: Host, journal: Journal) -> None:
    with pytest.raises(CgroupError, match="File name too long"):
        host.guard(journal).hold("x/" * 3000)


def test_an_entry_of_another_cgroup_version_is_none_of_ours(host: Host, journal: Journal) -> None:
    _, path = raised(host, journal)
    (entry,) = journal.load().entries
    other = Entry(path, "cpu.other", entry.identity, entry.original, entry.ours)
    outcomes, left = restore_entries(Shares(host.hierarchy, host.access), [other], Nobody())
    assert results(outcomes) == [Result.GONE]
    assert left == []


def test_a_crash_between_journal_and_write_is_restored_either_way(host: Host, journal: Journal) -> None:
    """The journal knows the value before and the value after: whichever is in force is ours."""
    _, path = raised(host, journal)
    (entry,) = journal.load().entries
    for current in entry.ours:
        host.set(path, current)
        outcomes, left = restore_entries(Shares(host.hierarchy, host.access), [entry], Nobody())
        assert (results(outcomes), left) == ([Result.SKIPPED if current == entry.original else Result.OK], [])
        assert host.get(path) == entry.original
    outcomes, _ = restore_entries(Shares(host.hierarchy, host.access), [entry], Nobody())
    assert results(outcomes) == [Result.SKIPPED]


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


def test_journal_folder_gone_is_a_failure_not_a_crash(host: Host, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    journal = Journal(tmp_path / "s")
    path = host.make("a")
    guard = host.guard(journal)
    guard.hold(path)
    (tmp_path / "s").rmdir()
    before = host.get(path)
    assert results(guard.apply({path: 4096})) == [Result.FAILED]
    assert host.get(path) == before


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


@pytest.mark.parametrize("before", [None, 2048])
def test_what_somebody_sets_while_the_journal_is_written_is_theirs(
    host: Host, journal: Journal, monkeypatch: pytest.MonkeyPatch, before: int | None
) -> None:
    """A disk may take seconds to answer."""
    path = host.make("a")
    guard = host.guard(journal)
    guard.hold(path)
    if before is not None:
        assert results(guard.apply({path: before})) == [Result.OK]
    store = journal.store

    def slow(*entries: object, **durable: bool) -> None:
        store(*entries, **durable)  # type: ignore[arg-type]
        host.set(path, 777)

    monkeypatch.setattr(journal, "store", slow)
    assert results(guard.apply({path: 4096})) == [Result.FOREIGN]
    assert host.get(path) == 777
    monkeypatch.undo()
    assert guard.is_foreign(path) is (before is not None)  # what is found before we set anything is the original
    guard.apply({path: 2 * guard.look(path)})
    assert host.get(path) == (2 * 777 if before is None else 777)
    guard.restore()
    assert host.get(path) == 777


class Clock:
    """A monotonic clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def released(host: Host, journal: Journal, clock: Clock) -> tuple[Guard, str]:
    """A guard of which somebody else has put one group's original back."""
    path = host.make("a")
    guard = Guard(host.hierarchy, host.access, journal, clock=clock)
    guard.hold(path)
    put_back(host, guard, path)
    return guard, path


def put_back(host: Host, guard: Guard, path: str) -> str:
    """Have a share raised, and its original written by somebody else; give what is said of it."""
    original = host.get(path)
    assert results(guard.apply({path: 4096})) == [Result.OK]
    host.set(path, original)
    (outcome,) = guard.apply({path: 8192})
    assert (outcome.result, host.get(path)) == (Result.FOREIGN, original)
    return outcome.message


def test_who_writes_the_original_back_has_released_it_and_it_is_raised_again_after_a_pause(
    host: Host, journal: Journal, clock: Clock
) -> None:
    """Configuration management does, every half hour: the component must not stay unprotected for that."""
    guard, path = released(host, journal, clock)
    assert (guard.is_foreign(path), guard.pause(path)) == (True, PAUSE)
    clock.now += PAUSE - 1
    assert results(guard.apply({path: 8192})) == [Result.FOREIGN]
    assert guard.changed() == ()
    clock.now += 1
    assert (guard.is_foreign(path), guard.pause(path)) == (False, None)
    assert results(guard.apply({path: 8192})) == [Result.OK]
    guard.restore()
    assert guard.look(path) == guard.found(path)


def test_the_pause_doubles_while_it_is_put_back_again_soon_and_begins_anew_after_a_calm(
    host: Host, journal: Journal, clock: Clock
) -> None:
    guard, path = released(host, journal, clock)
    pauses = []
    for _ in range(8):
        pauses.append(guard.pause(path))
        clock.now += pauses[-1] or 0
        assert not guard.is_foreign(path)
        assert f"left alone for {min(LONGEST, 2 * (pauses[-1] or 0)):g} s" in put_back(host, guard, path)
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    clock.now += 10 * LONGEST
    assert not guard.is_foreign(path)
    assert "left alone for 60 s" in put_back(host, guard, path)


def test_what_is_set_during_the_pause_is_what_was_found(host: Host, journal: Journal, clock: Clock) -> None:
    guard, path = released(host, journal, clock)
    host.set(path, 777)
    clock.now += PAUSE
    assert not guard.is_foreign(path)
    guard.apply({path: 2 * guard.look(path)})
    assert host.get(path) == 2 * 777
    guard.restore()
    assert host.get(path) == 777


def test_another_value_is_left_alone_for_good_until_the_original_is_back(
    host: Host, journal: Journal, clock: Clock
) -> None:
    guard, path = raised(host, journal)
    guard._clock = clock
    original = guard.raw(path, guard.found(path))
    host.set(path, 777)
    assert results(guard.apply({path: 2048})) == [Result.FOREIGN]
    clock.now += 100 * LONGEST
    guard.look(path)
    assert (guard.is_foreign(path), guard.pause(path)) == (True, None)
    host.set(path, original)
    guard.look(path)
    assert (guard.is_foreign(path), guard.pause(path)) == (True, PAUSE)
    clock.now += PAUSE
    assert results(guard.apply({path: 2048})) == [Result.OK]


def test_what_somebody_else_has_set_is_taken_up_again_as_it_is(host: Host, journal: Journal) -> None:
    guard, path = raised(host, journal)
    host.set(path, 777)
    guard.apply({path: 2048})
    guard.take_up(path)
    assert not guard.is_foreign(path)
    assert results(guard.apply({path: 2 * guard.look(path)})) == [Result.OK]
    guard.restore()
    assert host.get(path) == 777
