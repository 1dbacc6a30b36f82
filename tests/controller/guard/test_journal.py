"""The journal: durable, whole, and honest about what it cannot read."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from refusing import read_only

import qioi.controller.guard.journal as module
from qioi.controller.guard.journal import Entry, Journal, Loaded, encode, seal
from qioi.controller.levers.lever import GroupId, PodId, ThreadId
from qioi.model import OnRecord, Owner, OwnerKind

ENTRIES = [
    Entry("a/b", "cpu.shares", GroupId(29, 4711), 1024, (5120,)),
    Entry("c", "cpu.shares", GroupId(29, 4712), 512, (600, 700)),
]

identity = (
    st.builds(GroupId, st.integers(0), st.integers(0))
    | st.builds(ThreadId, st.integers(1), st.integers(0))
    | st.builds(PodId, st.uuids().map(str), st.sampled_from(["100m", "2", "1.5"]))
)
on_record = st.builds(OnRecord, st.sampled_from(["CPUWeight", "CPUShares"]), st.none() | st.integers(0), st.booleans())
owner = (
    st.builds(Owner, st.just(OwnerKind.DOCKER), st.just("ab12"), st.sampled_from(["/run/docker.sock", "/a b"]))
    | st.builds(Owner, st.just(OwnerKind.SYSTEMD), st.just("peer@0.service"), st.just(""),
                st.lists(on_record, max_size=2).map(tuple))
    | st.builds(Owner, st.just(OwnerKind.NRI), st.just("ab12"), st.just("/run/nri.sock"),
                st.tuples(st.builds(OnRecord, st.just("linear"), st.none() | st.integers(0))))
)  # fmt: skip

path = st.text(min_size=1).filter(lambda text: not text.startswith("/") and ".." not in text.split("/"))
entry = st.builds(
    Entry, path, st.just("cpu.shares"), identity, st.integers(1, 262144),
    st.lists(st.integers(1, 262144), max_size=2).map(tuple), st.none() | owner,
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(entry, max_size=5))
@example([Entry("pod", "request", PodId("5a5a", "100m"), 1024, (2048,))])  # no line is to be reached by chance
def test_what_is_stored_is_loaded(journal: Journal, entries: list[Entry]) -> None:
    journal.store(entries)
    assert journal.load() == Loaded(tuple(entries))


def test_nothing_to_keep_is_no_file(journal: Journal) -> None:
    journal.store(ENTRIES)
    assert journal.file.exists()
    journal.store([])
    journal.store([])
    assert not journal.file.exists()
    assert journal.load() == Loaded()


def test_fsynced_before_store_returns_and_before_it_has_its_name(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, journal.file.exists()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    journal.store(ENTRIES)
    assert synced == [("journal.new", False), ("state", True)]


def test_a_full_disk_leaves_the_old_journal(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.store(ENTRIES[:1])

    def full(descriptor: int, data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        journal.store(ENTRIES)
    monkeypatch.undo()
    assert journal.load().entries == tuple(ENTRIES[:1])
    assert [file.name for file in journal.file.parent.iterdir()] == ["journal"]


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("entries", [ENTRIES, []], ids=["replaced", "emptied"])
def test_the_host_may_stop_after_any_step(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, entries: list[Entry], durable: bool
) -> None:
    """The folder as it is after each call that changes it: the old journal or the new one, and both can be replaced."""
    journal.store(ENTRIES[:1])
    copies: list[Path] = []

    def stepwise(patch: pytest.MonkeyPatch, call: str) -> None:
        real = getattr(os, call)

        def step(*arguments: object, **more: object) -> object:
            if call == "write":
                arguments = arguments[0], bytes(arguments[1])[:20]  # type: ignore[call-overload]
            done = real(*arguments, **more)
            copies.append(tmp_path / f"copy{len(copies)}")
            copies[-1].mkdir()
            for file in journal.file.parent.iterdir():
                (copies[-1] / file.name).write_bytes(file.read_bytes())
            return done

        patch.setattr(os, call, step)

    with monkeypatch.context() as patch:
        for call in ("write", "fsync", "replace", "unlink"):
            stepwise(patch, call)
        journal.store(entries, durable=durable)
    found = [Journal(copy).load() for copy in copies]
    assert len(found) > (10 if entries else 0)
    assert set(found) <= {Loaded(tuple(ENTRIES[:1])), Loaded(tuple(entries))}
    assert found[-1] == Loaded(tuple(entries))
    for copy in copies:
        Journal(copy).store(ENTRIES)
        assert Journal(copy).load() == Loaded(tuple(ENTRIES))


@pytest.mark.parametrize("path", ["/etc", "a/../../b", ".."])
def test_a_path_that_leads_out_of_the_mount_is_refused(journal: Journal, path: str) -> None:
    """A journal in a folder of somebody else's would have root write a number to any file."""
    journal.store([replace(ENTRIES[0], path=path), ENTRIES[1]])
    loaded = journal.load()
    assert loaded.entries == (ENTRIES[1],)
    assert loaded.problems[0] == f"line 2: {path!r} leads out of the folder of all control groups"


@pytest.mark.parametrize("cut", range(1, 140, 7))
def test_a_half_written_journal_gives_what_can_be_read(journal: Journal, cut: int) -> None:
    journal.store(ENTRIES)
    whole = journal.file.read_bytes()
    journal.file.write_bytes(whole[:-cut])
    loaded = journal.load()
    assert set(loaded.entries) <= set(ENTRIES)
    assert len(loaded.entries) == 1 or cut >= len(encode(ENTRIES[1]))
    assert "half-written or damaged" in loaded.problems[0] or cut == len(encode(ENTRIES[1]))
    assert loaded.problems[-1] == f"{2 - len(loaded.entries)} of 2 entries are missing"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.data())
def test_damage_never_invents_an_entry(journal: Journal, data: st.DataObject) -> None:
    journal.store(ENTRIES)
    content = bytearray(journal.file.read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    journal.file.write_bytes(content)
    assert set(journal.load().entries) <= set(ENTRIES)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_any_bytes_at_all(journal: Journal, content: bytes) -> None:
    journal.file.write_bytes(content)
    loaded = journal.load()
    assert loaded.entries == ()
    assert loaded.problems


@pytest.mark.parametrize(
    "document",
    [
        {"path": "a"},
        {"path": 1, "file": "f", "device": 1, "inode": 1, "original": 1, "ours": []},
        {"path": "a", "file": "f", "device": True, "inode": 1, "original": 1, "ours": []},
        {"path": "a", "file": "f", "device": 1, "inode": 1, "original": "1", "ours": []},
        {"path": "a", "file": "f", "device": 1, "inode": 1, "original": 1, "ours": [1.5]},
        ["a"],
        "a",
    ],
)
def test_a_sound_line_with_other_content_is_a_problem(journal: Journal, document: object) -> None:
    header = journal.file.parent / "x"
    journal.store(ENTRIES[:1])
    header = journal.file.read_bytes().splitlines(keepends=True)[0]
    journal.file.write_bytes(header + seal(document).encode())  # type: ignore[arg-type]
    loaded = journal.load()
    assert loaded.entries == ()
    assert loaded.problems[0].startswith("line 2: ")


def test_a_journal_of_an_earlier_boot_has_nothing_to_restore(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"boot{number}").write_text(f"boot-{number}\n")
    Journal(tmp_path, tmp_path / "boot1").store(ENTRIES)
    assert Journal(tmp_path, tmp_path / "boot2").load() == Loaded(other_boot=True)
    assert Journal(tmp_path, tmp_path / "boot1").load().entries == tuple(ENTRIES)


def test_a_journal_of_another_version_is_not_guessed_at(journal: Journal) -> None:
    journal.file.write_text(seal({"journal": 99, "boot": "x"}) + encode(ENTRIES[0]))
    assert journal.load() == Loaded((), (f"line 1: version 99, accepted is {module.VERSION}",))


def test_without_its_first_line_the_others_still_count(journal: Journal) -> None:
    """Identity and value are checked before anything is restored, so a lost header is no reason to leave it."""
    journal.file.write_text(encode(ENTRIES[0]))
    assert journal.load() == Loaded((ENTRIES[0],))


def test_an_empty_file_is_a_problem(journal: Journal) -> None:
    journal.file.write_bytes(b"")
    assert journal.load().problems == ("the file is empty",)


def test_there_is_nothing_to_remove_on_a_read_only_disk(journal: Journal) -> None:
    with read_only(journal.file.parent):
        journal.store([])


def test_a_link_in_its_place_is_not_followed(journal: Journal, tmp_path: Path) -> None:
    """Whoever owns the state folder could have root empty any file."""
    (target := tmp_path / "target").write_text("whole\n")
    journal.store(ENTRIES)
    (temporary := journal.file.with_name("journal.new")).symlink_to(target)
    journal.store(ENTRIES[:1])
    assert target.read_text() == "whole\n"
    assert not temporary.is_symlink()
    assert journal.load() == Loaded((ENTRIES[0],))


def test_set_aside_keeps_the_damaged_file(journal: Journal) -> None:
    journal.file.write_bytes(b"junk")
    aside = journal.set_aside()
    journal.store([])
    assert aside.read_bytes() == b"junk"


def test_cut_off_at_any_byte_it_says_that_something_is_missing(journal: Journal) -> None:
    journal.store(ENTRIES)
    whole = journal.file.read_bytes()
    for end in range(len(whole)):
        journal.file.write_bytes(whole[:end])
        loaded = journal.load()
        assert loaded.entries == tuple(ENTRIES[: len(loaded.entries)])
        assert loaded.problems


def test_a_journal_from_before_entries_were_counted_is_read(journal: Journal) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    journal.file.write_text(seal({"journal": 1, "boot": boot}) + encode(ENTRIES[0]))
    assert journal.load() == Loaded((ENTRIES[0],))


@pytest.mark.parametrize("header", [{"journal": 1}, {"journal": 1, "boot": 7, "entries": "two"}])
def test_a_first_line_of_another_shape_is_a_problem(journal: Journal, header: dict[str, object]) -> None:
    journal.file.write_text(seal(header) + encode(ENTRIES[0]))
    assert journal.load().problems


@pytest.mark.parametrize(
    "known",
    [{}, {"group": 7}, {"group": [1]}, {"thread": [1, True]}, {"thread": "12"}, {"pod": ["a", 1]}, {"pod": {}}],
    ids=str,
)
def test_an_identity_of_another_shape_is_a_problem(journal: Journal, known: dict[str, object]) -> None:
    journal.store(ENTRIES[:1])
    header = journal.file.read_bytes().splitlines(keepends=True)[0]
    document = {"path": "a", "file": "cpu.shares", **known, "original": 1, "ours": []}
    journal.file.write_bytes(header + seal(document).encode())
    loaded = journal.load()
    assert loaded.entries == ()
    assert loaded.problems[0].startswith("line 2: ")


@pytest.mark.parametrize(
    "text",
    ["docker", "docker ab12", "systemd peer.service CPUWeight=much", "nri ab12 linear:x /sock", "crio 12ab /sock"],
)
def test_what_is_no_owner_known_here_keeps_its_text(journal: Journal, text: str) -> None:
    """The group is put back all the same; that its record can't be reached is said where it is tried."""
    entry = replace(ENTRIES[0], owner=Owner.read(text))
    assert str(entry.owner) == text
    journal.store([entry])
    assert journal.load().entries == (entry,)


def test_what_is_in_no_version_that_was_ever_written_is_a_group(journal: Journal) -> None:
    document = {"path": "a", "file": "requests.cpu", "device": 1, "inode": 2, "original": 1, "ours": []}
    journal.file.write_text(seal(document))
    assert journal.load().entries == (Entry("a", "requests.cpu", GroupId(1, 2), 1, ()),)
