"""Journals of version 1, before identities had types: what an old daemon has left is put back by the new one.

tests/data/journals-1 was recorded on cgroup v1 by the code of that version, a file for each thing that was in force.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from real_host import Host, real_mount
from toy_scheduler import DEFAULT, ToyScheduler

from qioi.controller.best_effort import recover_idle
from qioi.controller.guard.journal import Entry, Journal, seal
from qioi.controller.guard.restore import Result, restore_entries
from qioi.controller.guard.thread_slices import restore_threads
from qioi.controller.levers.idle import IDLE, Idle
from qioi.controller.levers.lever import GroupId, PodId, ThreadId
from qioi.controller.levers.shares import Shares
from qioi.discovery.told import Told, ToldFiles
from qioi.kernel.hierarchy import Hierarchy
from qioi.kubernetes.resizes import Record, record_of
from qioi.model import OnRecord, Owner

RECORDED = Path(__file__).parents[2] / "data/journals-1"
DOCKER = Owner("docker", "ab12" * 16, "/run/docker.sock")
UNIT = Owner("systemd", "orderer.service", found=(OnRecord("CPUWeight", 200, True), OnRecord("CPUShares", None)))
NRI = Owner("nri", "cd34" * 16, "/run/qioi/nri.sock", (OnRecord("shares", 512),))


def loaded(name: str, boot: Path = RECORDED / "boot") -> tuple[Entry, ...]:
    loaded = Journal(RECORDED, boot, name=name).load()
    assert loaded.problems == ()
    return loaded.entries


def share(name: str, inode: int, original: int, ours: tuple[int, ...], owner: Owner | None = None) -> Entry:
    return Entry(f"qioi-recorded/{name}", "cpu.shares", GroupId(29, inode), original, ours, owner)


def test_every_kind_is_read_with_its_identity_and_its_owner() -> None:
    assert loaded("journal") == (
        share("peer0", 64823, 1024, (1024, 4096)),
        share("docker-peer1", 64837, 1024, (1024, 2048), DOCKER),
        share("orderer.service", 64851, 1024, (1024, 3000), UNIT),
        share("pod", 64865, 512, (512, 1000, 1024), NRI),
        share("untouched", 64879, 1024, ()),
    )
    assert loaded("idle") == (Entry("qioi-recorded/batch", "cpu.idle", GroupId(29, 64893), 3000, (IDLE,)),)
    assert loaded("slices") == (Entry("qioi-recorded/peer0", "sched_runtime", ThreadId(5366, 280806), 0, (400000,)),)
    (pod,) = loaded("requests")
    assert pod == Entry("fabric/peer0/main", "requests.cpu", PodId("0b1e-uid", "100m"), 100, (100, 1500))
    assert record_of(pod) == Record("fabric", "peer0", "0b1e-uid", "main", "100m", (100, 1500), noted=True)


def test_after_a_boot_what_owners_and_pods_have_is_still_to_be_put_back(tmp_path: Path) -> None:
    (tmp_path / "boot").write_text("another\n")
    assert [one.owner for one in loaded("journal", tmp_path / "boot")] == [DOCKER, UNIT, NRI]
    assert len(loaded("requests", tmp_path / "boot")) == 1
    assert (loaded("idle", tmp_path / "boot"), loaded("slices", tmp_path / "boot")) == ((), ())


def test_what_docker_was_told_is_read() -> None:
    told = ToldFiles(RECORDED)
    entry = Entry("qioi-recorded/docker-peer1", "cpu.shares", GroupId(5, 6), 1024, (2048,), DOCKER)
    assert told.of(DOCKER) == Told(entry, 0)
    assert told.load() == ([entry], [])


@pytest.mark.parametrize("owner", [DOCKER, UNIT, NRI], ids=str)
def test_an_owner_is_written_as_it_was_before(owner: Owner) -> None:
    (text,) = {one["owner"] for one in map(document, lines("journal")[1:]) if owner.name in one.get("owner", "")}
    assert (str(owner), Owner.read(text)) == (text, owner)


def lines(name: str) -> list[str]:
    return (RECORDED / name).read_text().splitlines()


def document(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line.partition(" ")[2])
    return found


def rewritten(state: Path, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Journal:
    """The recorded file as it would have been with things that are there now."""
    journal = Journal(state, name=name)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    header, first = document(lines(name)[0]), document(lines(name)[1])
    journal.file.write_text(seal({**header, "boot": boot, "entries": 1}) + seal({**first, **change(first)}))
    return journal


def at(hierarchy: Hierarchy, path: str) -> dict[str, Any]:
    found = hierarchy.folder(path).stat()
    return {"path": path, "device": found.st_dev, "inode": found.st_ino}


def test_an_old_daemons_share_is_put_back(host: Host, tmp_path: Path) -> None:
    path = host.make("a", 4096)
    journal = rewritten(tmp_path, "journal", lambda _: {**at(host.hierarchy, path), "file": host.hierarchy.file})
    (outcome,), left = restore_entries(Shares(host.hierarchy, host.access), journal.load().entries)
    assert (outcome.result, left, host.get(path)) == (Result.OK, [], 1024)


@pytest.mark.parametrize("died", ["while it is idle", "between the two writes that end it"])
def test_an_old_daemons_idle_group_is_put_back_with_its_weight(host: Host, tmp_path: Path, died: str) -> None:
    path = host.make("a")
    file = host.hierarchy.folder(path) / "cpu.idle"
    if host.hierarchy.mount == real_mount() and not file.exists():
        pytest.skip("this kernel has no cpu.idle (5.15)")
    file.write_text("1" if died == "while it is idle" else "0")
    rewritten(tmp_path, "idle", lambda _: at(host.hierarchy, path))
    outcomes, problems = recover_idle(tmp_path, host.hierarchy)
    assert ([one.result for one in outcomes], problems) == ([Result.OK], [])
    assert (int(file.read_text()), Idle(host.hierarchy, host.access).read(path), host.get(path)) == (0, 3000, 3000)


def test_an_old_daemons_slice_is_put_back(tmp_path: Path) -> None:
    scheduler = ToyScheduler()
    scheduler.add(7, 400_000, born=123)
    journal = rewritten(tmp_path, "slices", lambda _: {"device": 7, "inode": 123})
    assert restore_threads(scheduler, lambda _: [7], journal.load().entries, DEFAULT)[1] == []
    assert scheduler.slices() == {7: DEFAULT}
