"""The actor by itself: what it takes up, leaves to another lever, and lets go of."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from owed_site import OUTSIDE, make
from toy_daemon import ToySite

from qioi.controller.acting import Actor, Change
from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Journal
from qioi.controller.guard.restore import Outcome, Result
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce, Want
from qioi.controller.levers.files import Files
from qioi.controller.levers.lever import Identity
from qioi.controller.other_lever import NO_OTHER_LEVER, NoOtherLever, OtherLever, Taken
from qioi.kernel.errors import CgroupError
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import MAX_SHARES, Component, Decision, Role

PLACE = Placement(("docker/p",), "no foreign work")
COMPONENT = Component("peer0", Role.PEER, "docker/p")


def want(shares: int, previous: int = 1024) -> Want:
    return Want(Decision("peer0", previous, shares, "it waits"), "docker/p", PLACE)


def actor_of(site: ToySite, other: OtherLever = NO_OTHER_LEVER) -> Actor:
    """One that has looked at the component once."""
    actor = Actor(site.guard, lambda _: None, other)
    assert actor.look_at([COMPONENT], {"docker/p": PLACE})[0]["peer0"].share == 1024
    return actor


def test_a_component_is_taken_up_again_on_order_with_what_it_has_as_its_original(tmp_path: Path) -> None:
    site = make(tmp_path)
    actor = actor_of(site)
    assert actor.act([want(4096)]).shares == {"peer0": 4096}
    (site.hierarchy.mount / "docker/p/cpu.weight").write_text("150")
    forces = actor.look_at([COMPONENT], {"docker/p": PLACE})[0]
    actor.act([want(8192, 4096)])
    assert actor.look_at([COMPONENT], {"docker/p": PLACE})[0]["peer0"].taken == ("docker/p",), forces
    for _ in range(2):  # the second order finds nothing that is somebody else's
        actor.take_up("peer0")
        force = actor.look_at([COMPONENT], {"docker/p": PLACE})[0]["peer0"]
        assert (force.share, force.taken) == (1024, ())
    actor.act([want(2048)])
    assert site.weight("docker/p") == 300


def test_a_share_of_somebody_elses_is_known_in_the_first_look_and_adopted_in_one(tmp_path: Path) -> None:
    site = make(tmp_path)
    actor = actor_of(site)

    def look(*groups: str) -> InForce:
        return actor.look_at([COMPONENT], {"docker/p": Placement(groups, "")})[0]["peer0"]

    actor.act([want(4096)])
    assert not look("docker/p").foreign
    assert not look("docker/p", "docker").foreign
    assert not look("docker/p", "away").foreign
    (site.hierarchy.mount / "docker/p/cpu.weight").write_text("800")
    assert (look("docker/p").foreign, look("docker/p", "docker").foreign) == (True, True)
    actor.act([want(4096, 8192)])
    assert look("docker/p").foreign
    actor.take_up("peer0")
    force = look("docker/p")
    assert (force.share, force.foreign, force.taken_up) == (1024, False, True)
    assert not look("docker/p").taken_up
    actor.take_up("peer0")  # nothing is somebody else's
    assert not look("docker/p").taken_up


def test_groups_above_components_that_an_earlier_daemon_left_raised_are_let_go_of(tmp_path: Path) -> None:
    site = make(tmp_path)
    site.toy.used = OUTSIDE
    site.run(2)
    assert site.weight("docker") == 400
    later = Actor(site.guard, lambda _: None)
    later.go_on(["docker"])
    later.act(())
    assert site.weight("docker") == 100


def test_a_group_that_cannot_be_read_is_absent_with_the_reason_and_written_when_it_can_be(tmp_path: Path) -> None:
    site = make(tmp_path)
    actor = actor_of(site)
    file = site.hierarchy.mount / "docker/p/cpu.weight"
    file.write_text("what?")
    forces, absent, gone = actor.look_at([COMPONENT], {"docker/p": PLACE})
    assert not forces
    assert not gone
    assert "peer0" in absent
    outcomes = actor.act([want(4096)])
    assert not outcomes.shares
    assert "peer0" in outcomes.problems
    file.write_text("100")
    assert actor.act([want(4096)]).shares == {"peer0": 4096}


def test_a_group_that_goes_between_the_look_and_the_write_is_lost(tmp_path: Path) -> None:
    site = make(tmp_path)
    actor = actor_of(site)
    shutil.rmtree(site.hierarchy.mount / "docker/p")
    outcomes = actor.act([want(4096)])
    assert not outcomes.shares
    assert outcomes.lost == ("peer0",)


@pytest.mark.parametrize("group", ["docker/p", "docker"])
def test_a_change_that_the_kernels_unit_rounds_is_told_with_the_share_in_force(tmp_path: Path, group: str) -> None:
    """At a weight of 10 there is no 5137 of 1024 shares: 50 stands for 5120."""
    site = make(tmp_path)
    (site.hierarchy.mount / group / "cpu.weight").write_text("10")
    actor, place = Actor(site.guard, lambda _: None), Placement((group,), "")
    assert actor.look_at([COMPONENT], {"docker/p": place})[0]["peer0"].share == 1024
    asked = replace(want(5137), placement=place)
    assert actor.act([asked]).made == (Change(asked.decision, 5120),)
    again = replace(want(5137, 5120), placement=place)
    assert actor.act([again]).made == ()  # nothing has moved
    less = replace(want(5000, 5120), placement=place)
    site.guard._journal.file.with_name("journal.new").mkdir()  # nothing can be written
    assert actor.act([less]).made == ()


def actor_v1(folder: Path, shares: dict[str, int]) -> tuple[Actor, Hierarchy]:
    """One over cgroup v1, whose groups have these shares."""
    hierarchy = Hierarchy(1, folder / "cgroup")
    for group, its in shares.items():
        hierarchy.folder(group).mkdir(parents=True)
        (hierarchy.folder(group) / "cpu.shares").write_text(str(its))
    return Actor(Guard(hierarchy, Files(hierarchy), Journal(folder)), lambda _: None), hierarchy


def test_a_raise_that_ends_at_the_most_that_a_group_can_have_is_told(tmp_path: Path) -> None:
    """On cgroup v1, where a group above was found with so much that what is asked for is beyond its file's range."""
    actor, hierarchy = actor_v1(tmp_path, {"docker": 100_000, "docker/p": 1024})
    place = Placement(("docker",), "")
    actor.look_at([COMPONENT], {"docker/p": place})
    asked = replace(want(8192), placement=place)
    assert actor.act([asked]).made == (Change(asked.decision, 2684),)
    assert (hierarchy.folder("docker") / "cpu.shares").read_text() == str(MAX_SHARES)


def test_a_share_that_somebody_sets_first_as_it_is_wanted_is_no_problem_and_none_of_ours(tmp_path: Path) -> None:
    actor, hierarchy = actor_v1(tmp_path, {"docker/p": 1024})
    actor.look_at([COMPONENT], {"docker/p": PLACE})
    (hierarchy.folder("docker/p") / "cpu.shares").write_text("2048")
    outcomes = actor.act([want(2048)])
    assert (outcomes.problems, outcomes.moved, outcomes.made) == ({}, False, ())
    assert not actor.guard.changed()


def test_a_component_whose_original_somebody_has_put_back_says_for_how_long_it_is_left_alone(tmp_path: Path) -> None:
    site = make(tmp_path)
    actor = actor_of(site)
    actor.act([want(4096)])
    (site.hierarchy.mount / "docker/p/cpu.weight").write_text("100")
    actor.act([want(8192, 4096)])
    force = actor.look_at([COMPONENT], {"docker/p": PLACE})[0]["peer0"]
    assert force.problem == "somebody else has put its original back: left alone for 60 s"
    assert force.taken == ()


def test_a_group_that_is_let_go_of_is_taken_as_it_is_in_the_next_look(tmp_path: Path) -> None:
    site = make(tmp_path)
    actor = actor_of(site)
    actor.act([want(4096)])
    actor.let_go("docker/p")
    assert not site.guard.holds("docker/p")
    assert actor.look_at([COMPONENT], {"docker/p": PLACE})[0]["peer0"].share == 1024
    actor.act([want(2048)])
    assert site.weight("docker/p") == 800


def test_a_raise_up_to_the_limit_of_a_group_above_is_told(tmp_path: Path) -> None:
    site = make(tmp_path)
    actor, place = actor_of(site), Placement(("docker/p", "docker"), "")
    actor.act([want(2048)])
    (site.hierarchy.mount / "docker/p/cpu.weight").write_text("800")
    actor.look_at([COMPONENT], {"docker/p": place})
    actor.act([replace(want(4096, 8192), placement=PLACE)])  # the write finds that it is somebody else's
    assert actor.look_at([COMPONENT], {"docker/p": place})[0]["peer0"].share == 1024
    asked = replace(want(8192), placement=place, limits={"docker": 2048})
    assert actor.act([asked]).made == (Change(asked.decision, 2048),)


def test_a_share_below_the_one_found_is_told_where_the_group_above_stays(tmp_path: Path) -> None:
    """At a weight of 10 there is no 500 of 1024 shares: 5 stands for 512. Others are in the group above too."""
    site = make(tmp_path)
    (site.hierarchy.mount / "docker/p/cpu.weight").write_text("10")
    actor, place = Actor(site.guard, lambda _: None), Placement(("docker",), "")
    actor.look_at([COMPONENT], {"docker/p": place})
    asked = replace(want(500), placement=place)
    assert actor.act([asked]).made == (Change(asked.decision, 512),)
    assert (site.weight("docker"), site.weight("docker/p")) == (100, 5)


def test_a_share_that_goes_back_up_is_told_though_the_group_above_cannot_be_raised(tmp_path: Path) -> None:
    """The group above is to give what is beyond the share that its own group was found with."""
    site = make(tmp_path)
    actor, place = Actor(site.guard, lambda _: None), Placement(("docker",), "")
    actor.look_at([COMPONENT], {"docker/p": place})
    actor.act([replace(want(512), placement=place)])
    site.guard.drop("docker")
    asked = replace(want(2048, 512), placement=place)
    assert actor.act([asked]).made == (Change(asked.decision, 1024),)
    assert site.weight("docker/p") == 100


def test_a_raise_at_a_group_above_that_cannot_be_written_is_not_told(tmp_path: Path) -> None:
    site = make(tmp_path)
    actor, place = Actor(site.guard, lambda _: None), Placement(("docker",), "")
    actor.look_at([COMPONENT], {"docker/p": place})
    site.guard.drop("docker")
    assert actor.act([replace(want(2048, 4096), placement=place)]).made == ()


class Takes(NoOtherLever):
    """Takes the component on as soon as it is told to."""

    taken = Taken()

    def take(self, decisions: Iterable[Decision]) -> Taken:
        return self.taken


def test_what_another_lever_takes_on_is_put_back_first_and_then_left_to_it(tmp_path: Path) -> None:
    site, lever = make(tmp_path), Takes()
    actor = actor_of(site, lever)
    actor.act([want(4096)])
    lever.taken = Taken(frozenset({"peer0"}), frozenset({"peer0"}), ("docker/p",), {"peer0": "by its request"})
    outcomes = actor.act([want(8192, 4096)])
    assert site.weight("docker/p") == 100
    assert [change.share for change in outcomes.made] == [8192]
    assert outcomes.notes == {"peer0": "by its request"}
    assert outcomes.decided == 0


def test_a_component_whose_policies_have_become_dry_runs_is_put_back(tmp_path: Path) -> None:
    site = make(tmp_path)
    actor = actor_of(site)
    actor.act([want(4096)])
    assert actor.act([replace(want(8192, 4096), shown=True)]).released == ("peer0",)
    assert site.weight("docker/p") == 100
    assert actor.act([replace(want(8192), shown=True)]).released == ()


@contextmanager
def refused(site: ToySite, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have no share written, as on a file system that is read-only for a while."""

    def refuse(path: str, value: int, identity: Identity) -> None:
        raise CgroupError(f"{path}: Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(site.guard._lever.access, "write", refuse)
        yield


def journalled(site: ToySite) -> list[str]:
    return [entry.path for entry in site.guard._journal.load().entries if entry.ours]


def let_go(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(one.levelname, one.message) for one in caplog.records if ": let go: " in one.message]


def test_a_component_that_left_and_cannot_be_restored_is_tried_again_in_each_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site, counted = make(tmp_path), list[Outcome]()
    actor = Actor(site.guard, counted.append)
    actor.look_at([COMPONENT], {"docker/p": PLACE})
    actor.act([want(4096)])
    counted.clear()
    with caplog.at_level(logging.INFO, "qioi"), refused(site, monkeypatch):
        actor.put_back("peer0", "docker/p")
        for _ in range(3):
            actor.look_at([], {})
            assert not actor.act(()).moved
        site.guard.record()
    assert journalled(site) == ["docker/p"]
    assert [one.result for one in counted] == [Result.FAILED] * 4
    with caplog.at_level(logging.INFO, "qioi"):
        assert actor.act(()).moved
        assert not actor.act(()).moved
    assert (site.weight("docker/p"), site.guard.holds("docker/p")) == (100, False)
    (_, failed), (_, done) = said = let_go(caplog)
    assert [level for level, _ in said] == ["WARNING", "INFO"]
    assert failed.startswith("peer0: let go: failed: docker/p: Read-only file system")
    assert done == "peer0: let go: ok: 400 -> 100, its original"


def test_a_component_that_comes_back_before_it_could_be_restored_keeps_its_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make(tmp_path)
    actor = actor_of(site)
    actor.act([want(4096)])
    with refused(site, monkeypatch):
        actor.put_back("peer0", "docker/p")
    actor.look_at([COMPONENT], {"docker/p": PLACE})
    for _ in range(2):
        actor.act([want(4096, 4096)])
        assert site.weight("docker/p") == 400
    actor.put_back("peer0", "docker/p")
    assert site.weight("docker/p") == 100


def test_a_component_that_left_and_is_removed_before_it_could_be_restored_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site = make(tmp_path)
    actor = actor_of(site)
    actor.act([want(4096)])
    with caplog.at_level(logging.INFO, "qioi"), refused(site, monkeypatch):
        actor.put_back("peer0", "docker/p")
        shutil.rmtree(site.hierarchy.mount / "docker/p")
        for _ in range(3):
            actor.look_at([], {})
            actor.act(())
    assert not site.guard.holds("docker/p")
    assert len(let_go(caplog)) == 1


def test_a_dry_run_and_another_lever_are_waited_for_until_the_group_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site, lever = make(tmp_path), Takes()
    actor = actor_of(site, lever)
    actor.act([want(4096)])
    with caplog.at_level(logging.INFO, "qioi"), refused(site, monkeypatch):
        for _ in range(3):
            assert actor.act([replace(want(8192, 4096), shown=True)]).released == ()
    assert len(let_go(caplog)) == 1
    assert actor.act([replace(want(8192, 4096), shown=True)]).released == ("peer0",)
    assert site.weight("docker/p") == 100
    actor.look_at([COMPONENT], {"docker/p": PLACE})
    actor.act([want(4096)])
    lever.taken = Taken(frozenset({"peer0"}), release=("docker/p",))
    with refused(site, monkeypatch):
        actor.act([want(4096, 4096)])
    lever.taken = Taken(frozenset({"peer0"}))  # it is named once
    actor.act([want(4096, 4096)])
    assert site.weight("docker/p") == 100
