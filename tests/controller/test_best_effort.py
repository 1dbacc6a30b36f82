"""Neighbours that are named best-effort are idle while components wait, and only they."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from refusing import read_only
from toy_daemon import ToySite, peer
from vanishing import vanishes

from qioi.commands.explain import lines
from qioi.controller.best_effort import HOLD, best_effort, recover_idle
from qioi.controller.guard.journal import Journal
from qioi.controller.guard.restore import Result
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import HostLoad
from qioi.settings.config import load_config
from qioi.show.explain import explain
from qioi.show.metrics import render


def make(folder: Path, patterns: list[str]) -> ToySite:
    site = ToySite(folder, [peer("peer0", "batch/ledger/p")], channels={"red": {}}, best_effort=patterns)
    for group in ("batch/one", "batch/two", "batch/ledger/p/below", "other"):
        site.group(group)
    for file in site.hierarchy.mount.rglob("cpu.weight"):
        (file.parent / "cpu.idle").write_text("0")
    site.toy.tps, site.toy.waits = {"red": 50.0}, {"peer0": (0.1, 0.0)}
    return site


def idle(site: ToySite) -> set[str]:
    files = site.hierarchy.mount.rglob("cpu.idle")
    return {str(file.parent.relative_to(site.hierarchy.mount)) for file in files if file.read_text() == "1"}


def test_idle_while_components_wait(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site = make(tmp_path, ["batch/*", "batch/ledger/p/*"])
    site.run(2)
    assert idle(site) == set()  # the host is full, but nobody waits
    site.toy.waits = {"peer0": (0.1, 0.9)}
    with caplog.at_level(logging.INFO, "qioi"):
        site.run(2)
    assert idle(site) == {"batch/one", "batch/two"}  # not the component, nor what is above or below it
    assert sorted(site.snapshot.idle_groups) == ["batch/one", "batch/two"]
    assert "qioi_best_effort_idle_groups 2.0" in render(site.snapshot).decode()
    assert "batch/one" in dict(lines(explain(site.snapshot, "peer0", site.hierarchy)))["idle"]
    site.toy.waits = {"peer0": (0.1, 0.0)}
    site.run(20)
    assert idle(site) == {"batch/one", "batch/two"}  # they are why nobody waits any more
    (site.hierarchy.mount / "batch/one/cpu.idle").unlink()
    site.toy.host = HostLoad(0.9, 0.0)
    with caplog.at_level(logging.INFO, "qioi"):
        site.run(30)
    assert idle(site) == set()
    assert sum("batch/one: failed" in one.message for one in caplog.records) == 1


def test_a_group_is_not_made_idle_before_its_share_is_put_back(tmp_path: Path) -> None:
    """Its share reads as 1 while it is idle: putting it back met a value of somebody else, and left the raise."""
    site = make(tmp_path, ["batch/*"])
    site.guard.hold("batch/one")
    site.guard.apply({"batch/one": 4096})  # by a daemon before this one, to which it was a component's
    site.toy.waits = {"peer0": (0.1, 0.9)}
    site.run(2)
    assert idle(site) == {"batch/two"}
    site.guard.release("batch/one")
    site.run(1)
    assert (idle(site), site.weight("batch/one")) == ({"batch/one", "batch/two"}, 100)


def test_a_job_that_ends_while_it_is_idle_is_no_problem(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site = make(tmp_path, ["batch/*"])
    site.toy.waits = {"peer0": (0.1, 0.9)}
    site.run(2)
    shutil.rmtree(site.hierarchy.mount / "batch/one")
    site.toy.waits, site.toy.host = {"peer0": (0.1, 0.0)}, HostLoad(0.9, 0.0)
    with caplog.at_level(logging.INFO, "qioi"):
        site.run(30)
    (said,) = [one for one in caplog.records if "batch/one" in one.message]
    assert said.levelname == "INFO"
    assert said.message.endswith("no such control group")


def test_those_that_their_owners_have_labelled_are_idle_too(tmp_path: Path) -> None:
    site = make(tmp_path, [])
    site.roster.label("other", "batch", "batch/ledger/p", "gone", 300 * "x")  # the kernel can't say of that one
    site.toy.waits = {"peer0": (0.1, 0.9)}
    site.run(2)
    assert idle(site) == {"other"}  # no component, nothing above one, nothing that is not there
    site.toy.best_effort.adopt(())  # the label went with its container: what is idle is put back all the same
    site.toy.waits, site.toy.host = {"peer0": (0.1, 0.0)}, HostLoad(0.9, 0.0)
    site.run(30)
    assert idle(site) == set()


def test_a_component_that_was_idle_before_it_was_known_is_not_any_more(tmp_path: Path) -> None:
    """A pattern may be for all containers there are: the newest one matches it before it is known for a peer."""
    site = make(tmp_path, ["batch/*"])
    site.toy.waits = {"peer0": (0.1, 0.9)}
    site.run(2)
    assert idle(site) == {"batch/one", "batch/two"}
    file = site.folder / "qioi.yaml"
    file.write_text(file.read_text().replace("batch/ledger/p", "batch/one/p"))
    site.group("batch/one/p")
    site.snapshot = site.daemon.adopt(load_config(file), site.snapshot)
    site.run(2)
    assert idle(site) == {"batch/two", "batch/ledger"}
    assert {entry.path for entry in Journal(tmp_path / "state", name="idle").load().entries} == idle(site)


def test_the_daemon_makes_itself_never_idle(tmp_path: Path) -> None:
    hierarchy = Hierarchy(2, tmp_path)
    for group in ("system.slice/qioi.service", "system.slice/backup.service"):
        (tmp_path / group).mkdir(parents=True)
    for folder in (tmp_path / "system.slice", *(tmp_path / "system.slice").iterdir()):
        (folder / "cpu.weight").write_text("300")
        (folder / "cpu.idle").write_text("0")
    (tmp_path / "state").mkdir()
    own = "system.slice/qioi.service"
    with best_effort(["*", "system.slice/*"], tmp_path / "state", hierarchy, own) as groups:
        assert groups.step(1.0, True, True, []) == groups.groups == ("system.slice/backup.service",)


def test_a_problem_that_comes_back_is_said_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    hierarchy, idle = Hierarchy(2, tmp_path), tmp_path / "batch/cpu.idle"
    (tmp_path / "batch").mkdir()
    (tmp_path / "batch/cpu.weight").write_text("300")
    (tmp_path / "state").mkdir()
    with best_effort(["batch"], tmp_path / "state", hierarchy) as groups:
        groups.step(1.0, True, True, [])
        groups.step(2.0, True, True, [])
        idle.write_text("0")
        assert groups.step(3.0, True, True, []) == ("batch",)
        assert groups.step(3.0 + 2 * HOLD, False, False, []) == ()
        idle.unlink()
        groups.step(4.0 + 2 * HOLD, True, True, [])
    assert [one.levelname for one in caplog.records] == ["WARNING", "WARNING"]


def test_a_job_that_ends_during_a_look_does_not_end_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = make(tmp_path, ["batch/*/*", "other"])
    for group in ("batch/job/inner", "batch/one/a", "batch/two/b"):
        site.group(group)
        (site.hierarchy.mount / group / "cpu.idle").write_text("0")
    site.toy.waits = {"peer0": (0.1, 0.9)}
    vanishes(monkeypatch, site.hierarchy.mount / "batch/job")
    site.run(2)
    assert idle(site) == {"batch/one/a", "batch/two/b", "other"}


def test_nobody_is_unless_named(tmp_path: Path) -> None:
    site = make(tmp_path, [])
    site.toy.waits = {"peer0": (0.1, 0.9)}
    site.run(3)
    assert idle(site) == set()


def test_the_end_puts_back_and_so_does_recovery(tmp_path: Path) -> None:
    hierarchy = Hierarchy(2, tmp_path)
    (tmp_path / "batch").mkdir()
    (tmp_path / "batch/cpu.weight").write_text("300")
    (tmp_path / "batch/cpu.idle").write_text("0")
    (tmp_path / "state").mkdir()
    with best_effort(["batch"], tmp_path / "state", hierarchy) as groups:
        assert groups.step(1.0, True, True, []) == ("batch",)
        journal = (tmp_path / "state/idle").read_bytes()
    assert (tmp_path / "batch/cpu.idle").read_text() == "0"
    assert recover_idle(tmp_path / "state", hierarchy) == ([], [])
    (tmp_path / "batch/cpu.idle").write_text("1")
    (tmp_path / "state/idle").write_bytes(journal + b"half")
    outcomes, problems = recover_idle(tmp_path / "state", hierarchy)
    assert [str(one.result) for one in outcomes] == ["ok"]
    assert "half-written or damaged" in problems[0]
    assert (tmp_path / "batch/cpu.idle").read_text() == "0"
    (tmp_path / "state/idle").write_text("half")
    assert len(recover_idle(tmp_path / "state", hierarchy)[1]) == 1
    assert recover_idle(tmp_path / "state", hierarchy) == ([], [])


def full(*_: object, durable: bool = True) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_damaged_journal_of_idle_groups_stays_where_it_cannot_be_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Journal, "set_aside", full)
    (tmp_path / "idle").write_text("half")
    outcomes, (problem,) = recover_idle(tmp_path, Hierarchy(2, tmp_path))
    assert (outcomes, problem.endswith("device: no idle group could be put back")) == ([], True)
    assert (tmp_path / "idle").read_text() == "half"


def test_without_a_journal_no_recovery_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qioi.controller.guard.journal.sync_folder", full)
    assert recover_idle(tmp_path, Hierarchy(2, tmp_path)) == ([], [])


def one_group(folder: Path) -> tuple[Hierarchy, Path]:
    (folder / "batch").mkdir()
    (folder / "batch/cpu.weight").write_text("300")
    (folder / "batch/cpu.idle").write_text("0")
    (folder / "state").mkdir()
    return Hierarchy(2, folder), folder / "state"


def test_more_groups_than_can_be_taken_are_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hierarchy, state = one_group(tmp_path)
    (tmp_path / "more").mkdir()
    monkeypatch.setattr("qioi.controller.best_effort.MOST", 1)
    with best_effort(["*"], state, hierarchy) as groups:
        for second in range(3):
            groups.step(float(second), True, True, ["state"])
    assert [one.message for one in caplog.records if "match" in one.message] == [
        "best_effort: 2 groups match, the first 1 are taken"
    ]


def test_a_journal_that_cannot_be_emptied_is_said_and_the_group_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hierarchy, state = one_group(tmp_path)
    with best_effort(["batch"], state, hierarchy) as groups:
        groups.step(1.0, True, True, [])
        state.rename(tmp_path / "away")
        state.touch()  # so that the folder cannot be made again
    assert (tmp_path / "batch/cpu.idle").read_text() == "0"
    why = "the journal cannot be written (File exists): it names what was restored, too"
    assert f"restore {state}/idle: failed: {why}" in caplog.messages
    assert not groups.clean


@pytest.mark.parametrize("place", [lambda file: file.mkdir(), lambda file: file.symlink_to("nowhere")])
def test_a_journal_that_cannot_be_read_is_said(tmp_path: Path, place: Callable[[Path], None]) -> None:
    hierarchy, state = one_group(tmp_path)
    place(state / "idle")
    assert recover_idle(state, hierarchy) == (
        [], [f"{state}/idle: not a regular file: no idle group could be put back"]
    )  # fmt: skip


@pytest.fixture
def real_batch(real_group: tuple[Hierarchy, str]) -> tuple[Hierarchy, str]:
    """A group of the kernel's with a weight of its own."""
    hierarchy, parent = real_group
    (folder := hierarchy.folder(f"{parent}/batch")).mkdir()
    if not (folder / "cpu.idle").exists():
        pytest.skip("this kernel has no cpu.idle (5.15)")
    (folder / hierarchy.file).write_text("700")
    return hierarchy, f"{parent}/batch"


def test_a_group_that_cannot_be_put_back_for_a_while_is_tried_again_and_said_once(
    tmp_path: Path, real_batch: tuple[Hierarchy, str], caplog: pytest.LogCaptureFixture
) -> None:
    hierarchy, group = real_batch
    folder, journal = hierarchy.folder(group), Journal(tmp_path, name="idle")
    caplog.set_level(logging.INFO, "qioi")
    with best_effort([group], tmp_path, hierarchy) as groups:
        assert groups.step(1.0, True, True, []) == (group,)
        caplog.clear()
        with read_only(folder / "cpu.idle"):
            for second in range(5):
                assert groups.step(2.0 + HOLD + second, False, False, []) == (group,)
            assert [entry.path for entry in journal.load().entries] == [group]
        for second in range(5):
            assert groups.step(10.0 + HOLD + second, False, False, []) == ()
        weight = (folder / hierarchy.file).read_text()
        assert ((folder / "cpu.idle").read_text(), weight) == ("0\n", "700\n")
    failed, done = caplog.messages
    assert failed.startswith(f"best effort: {group}: failed: {folder}/cpu.idle: Read-only file system; it has ")
    assert failed.endswith(f"cpu.idle = 1, and should have cpu.idle = 0, {hierarchy.file} = 700")
    assert done.startswith(f"best effort: {group}: cpu.idle = 0, ")
    assert groups.clean


def test_a_group_that_cannot_be_put_back_at_the_end_is_not_clean_and_the_next_daemon_goes_on(
    tmp_path: Path, real_batch: tuple[Hierarchy, str], caplog: pytest.LogCaptureFixture
) -> None:
    hierarchy, group = real_batch
    folder, journal = hierarchy.folder(group), Journal(tmp_path, name="idle")
    with ExitStack() as mounted:
        with best_effort([group], tmp_path, hierarchy) as groups:
            groups.step(1.0, True, True, [])
            mounted.enter_context(read_only(folder / "cpu.idle"))
        assert not groups.clean
        assert "and should have cpu.idle = 0" in caplog.text
        outcomes, problems = recover_idle(tmp_path, hierarchy)
        assert ([one.result for one in outcomes], problems) == ([Result.FAILED], [])
    with best_effort(None, tmp_path, hierarchy) as groups:  # a dry run
        assert groups.groups == ()
    with best_effort([], tmp_path, hierarchy) as groups:
        assert groups.groups == (group,)
        assert groups.step(1.0, True, True, []) == ()  # no interference keeps what is not to be idle
    assert (folder / "cpu.idle").read_text() == "0\n"
    assert not journal.file.exists()


def test_a_group_left_idle_that_no_pattern_names_now_is_put_back_during_interference(
    tmp_path: Path, real_batch: tuple[Hierarchy, str]
) -> None:
    hierarchy, group = real_batch
    named = group.replace("batch", "named")
    hierarchy.folder(named).mkdir()
    file = hierarchy.folder(group) / "cpu.idle"
    with ExitStack() as mounted:
        with best_effort([group, named], tmp_path, hierarchy) as groups:
            assert set(groups.step(1.0, True, True, [])) == {group, named}
            for one in (group, named):
                mounted.enter_context(read_only(hierarchy.folder(one) / "cpu.idle"))
        assert not groups.clean
    with best_effort([named], tmp_path, hierarchy) as groups:
        with read_only(file):
            assert set(groups.step(1.0, True, True, [])) == {group, named}
        assert groups.step(2.0, True, True, []) == (named,)
        assert (file.read_text(), (hierarchy.folder(group) / hierarchy.file).read_text()) == ("0\n", "700\n")


def test_a_job_that_ends_during_interference_is_forgotten_without_a_line(
    tmp_path: Path, real_batch: tuple[Hierarchy, str], caplog: pytest.LogCaptureFixture
) -> None:
    hierarchy, group = real_batch
    with best_effort([group], tmp_path, hierarchy) as groups:
        assert groups.step(1.0, True, True, []) == (group,)
        hierarchy.folder(group).rmdir()
        caplog.set_level(logging.INFO, "qioi")
        assert groups.step(2.0, True, True, []) == ()
    assert caplog.messages == []


def test_a_group_whose_label_has_gone_is_put_back_during_interference(
    tmp_path: Path, real_batch: tuple[Hierarchy, str]
) -> None:
    hierarchy, group = real_batch
    with best_effort([], tmp_path, hierarchy) as groups:
        groups.adopt((group,))
        assert groups.step(1.0, True, True, []) == (group,)
        groups.adopt(())
        assert groups.step(2.0, True, True, []) == ()
        assert (hierarchy.folder(group) / "cpu.idle").read_text() == "0\n"


def test_a_group_whose_idling_somebody_else_has_ended_stays_so_in_the_next_interference(
    tmp_path: Path, real_batch: tuple[Hierarchy, str]
) -> None:
    hierarchy, group = real_batch
    file = hierarchy.folder(group) / "cpu.idle"
    with best_effort([group], tmp_path, hierarchy) as groups:
        groups.step(1.0, True, True, [])
        file.write_text("0")
        for start in (2.0, 100.0, 200.0):
            assert groups.step(start, True, True, []) == ()
            assert groups.step(start + 2 * HOLD, False, False, []) == ()
            assert file.read_text() == "0\n"


@pytest.mark.parametrize("disk", ["well", "full"])
def test_a_group_whose_idling_somebody_else_has_ended_is_theirs_for_the_next_daemon_too(
    tmp_path: Path, disk: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hierarchy, state = one_group(tmp_path)
    idle, weight = tmp_path / "batch/cpu.idle", tmp_path / "batch/cpu.weight"
    with best_effort(["batch"], state, hierarchy) as groups:
        assert groups.step(1.0, True, True, []) == ("batch",)
        idle.write_text("0")
        weight.write_text("100")  # as the kernel does
        with monkeypatch.context() as patch:
            if disk == "full":  # for a while
                patch.setattr(Journal, "store", full)
            assert groups.step(2.0, True, True, []) == ()
        assert (weight.read_text(), (state / "idle").exists()) == ("300", disk == "full")
    idle.write_text("1")
    assert recover_idle(state, hierarchy) == ([], [])
    assert idle.read_text() == "1"


def test_a_recovery_whose_journal_cannot_be_written_says_what_it_has_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hierarchy, state = one_group(tmp_path)
    with best_effort(["batch"], state, hierarchy) as groups:
        groups.step(1.0, True, True, [])
        journal = (state / "idle").read_bytes()
    (state / "idle").write_bytes(journal)
    (tmp_path / "batch/cpu.idle").write_text("1")

    monkeypatch.setattr(Journal, "store", full)
    outcomes, (problem,) = recover_idle(state, hierarchy)
    assert ([one.result for one in outcomes], (tmp_path / "batch/cpu.idle").read_text()) == ([Result.OK], "0")
    assert problem == f"{state}/idle: No space left on device: it stays as it was, and names what was restored, too"
