"""The thread that keeps records in step: a refused record stops no other, and nobody else's value is overwritten."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from waiting import until

from qioi.controller.guard.journal import Entry
from qioi.controller.levers.lever import GroupId
from qioi.discovery.engine import EngineError
from qioi.discovery.owners import EngineOwners
from qioi.discovery.records import RefusedError
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Owner

ORIGINAL = 1024


class ToyKeeper:
    """Records in memory; whoever keeps them writes the group too, as an engine does."""

    def __init__(self, mount: Path) -> None:
        self.mount = mount
        self.records: dict[Owner | None, int] = {}
        self.refused: set[Owner | None] = set()
        self.away = False
        self.asked: list[Owner | None] = []

    def update(self, entry: Entry, wanted: int, only_from: frozenset[int] | None) -> set[int]:
        self.asked.append(entry.owner)
        if self.away:
            raise EngineError("away")
        if entry.owner in self.refused:
            raise RefusedError("refused")
        if only_from is not None and self.records.get(entry.owner) not in only_from:
            return set()
        self.records[entry.owner] = wanted
        (self.mount / entry.path / "cpu.shares").write_text(str(wanted))
        return set() if only_from is not None else {wanted}

    def close(self) -> None:
        pass


class Site:
    def __init__(self, folder: Path, owners: EngineOwners) -> None:
        self.mount = folder
        self.owners = owners
        self.keeper = ToyKeeper(folder)
        owners._keepers = {"docker": self.keeper}

    def raised(self, name: str, *ours: int) -> Entry:
        """A group that the guard has just written the last of these values to."""
        (self.mount / name).mkdir(exist_ok=True)
        self.set(name, ours[-1])
        return Entry(name, "cpu.shares", GroupId(0, 0), ORIGINAL, ours, Owner("docker", name, "/sock"))

    def set(self, name: str, value: int) -> None:
        (self.mount / name / "cpu.shares").write_text(str(value))

    def get(self, name: str) -> int:
        return int((self.mount / name / "cpu.shares").read_text())


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with closing(EngineOwners(Hierarchy(1, tmp_path), tmp_path / "disk", pause=0.0)) as owners:
        yield Site(tmp_path, owners)


def test_a_record_that_is_refused_holds_up_no_other(site: Site) -> None:
    a, b, c = (site.raised(name, ORIGINAL, 4096) for name in "abc")
    site.keeper.refused = {b.owner}
    for entry in (a, b, c):
        site.owners.tell(entry)
    until(lambda: site.keeper.records == {a.owner: 4096, c.owner: 4096})
    assert "refused" in (site.owners.problem() or "")
    site.keeper.refused = set()
    until(lambda: site.owners.problem() is None)
    assert site.keeper.records[b.owner] == 4096


def test_an_engine_that_is_away_is_asked_about_one_record_and_told_of_all_when_it_is_back(site: Site) -> None:
    entries = [site.raised(name, ORIGINAL, 4096) for name in "abc"]
    site.keeper.away = True
    for entry in entries:
        site.owners.tell(entry)
    until(lambda: (site.owners.problem() or "").startswith("3 shares"))
    site.keeper.away = False
    until(lambda: len(site.keeper.records) == 3)


def no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")  # as Python has it where clone(2) gives EAGAIN


def test_a_host_without_a_thread_to_spare_ends_no_daemon_and_records_follow(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [site.raised(name, ORIGINAL, 4096) for name in "ab"]
    with monkeypatch.context() as crowded:
        crowded.setattr(threading.Thread, "start", no_thread)
        for entry in entries:
            site.owners.tell(entry)
        assert (site.owners.problem() or "").startswith("2 shares")
        why = "no thread to tell it: can't start new thread"
        assert site.owners.settle() == {entry.owner: why for entry in entries}
    until(lambda: site.owners.problem() is None)
    assert set(site.keeper.records.values()) == {4096}


def test_what_somebody_else_has_set_before_it_was_told_stays_in_force(site: Site) -> None:
    entry = site.raised("a", ORIGINAL, 4096)
    site.keeper.away = True
    site.owners.tell(entry)
    until(lambda: site.owners.problem() is not None)
    site.set("a", 777)
    site.keeper.away = False
    until(lambda: site.owners.problem() is None)
    assert (site.get("a"), site.keeper.records) == (777, {})
    assert site.owners.kept(entry.owner)  # it may be there all the same: one that timed out


def test_nothing_more_is_told_of_what_is_left_alone(site: Site) -> None:
    entry = site.raised("a", ORIGINAL, 4096)
    site.keeper.refused = {entry.owner}
    site.owners.tell(entry)
    until(lambda: site.owners.problem() is not None)
    site.owners.leave(entry.owner)
    until(lambda: site.owners.problem() is None)
    asked = len(site.keeper.asked)
    other = site.raised("b", ORIGINAL, 4096)
    site.keeper.refused = set()
    site.owners.tell(other)
    until(lambda: other.owner in site.keeper.records)
    assert site.keeper.asked[asked:].count(entry.owner) <= 1  # it may have been on its way
    assert site.owners.settle() == {}
    site.owners.leave(Owner("docker", "nobody", "/sock"))


def test_nothing_stays_of_a_record_that_says_its_original_again(site: Site) -> None:
    entry = site.raised("a", ORIGINAL, 4096)
    site.owners.tell(entry)
    assert site.owners.settle() == {}
    site.owners.tell(site.raised("a", 4096, ORIGINAL))
    assert site.owners.settle() == {}
    assert (site.owners.kept(entry.owner), site.owners._records) == ((), {})


def test_a_record_that_is_put_back_leaves_somebody_elses_value_in_force(site: Site) -> None:
    entry = site.raised("a", ORIGINAL, 4096)
    site.owners.tell(entry)
    assert site.owners.settle() == {}
    site.set("a", 777)
    site.owners.release(entry)
    assert site.owners.settle() == {}
    assert (site.get("a"), site.keeper.records[entry.owner]) == (777, ORIGINAL)


def test_a_record_of_a_group_that_is_gone_is_put_back_too(site: Site) -> None:
    entry = site.raised("a", ORIGINAL, 4096)
    site.owners.tell(entry)
    assert site.owners.settle() == {}
    (site.mount / "a" / "cpu.shares").unlink()
    site.owners.release(entry)
    assert site.owners.settle() == {}
    assert site.keeper.records[entry.owner] == ORIGINAL
