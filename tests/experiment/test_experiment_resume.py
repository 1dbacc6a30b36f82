"""A run is gone on with where it was left, and with nothing that it is not to be mixed with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_experiment import HOST, filled, load, row

from qioi.commands.experiment import Asked, run_all
from qioi.commands.options import plain_console
from qioi.experiment import places
from qioi.experiment.errors import SpecError
from qioi.experiment.host import with_fabric
from qioi.experiment.places import DISK, MEMORY, media, own_folder
from qioi.experiment.plan import Plan, make_plan, with_binaries
from qioi.experiment.run_files import Host
from qioi.experiment.session import Session
from qioi.experiment.store import Store
from qioi.processes.errors import LabError


def test_an_unfinished_repeat_is_put_aside_and_a_finished_one_kept(plan: Plan, tmp_path: Path) -> None:
    store = Store(tmp_path / "toy")
    filled(store, plan, [row(100, 50, 100)])
    (store.folder(2) / "tiny.slow.alone").mkdir(parents=True)
    store.resume(plan, {}, HOST)
    assert not any(store.fresh(2).iterdir())
    assert [host.at for host in store.document.resumed] == ["now"]
    assert [repeat.number for repeat in store.repeats()] == [1]


def test_what_an_interrupted_beginning_left_is_no_run(plan: Plan, tmp_path: Path) -> None:
    store = Store(tmp_path / "toy")
    store.directory.mkdir()
    (store.directory / "run.json.new").write_text('{"form')
    store.begin(plan, {}, HOST)
    assert store.document.host == Host(**HOST)


def test_a_run_of_something_else_is_not_gone_on_with(plan: Plan, tmp_path: Path) -> None:
    store = Store(tmp_path / "toy")
    filled(store, plan, [row(100, 50, 100)])
    with pytest.raises(SpecError, match="seed differ"):
        store.resume(make_plan(plan.spec, 2, seed=2), {}, HOST)
    with pytest.raises(SpecError, match="not empty"):
        store.begin(plan, {}, {})
    with pytest.raises(SpecError, match=r"run\.json is missing"):
        Store(tmp_path / "none").resume(plan, {}, HOST)
    (store.directory / "run.json").write_text('{"format": 99}')
    with pytest.raises(SpecError, match="format 99"):
        store.resume(plan, {}, HOST)
    (store.directory / "run.json").write_text("{")
    with pytest.raises(SpecError, match="not JSON"):
        store.resume(plan, {}, HOST)


def test_a_run_on_another_medium_is_not_gone_on_with(plan: Plan, tmp_path: Path) -> None:
    """Its ledgers would flush to a disk in some repeats, and to memory in others."""
    store = Store(tmp_path / "toy")
    store.begin(plan, {"tiny": "memory"}, HOST)
    store.resume(plan, {"tiny": "memory"}, HOST)
    with pytest.raises(SpecError, match=r"media differ\): name its own options, --dir among them$"):
        store.resume(plan, {"tiny": "disk"}, HOST)
    noted = json.loads((store.directory / "run.json").read_text())
    del noted["media"]  # as runs of earlier versions
    (store.directory / "run.json").write_text(json.dumps(noted))
    store.resume(plan, {"tiny": "disk"}, HOST)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """A host with memory and a disk, whose memory has ``free`` room or not."""
    found = {"free": True}
    monkeypatch.setattr(places, "file_system", lambda path: "tmpfs" if path.is_relative_to("/dev/shm") else "ext4")
    monkeypatch.setattr(places, "is_others", lambda _folder: False)
    monkeypatch.setattr(places, "demo_directory", lambda memory, disk: memory if found["free"] else disk)
    return found


@pytest.mark.parametrize(("began", "free", "place"), [(MEMORY, True, MEMORY), (DISK, True, DISK), (DISK, False, DISK)])
def test_a_run_stays_on_its_medium(
    plan: Plan, tmp_path: Path, room: dict[str, bool], began: Path, free: bool, place: Path
) -> None:
    """However much memory is free at the moment."""
    Store(tmp_path / "toy").begin(plan, media(plan.spec.networks, began), HOST)
    room["free"] = free
    assert Asked(output=tmp_path, resume=True).directory_of(plan.spec) == place


def test_a_run_in_memory_that_has_no_room_now_says_what_to_do(
    plan: Plan, tmp_path: Path, room: dict[str, bool]
) -> None:
    Store(tmp_path / "toy").begin(plan, media(plan.spec.networks, MEMORY), HOST)
    room["free"] = False
    with pytest.raises(SpecError) as refused:
        Asked(output=tmp_path, resume=True).directory_of(plan.spec)
    (line,) = refused.value.problems
    assert line == (
        f"toy: the run's ledgers stood in memory ({MEMORY}), where 4 GiB are not free now, and not on a disk ({DISK}): "
        "free that memory, or begin a new run without --resume"
    )
    assert Asked(output=tmp_path / "new").directory_of(plan.spec) == DISK
    assert Asked(output=tmp_path, resume=True, folder=tmp_path).directory_of(plan.spec) == tmp_path


def test_a_run_whose_folder_in_memory_is_somebody_elses_now_says_so(
    plan: Plan, tmp_path: Path, room: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody may make that folder, after a reboot."""
    Store(tmp_path / "toy").begin(plan, media(plan.spec.networks, MEMORY), HOST)
    room["free"] = False
    monkeypatch.setattr(places, "is_others", lambda folder: folder == MEMORY)
    with pytest.raises(SpecError) as refused:
        Asked(output=tmp_path, resume=True).directory_of(plan.spec)
    (line,) = refused.value.problems
    assert line == (
        f"toy: the run's ledgers stood in memory ({MEMORY}), where a folder is now that is not this user's own, and "
        f"not on a disk ({DISK}): have it removed, or `chown` and `chmod go-w` it, or begin a new run without --resume"
    )


def test_memory_that_is_taken_meanwhile_ends_no_run_of_several(
    plan: Plan, tmp_path: Path, room: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each experiment says why it was not measured, and those after it are."""
    plans = [replace(plan, spec=plan.spec.model_copy(update={"name": name})) for name in ("one", "two", "three")]
    Store(tmp_path / "two").begin(plans[1], media(plan.spec.networks, MEMORY), HOST)

    def fails(session: Session, *, resume: bool) -> None:
        room["free"] = False
        raise LabError("spoilt")

    monkeypatch.setattr(Session, "run", fails)
    with pytest.raises(LabError) as failed:
        run_all(plans, Asked(output=tmp_path, resume=True), plain_console())
    said = str(failed.value).splitlines()
    assert [line.partition(":")[0] for line in said] == ["one", "two", "three"]
    assert said[0] == "one: spoilt"
    assert "where 4 GiB are not free now" in said[1]


def test_a_run_in_another_folder_is_not_gone_on_with(plan: Plan, tmp_path: Path) -> None:
    """Two disks are one medium, and not one disk."""
    store, nvme = Store(tmp_path / "toy"), own_folder(tmp_path / "nvme")
    store.begin(plan, {"tiny": "disk"}, HOST, nvme)
    store.resume(plan, {"tiny": "disk"}, HOST, nvme)
    for other in (own_folder(DISK), own_folder(tmp_path / "ssd")):
        with pytest.raises(SpecError, match=r"folder differ"):
            store.resume(plan, {"tiny": "disk"}, HOST, other)
    assert str(tmp_path) not in (store.directory / "run.json").read_text()  # it is published
    assert {own_folder(place) for place in (MEMORY, DISK)} == {""}
    noted = json.loads((store.directory / "run.json").read_text())
    del noted["folder"]  # as runs of earlier versions
    (store.directory / "run.json").write_text(json.dumps(noted))
    store.resume(plan, {"tiny": "disk"}, HOST, own_folder(DISK))


def test_where_binaries_stand_is_neither_published_nor_a_part_of_the_run(
    document: dict[str, Any], tmp_path: Path
) -> None:
    """What they are is compared by their digest."""
    document["networks"]["tiny"] = {"system": "fabric", "mode": "block"}
    spec, store = load(document, tmp_path), Store(tmp_path / "toy")
    store.begin(make_plan(with_binaries(spec, "/home/me/fabric"), 2), {}, HOST)
    assert "/home/me" not in (store.directory / "run.json").read_text()
    store.resume(make_plan(with_binaries(spec, "/opt/fabric"), 2), {}, HOST)
    noted = json.loads((store.directory / "run.json").read_text())
    noted["spec"]["networks"]["tiny"]["binaries"] = "/home/me/fabric"  # as runs of earlier versions
    (store.directory / "run.json").write_text(json.dumps(noted))
    store.resume(make_plan(with_binaries(spec, "/opt/fabric"), 2), {}, HOST)


def of_build(digest: str, commit: str, code: str = "123") -> dict[str, Any]:
    binary = {"sha256": digest, "bytes": 1}
    return {**HOST, "versions": {"qioi": "0", "commit": commit}, "code": code, "ledger_binary": binary}


def test_a_run_of_another_build_is_not_gone_on_with(plan: Plan, tmp_path: Path) -> None:
    """Its medians would be of both."""
    store = Store(tmp_path / "toy")
    store.begin(plan, {}, of_build("abc", "fb2d628f"))
    store.resume(plan, {}, of_build("abc", "fb2d628f-dirty"))  # as an excerpt of it leaves the checkout
    begin = r": begin a new run without --resume, or remove that folder$"
    for here, said in (
        (of_build("def", "fb2d628f"), r"a run of another build or machine \(ledger abc, now def\)"),
        (of_build("abc", "598255f0"), r"another build or machine \(commit fb2d628f, now 598255f0\)"),
        # An edit that is not committed.
        (of_build("abc", "fb2d628f-dirty", "456"), r"another build or machine \(code 123, now 456\)"),
        (HOST, r"\(commit fb2d628f, now none; code 123, now none; ledger abc, now none\)"),
        ({**of_build("abc", "fb2d628f"), "cgroup_version": 2}, r"machine \(cgroup_version 1, now 2\)"),
        ({**of_build("abc", "fb2d628f"), "cgroup_mode": "new"}, r"machine \(cgroup_mode .+, now new\)"),
    ):
        with pytest.raises(SpecError, match=said + begin):
            store.resume(plan, {}, here)
    assert len(store.document.resumed) == 1


def test_a_run_of_another_fabric_is_not_gone_on_with(document: dict[str, Any], tmp_path: Path) -> None:
    """Its folder may hold another version than when the run began."""
    programs = [tmp_path / "fabric" / "bin" / name for name in ("peer", "orderer")]
    programs[0].parent.mkdir(parents=True)
    for program in programs:
        program.write_text("2.5.16")
    document["networks"]["tiny"] = {"system": "fabric", "mode": "block", "binaries": str(tmp_path / "fabric")}
    plan = make_plan(load(document, tmp_path), cores=2)
    store = Store(tmp_path / "toy")
    store.begin(plan, {}, with_fabric(HOST, plan.spec.networks))
    store.resume(plan, {}, with_fabric(HOST, plan.spec.networks))
    for program in programs:
        program.write_text("3.1.5")
        with pytest.raises(SpecError, match=r"another build or machine \(fabric [0-9a-f]{12}, now [0-9a-f]{12}\)"):
            store.resume(plan, {}, with_fabric(HOST, plan.spec.networks))
        program.write_text("2.5.16")
    store.resume(plan, {}, with_fabric(HOST, plan.spec.networks))
    assert str(tmp_path / "fabric") not in json.dumps(store.document.host.model_dump())


@pytest.mark.parametrize(("what", "now"), [("kernel", "6.19"), ("cpu", "another CPU")])
def test_a_run_of_another_machine_is_not_gone_on_with(plan: Plan, tmp_path: Path, what: str, now: str) -> None:
    """A reboot into another kernel is enough: its repeats are compared with those before."""
    store = Store(tmp_path / "toy")
    store.begin(plan, {}, HOST)
    with pytest.raises(SpecError, match=rf"another build or machine \({what} {HOST[what]}, now {now}\)"):
        store.resume(plan, {}, {**HOST, what: now})
    assert store.document.resumed == []


def test_a_run_that_is_finished_or_of_an_unknown_build_is_gone_on_with(plan: Plan, tmp_path: Path) -> None:
    old, finished = Store(tmp_path / "old"), Store(tmp_path / "finished")
    old.begin(plan, {}, HOST)
    filled(finished, plan, [row(100, 50, 100)] * plan.repeats)
    finished.keep("host", of_build("abc", "fb2d628f"))
    for store, resumed in ((old, 1), (finished, 0)):
        store.resume(plan, {}, of_build("def", "598255f0"))
        assert len(store.document.resumed) == resumed, "a build that measures nothing is none of the run's"


def test_a_run_with_another_benchmark_file_is_not_gone_on_with(document: dict[str, Any], tmp_path: Path) -> None:
    """The experiment names the file alone, and every repeat reads it anew."""
    bench, module = tmp_path / "bench.yaml", tmp_path / "load.js"
    module.write_text("// a workload")
    entry = {"label": "mix", "rateControl": {"type": "fixed-load"}, "workload": {"module": "load.js"}}
    bench.write_text(json.dumps({"test": {"rounds": [entry]}}))
    document["loads"] = {"slow": {"driver": "caliper", "benchmark": str(bench), "round": "mix", "clients": 2}}
    document["arms"][2]["protection"] = {"shares": 4096}
    document["timing"]["duration"] = 4.0
    plan = make_plan(load(document, tmp_path), cores=2)
    store = Store(tmp_path / "toy")
    store.begin(plan, {}, HOST)
    store.resume(plan, {}, HOST)
    for file in (bench, module):
        before = file.read_text()
        file.write_text(before + "\n")
        with pytest.raises(SpecError, match="benchmarks differ"):
            store.resume(plan, {}, HOST)
        file.write_text(before)
    store.resume(plan, {}, HOST)
