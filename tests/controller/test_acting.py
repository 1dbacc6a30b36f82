"""The loop acts at the level that counts: ancestors are raised, journalled and restored like any other group."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from owed_site import OUTSIDE, OWED, make
from toy_daemon import ToySite, peer

from qioi.commands.explain import lines
from qioi.controller.levers.lever import Identity
from qioi.kernel.errors import CgroupError
from qioi.model import LeaderChange
from qioi.show.explain import explain
from qioi.show.footnotes import raised_above
from qioi.show.metrics import render
from qioi.show.snapshot import ComponentState


def test_interferers_outside_are_met_at_the_group_they_stand_beside(tmp_path: Path) -> None:
    site = make(tmp_path)
    site.toy.used = OUTSIDE
    site.run(2)
    assert site.weight("docker") == 400
    assert (site.weight("docker/p"), site.weight("docker/o")) == (100, 100)
    assert (site.component("peer0").share, site.component("peer0").original) == (4096, 1024)
    document = explain(site.snapshot, "peer0", site.hierarchy)
    assert document.acted_at == ("docker",)
    shown = site.snapshot.document()
    (said,) = raised_above(shown)
    assert said.startswith("Raised is docker (components in it: 2), since work of others runs outside of it")
    for one in shown["components"]:
        one["share"] = one["original"]
    assert list(raised_above(shown)) == []
    assert [level.acted for level in document.levels] == [False, True]
    assert document.levels[1].foreign == pytest.approx(1.8)
    assert dict(lines(document))["acts at"].startswith("docker: foreign work of 1.8 CPUs")
    assert 'qioi_component_acted_at{component="peer0",group="docker",role="peer"} 1.0' in render(site.snapshot).decode()
    assert json.loads((tmp_path / "state" / "journal").read_text().splitlines()[-1].partition(" ")[2])
    site.guard.restore()
    assert site.weight("docker") == 100


def test_one_ancestor_of_several_gets_the_most_that_any_of_them_needs(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p", "red"), peer("peer1", "docker/q", "blue")],
                   channels={"red": {"threshold": 100, "law": "proportional"},
                             "blue": {"threshold": 100, "law": "proportional"}})  # fmt: skip
    site.toy.used = {"": 2.0, "docker": 0.2, "docker/p": 0.1, "docker/q": 0.1}
    site.toy.tps = {"red": 75.0, "blue": 50.0}
    site.run(1)
    assert site.weight("docker") == 300  # blue's, which asks for more than red's 200
    site.toy.tps = {"red": 0.0, "blue": 50.0}
    site.run(1)
    assert site.weight("docker") == 500


def test_a_line_about_an_ancestor_names_a_few_of_those_it_is_raised_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = range(10, 22)
    site = ToySite(tmp_path, [peer(f"peer{one}", f"docker/p{one}") for one in reversed(numbers)], channels=OWED)
    site.toy.used = {"": 2.0, "docker": 0.2, **{f"docker/p{one}": 0.01 for one in numbers}}
    site.toy.tps = {"red": 25.0}
    with caplog.at_level("INFO", "qioi"):
        site.run(2)
    (line,) = [one for one in caplog.messages if one.startswith("docker (for")]
    assert line.startswith("docker (for peer10, peer11, peer12, peer13, peer14 and 7 more): raised: ")


def test_a_line_about_a_group_says_what_that_group_had(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not what was in force before, which another level may have been the reason of."""
    site = make(tmp_path)
    site.toy.used = OUTSIDE
    site.run(2)
    assert site.weight("docker") == 400
    site.toy.used = {"": 4.0, "docker": 2.2, "docker/p": 0.1, "docker/o": 0.1}
    with caplog.at_level("INFO", "qioi"):
        site.run(5)
    assert site.weight("docker/p") == 400
    (line,) = [one for one in caplog.messages if one.startswith("peer0:")]
    assert line.startswith("peer0: raised: 1024 -> 4096: ")


def test_an_ancestor_is_raised_by_the_waiting_at_its_own_level_alone(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}})
    # Most of the foreign work is beside the peer in docker, some is beside docker.
    site.toy.used = {"": 1.7, "docker": 1.1, "docker/p": 0.2}
    site.toy.tps, site.toy.waits = {"red": 50.0}, {"peer0": (0.2, 0.15)}
    site.run(10)
    assert site.component("peer0").placement.groups == ("docker/p", "docker")
    assert (site.weight("docker/p"), site.weight("docker")) == (1600, 100)
    assert site.component("peer0").share == 16384
    site.toy.waits = {"peer0": (0.2, 0.4)}
    site.run(1)
    assert 100 < site.weight("docker") <= 800  # one step
    # Beside docker there is nobody any more, in it they stay: docker goes back, the peer does not.
    site.toy.used, site.toy.waits = {"": 2.0, "docker": 2.0, "docker/p": 0.2}, {"peer0": (0.2, 0.1)}
    site.run(60)
    assert (site.weight("docker/p"), site.weight("docker")) == (1600, 100)
    assert site.component("peer0").placement.groups == ("docker/p",)


def test_an_ancestor_alone_gives_what_its_level_asks_for_and_nothing_winds_up(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}})
    site.toy.used = {"": 0.6, "docker": 0.2, "docker/p": 0.2}
    site.toy.tps, site.toy.waits = {"red": 50.0}, {"peer0": (0.2, 0.2)}  # the host knows of more than its groups
    site.run(10)
    state = site.component("peer0")
    assert state.placement.groups == ("docker",)
    assert state.wanted == state.share == 1024
    assert "docker by the waiting at its own level" in state.reason
    assert site.snapshot.totals.decisions <= 10
    before = site.snapshot.totals.decisions
    site.toy.waits = {"peer0": (0.2, 0.0)}
    site.run(5)
    assert site.snapshot.totals.decisions == before
    assert site.weight("docker") == 100


@pytest.mark.parametrize(("sent_to", "holds"), [((), True), (("blue",), False)])
def test_an_ancestor_holds_what_it_has_while_nobody_sends_to_what_is_in_it(
    tmp_path: Path, sent_to: tuple[str, ...], holds: bool
) -> None:
    channels = {name: {"threshold": 100} for name in ("red", "blue")}
    peers = [peer("peer0", "docker/p"), peer("peer1", "docker/q", "blue")]
    site = ToySite(tmp_path, peers, channels=channels)
    site.toy.used = {**OUTSIDE, "docker/q": 0.1}
    site.toy.waits, site.toy.tps = dict.fromkeys(("peer0", "peer1"), (0.1, 0.9)), dict.fromkeys(channels, 50.0)
    site.run(6)
    raised = site.weight("docker")
    assert raised > 400
    site.toy.waits = dict.fromkeys(("peer0", "peer1"), (0.004, 0.0001))
    site.toy.tps, site.toy.ages = (
        dict.fromkeys(channels, 100.0),
        {name: 60.0 for name in channels if name not in sent_to},
    )
    site.run(1200)
    assert (site.weight("docker") == raised) is holds


def test_a_lost_leader_raises_the_group_above_its_orderer_though_nothing_is_committed(tmp_path: Path) -> None:
    parts = [peer("peer0", "docker/p"), peer("o", "docker/o", role="orderer")]
    site = ToySite(tmp_path, parts, channels={"red": {"threshold": 100}})
    site.toy.used, site.toy.waits = dict(OUTSIDE), dict.fromkeys(("peer0", "o"), (0.002, 0.01))
    site.toy.tps, site.toy.ages = {"red": 0.0}, {"red": 60.0}
    site.run(15)
    assert site.weight("docker") == 100
    site.toy.elections = [LeaderChange(1, 0, None, "red", "o")]
    site.run(5)
    assert site.weight("docker") == 200


def test_an_ancestor_is_let_go_of_when_the_level_is_another_one(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}})
    site.toy.used, site.toy.tps, site.toy.waits = OUTSIDE, {"red": 50.0}, {"peer0": (0.1, 0.9)}
    site.run(2)
    raised = site.weight("docker")
    assert raised > 100
    site.toy.tps, site.toy.waits = {"red": 100.0}, {"peer0": (0.1, 0.0)}
    site.toy.used = {"": 0.1, "docker": 0.1, "docker/p": 0.1}
    site.toy.host = type(site.toy.host)(0.9, 0.0)
    site.run(60)
    assert site.component("peer0").share == 1024
    site.toy.used, site.toy.tps, site.toy.waits = (
        {"": 2.0, "docker": 2.0, "docker/p": 0.1},
        {"red": 50.0},
        {"peer0": (0.1, 0.9)},
    )
    site.toy.host = type(site.toy.host)(0.0, 0.9)
    site.run(3)
    assert site.weight("docker") == 100
    assert site.weight("docker/p") > 100


def test_an_ancestor_that_cannot_be_let_go_of_is_said_once_and_tried_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site = make(tmp_path)
    site.toy.used = OUTSIDE
    site.run(1)
    assert site.weight("docker") == 400

    def refuse(path: str, value: int, identity: Identity) -> None:
        raise CgroupError("refused")

    monkeypatch.setattr(site.guard._lever.access, "write", refuse)
    with caplog.at_level(logging.INFO, "qioi"):
        for _ in range(5):
            site.daemon._actor.act(())
    assert len([one for one in caplog.messages if one.startswith("docker: let go: failed")]) == 1
    monkeypatch.undo()
    with caplog.at_level(logging.INFO, "qioi"):
        site.daemon._actor.act(())
    assert site.weight("docker") == 100
    assert [one for one in caplog.messages if one.startswith("docker: let go: ok")]


def test_an_ancestor_that_somebody_else_sets_is_left_alone(tmp_path: Path) -> None:
    site = make(tmp_path)
    site.toy.used = OUTSIDE
    site.run(1)
    (site.hierarchy.mount / "docker" / "cpu.weight").write_text("777\n")
    site.run(2)
    assert site.weight("docker") == 777
    assert "docker's share" in str(site.component("peer0").problem)
    assert site.snapshot.totals.writes["foreign"] == 1
    site.guard.restore()
    assert site.weight("docker") == 777


def interference(site: ToySite, lasts: bool) -> None:
    """Have foreign work outside of the components' parent, or within it."""
    site.toy.used = OUTSIDE if lasts else {**OUTSIDE, "docker": 2.0}
    site.run(60)


@pytest.mark.parametrize("seen", [True, False])
def test_an_ancestor_that_somebody_else_has_set_is_left_alone_in_the_next_interference_too(
    tmp_path: Path, seen: bool
) -> None:
    """Also where nobody looks at it between the setting and the end of the interference."""
    site = make(tmp_path)
    interference(site, True)
    assert site.weight("docker") == 400
    (site.hierarchy.mount / "docker/cpu.weight").write_text("777")
    if seen:
        site.run(2)
    for lasts in (False, True, False, True):
        interference(site, lasts)
        assert site.weight("docker") == 777
    assert site.component("peer0").taken == ("docker",)
    interference(site, False)
    site.daemon.take_up("peer0")  # the way back works in a calm, too
    interference(site, True)
    assert site.weight("docker") == 3108
    site.guard.restore()
    assert site.weight("docker") == 777


def test_an_ancestor_that_somebody_else_has_set_is_forgotten_when_it_is_removed(tmp_path: Path) -> None:
    site = make(tmp_path)
    interference(site, True)
    (site.hierarchy.mount / "docker/cpu.weight").write_text("777")
    interference(site, False)
    assert site.guard.is_foreign("docker")
    shutil.rmtree(site.hierarchy.mount / "docker")
    site.run(1)
    assert not site.guard.holds("docker")
    assert not site.guard.is_foreign("docker")


def test_a_component_that_left_and_came_back_keeps_the_share_that_somebody_else_has_set(tmp_path: Path) -> None:
    site = make(tmp_path)
    site.run(2)
    (site.hierarchy.mount / "docker/p/cpu.weight").write_text("777")
    site.run(2)
    both, config = site.config, replace(site.config, components=site.config.components[1:])
    for adopted in (config, both):
        site.snapshot = site.daemon.adopt(adopted, site.snapshot)
        site.run(2)
        assert site.weight("docker/p") == 777
    site.snapshot = site.daemon.adopt(config, site.snapshot)
    shutil.rmtree(site.hierarchy.mount / "docker/p")
    site.run(1)
    assert not site.guard.holds("docker/p")


def test_an_ancestor_without_a_weight_is_said_and_the_own_group_stays(tmp_path: Path) -> None:
    site = make(tmp_path)
    (site.hierarchy.mount / "docker" / "cpu.weight").unlink()
    site.toy.used = OUTSIDE
    site.run(2)
    assert "cannot act at docker" in str(site.component("peer0").problem)
    assert site.component("peer0").share == 1024


def test_an_ancestor_whose_weight_cannot_be_read_any_longer_hides_no_component(tmp_path: Path) -> None:
    """Its group is there, and may be acted at; the law goes on."""
    site = make(tmp_path)
    site.toy.used = OUTSIDE
    site.run(2)
    weight = site.hierarchy.mount / "docker" / "cpu.weight"
    raised = weight.read_text()
    weight.unlink()
    state = site.run(2).components[0]
    assert (state.share, state.channel) == (1024, "red")
    assert "docker has no cpu.weight" in str(state.problem)
    weight.write_text(raised)
    assert site.run(2).components[0].problem is None
    site.guard.restore()
    assert weight.read_text().strip() == "100"


def test_what_somebody_sets_before_we_do_is_the_original(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}})
    site.toy.tps, site.toy.waits = {"red": 100.0}, {"peer0": (0.1, 0.0)}
    site.run(3)
    (site.hierarchy.mount / "docker/p" / "cpu.weight").write_text("300\n")
    site.run(3)
    assert site.weight("docker/p") == 300


def test_who_is_not_decided_about_any_more_shows_no_decision(tmp_path: Path) -> None:
    site = make(tmp_path)
    site.run(2)
    assert site.component("peer0").channel == "red"
    site.snapshot = site.daemon.adopt(replace(site.config, policies={}), site.snapshot)
    state = site.run(1).components[0]
    assert state.reason == "no policy raises a peer that serves red"
    assert (state.previous, state.channel, state.error, state.working) == (None, None, None, None)


def test_a_default_below_what_was_found_lowers_no_group_of_others(tmp_path: Path) -> None:
    channels = {"red": {"threshold": 100, "law": "proportional", "default": 512, "floor": 512}}
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels=channels)
    site.toy.used, site.toy.tps = {"": 2.0, "docker": 0.2, "docker/p": 0.1}, {"red": 100.0}
    site.run(2)
    assert (site.weight("docker"), site.weight("docker/p")) == (100, 50)
    decided = site.snapshot.totals.decisions
    site.run(3)
    assert site.snapshot.totals.decisions == decided  # that is how it is to be
    site.toy.tps = {"red": 10.0}
    site.run(2)
    assert site.weight("docker") == 230


@pytest.mark.parametrize(("used", "group"), [({}, "docker/p"), (OUTSIDE, "docker")])
def test_what_is_as_near_to_the_wish_as_the_kernels_unit_allows_is_not_decided_again(
    tmp_path: Path, used: dict[str, float], group: str
) -> None:
    """A weight of 100 can't stand for 1500 shares of 1024, nor for most others."""
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 1000, "law": "proportional"}})
    site.toy.used, site.toy.tps = used, {"red": 883.8}
    site.run(2)
    assert site.component("peer0").wanted == 1500
    assert site.component("peer0").share == 1495
    assert site.weight(group) == 146
    before = site.snapshot.totals
    site.run(5)
    assert (site.snapshot.totals.decisions, site.snapshot.totals.writes) == (before.decisions, before.writes)


def test_a_group_that_went_takes_all_that_was_known_of_it_along(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site = make(tmp_path)
    site.toy.waits = {"peer0": (0.1, 0.9), "orderer0": (0.1, 0.9)}
    site.run(2)
    assert site.component("peer0").waiting_share is not None
    for file in (site.hierarchy.mount / "docker/p").iterdir():
        file.unlink()
    (site.hierarchy.mount / "docker/p").rmdir()
    del site.toy.waits["peer0"]
    site.run(1)
    state = site.component("peer0")
    assert state == ComponentState("peer0", "peer", "docker/p", reason=state.reason, problem=state.problem)
    assert 'qioi_component_waiting_ratio{component="peer0"' not in render(site.snapshot).decode()
    config = replace(site.config, components=site.config.components[1:])
    with caplog.at_level(logging.INFO, "qioi"):
        site.snapshot = site.daemon.adopt(config, site.snapshot)
    assert not [one for one in caplog.messages if "well again" in one]
