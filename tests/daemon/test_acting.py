"""The loop acts at the level that counts: ancestors are raised, journalled and restored like any other group."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from running import Site, end
from toy_daemon import ToySite, peer
from waiting import DIES_WITH_TEST, until

from qioi.commands.explain import lines
from qioi.daemon.level_watch import LevelWatch
from qioi.kernel.cpu_accounts import CpuAccounts, find_cpu_accounts
from qioi.kernel.errors import CgroupError
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Component, DelayReading, Role
from qioi.show.explain import explain
from qioi.show.footnotes import raised_above
from qioi.show.metrics import render
from qioi.show.snapshot import ComponentState

#: T is far above what is committed: `proportional` then wants 4 times its default, and a bit.
OWED = {"red": {"threshold": 100, "law": "proportional"}}


def make(folder: Path, **channels: dict[str, object]) -> ToySite:
    site = ToySite(folder, [peer("peer0", "docker/p"), peer("orderer0", "docker/o", role="orderer")],
                   channels={**OWED, **channels})  # fmt: skip
    site.toy.tps = {"red": 25.0}
    return site


OUTSIDE = {"": 2.0, "docker": 0.2, "docker/p": 0.1, "docker/o": 0.1}


def test_interferers_outside_are_met_at_the_group_they_stand_beside(tmp_path: Path) -> None:
    site = make(tmp_path)
    site.toy.used = OUTSIDE
    site.run(2)
    assert site.weight("docker") == 400
    assert (site.weight("docker/p"), site.weight("docker/o")) == (100, 100)
    assert (site.component("peer0").share, site.component("peer0").original) == (4096, 1024)
    document = explain(site.snapshot, "peer0", site.hierarchy)
    assert document["acted_at"] == ["docker"]
    shown = site.snapshot.document()
    (said,) = raised_above(shown)
    assert said.startswith("Raised is docker (components in it: 2), since foreign work runs outside of it")
    for one in shown["components"]:
        one["share"] = one["original"]
    assert list(raised_above(shown)) == []
    assert [level["acted"] for level in document["levels"]] == [False, True]
    assert document["levels"][1]["foreign"] == pytest.approx(1.8)
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

    def refuse(path: str, value: int) -> None:
        raise CgroupError("refused")

    monkeypatch.setattr(site.guard._lever.access, "write", refuse)
    with caplog.at_level(logging.INFO, "qioi"):
        for _ in range(5):
            site.daemon._actor._put_back(["docker"])
    assert len([one for one in caplog.messages if one.startswith("docker: let go: failed")]) == 1
    monkeypatch.undo()
    with caplog.at_level(logging.INFO, "qioi"):
        site.daemon._actor._put_back(["docker"])
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


def test_an_ancestor_without_a_weight_is_said_and_the_own_group_stays(tmp_path: Path) -> None:
    site = make(tmp_path)
    (site.hierarchy.mount / "docker" / "cpu.weight").unlink()
    site.toy.used = OUTSIDE
    site.run(2)
    assert "cannot act at docker" in str(site.component("peer0").problem)
    assert site.component("peer0").share == 1024


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


def test_what_is_as_near_to_the_wish_as_the_kernels_unit_allows_is_not_decided_again(tmp_path: Path) -> None:
    """A weight of 100 can't stand for 1500 shares of 1024, nor for most others."""
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 1000, "law": "proportional"}})
    site.toy.tps = {"red": 883.8}
    site.run(2)
    assert site.component("peer0").wanted == 1500
    assert site.component("peer0").share == 1495  # a weight of 146
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


def test_a_dry_run_touches_no_level(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels=OWED, dry_run=True)
    site.toy.tps, site.toy.used = {"red": 25.0}, OUTSIDE
    site.run(2)
    assert (site.weight("docker"), site.weight("docker/p")) == (100, 100)
    assert site.component("peer0").wanted == 4096


def test_a_dry_run_says_once_what_it_would_set(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels=OWED, dry_run=True)
    with caplog.at_level(logging.INFO, logger="qioi"):
        for tps in (50.0, 49.0, 51.0, 25.0, 99.99, 99.99):
            site.toy.tps = {"red": tps}
            site.run(2)
    assert [one.getMessage() for one in caplog.records] == [
        "peer0: dry run: would set 1024 -> 3072: A 50.0 < T 100.0 tps, 1024 + 1024*4*0.500: raised",
        "peer0: dry run: would set 1024 -> 4096: A 25.0 < T 100.0 tps, 1024 + 1024*4*0.750: raised",
        "peer0: dry run: would set 1024 -> 1024: A 100.0 < T 100.0 tps, 1024 + 1024*4*0.000: raised",
    ]


def test_a_dry_run_says_it_again_of_a_component_that_has_come_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels=OWED, dry_run=True)
    site.toy.tps = {"red": 50.0}
    group = site.hierarchy.mount / "docker/p"
    away = group.with_name("away")
    with caplog.at_level(logging.INFO, logger="qioi"):
        site.run(2)
        group.rename(away)
        site.run(1)
        away.rename(group)
        site.run(2)
    assert len([one for one in caplog.messages if "dry run: would set 1024 -> 3072" in one]) == 2


def test_a_cap_bounds_all_boosts_together_by_priority(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "g/p", "red"), peer("peer1", "g/q", "blue")], boost_cap=0.75,
                   channels={"red": {"threshold": 100, "law": "proportional", "priority": 1},
                             "blue": {"threshold": 100, "law": "proportional"}})  # fmt: skip
    site.group("g/neighbour", 200)
    site.group("g/idle", 9000)
    site.toy.tps = {"red": 25.0, "blue": 25.0}
    busy = 0
    for group in ("", "g", "g/p", "g/q", "g/neighbour", "g/idle"):
        (site.hierarchy.mount / group / "cpu.stat").write_text("usage_usec 0\n")
    for _ in range(3):
        busy += 1_000_000
        for group in ("", "g", "g/p", "g/q", "g/neighbour"):
            (site.hierarchy.mount / group / "cpu.stat").write_text(f"usage_usec {busy}\n")
        site.run(1)
    assert site.weight("g/p") == 400
    assert 100 < site.weight("g/q") < 250  # (400 + q) / (400 + q + 200) = 0.75 at 200
    assert site.snapshot.boosts is not None
    assert site.snapshot.boosts.part <= 0.75
    assert "boost_cap 0.75 leaves" in site.component("peer1").reason
    assert "boost_cap" not in site.component("peer0").reason
    assert "at most 75%" in dict(lines(explain(site.snapshot, "peer1", site.hierarchy)))["cap"]
    assert "qioi_boosts_cap_ratio 0.75" in render(site.snapshot).decode()
    site.toy.tps = {"red": 100.0, "blue": 100.0}
    site.guard.restore()


def test_a_group_that_is_somebody_elses_holds_nothing_of_the_cap(tmp_path: Path) -> None:
    """What the law wants for it is not given to it."""
    site = ToySite(tmp_path, [peer("peer0", "g/p", "red"), peer("peer1", "g/q", "red")], boost_cap=0.75, channels=OWED)
    site.group("g/neighbour", 200)
    site.toy.tps = {"red": 25.0}
    site.run(1)
    assert site.weight("g/q") < 400
    (site.hierarchy.mount / "g/p/cpu.weight").write_text("10\n")
    site.run(3)
    assert (site.weight("g/p"), site.weight("g/q")) == (10, 400)  # of 610
    assert site.snapshot.boosts is not None
    assert site.snapshot.boosts.part == pytest.approx(400 / 610)


def test_without_a_raised_share_a_cap_looks_at_nothing(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "g/p")], boost_cap=0.5, channels=OWED)
    site.toy.tps = {"red": 100.0}
    site.run(1)
    assert site.snapshot.boosts is not None
    assert site.snapshot.boosts.part == 0


@contextmanager
def burner(hierarchy: Hierarchy, path: str) -> Iterator[None]:
    """A busy loop in a real group, which stands in every hierarchy that accounts for it."""
    process = subprocess.Popen([*DIES_WITH_TEST, sys.executable, "-c", "while True: pass"])
    try:
        for mount in mounts(hierarchy):
            (mount / path).mkdir(parents=True, exist_ok=True)
            (mount / path / "cgroup.procs").write_text(str(process.pid))
        yield
    finally:
        process.kill()
        process.wait()


def mounts(hierarchy: Hierarchy) -> set[Path]:
    return {hierarchy.mount, find_cpu_accounts(hierarchy) or hierarchy.mount}


def sweep(hierarchy: Hierarchy, *paths: str) -> None:
    for mount in mounts(hierarchy):
        for path in paths:
            if (mount / path).is_dir():
                until(lambda folder=mount / path: not (folder / "cgroup.procs").read_text())  # type: ignore[misc]
                (mount / path).rmdir()


@pytest.mark.slow
@pytest.mark.parametrize("outside", [True, False])
def test_real_busy_loops_show_the_level(site: Site, outside: bool) -> None:
    """A component in engine/peer, a busy loop beside `engine` or beside `engine/peer`."""
    engine = f"{site.parent}/engine"
    # Its part of a CPU, whatever else runs on this host: else the most foreign work by far is beside the test itself.
    (site.hierarchy.folder(site.parent) / site.hierarchy.file).write_text(
        "262144" if site.hierarchy.version == 1 else "10000"
    )
    site.hierarchy.folder(engine).mkdir()
    if site.hierarchy.version == 2:
        (site.hierarchy.folder(engine) / "cgroup.subtree_control").write_text("+cpu")
    component = f"{engine}/peer"
    foreign = f"{site.parent}/outsider" if outside else f"{engine}/insider"
    site.hierarchy.folder(component).mkdir()
    for mount in mounts(site.hierarchy):
        (mount / component).mkdir(parents=True, exist_ok=True)
    site.components.append(
        {"name": "peer0", "role": "peer", "cgroup": component, "channels": ["red"], "log": str(site.log)}
    )
    weight = site.hierarchy.folder(engine if outside else component) / site.hierarchy.file
    other = site.hierarchy.folder(component if outside else engine) / site.hierarchy.file
    originals = weight.read_text(), other.read_text()
    try:
        with burner(site.hierarchy, foreign):
            process = site.start()
            site.commit_until(lambda: weight.read_text() != originals[0])
            assert other.read_text() == originals[1]
            said = site.qioi("explain", "peer0", "--socket", str(site.socket), "--output", "json").stdout
            # Whatever else runs on this host may be another level, farther out.
            assert json.loads(said)["acted_at"][0] == (engine if outside else component)
            assert (component if outside else engine) not in json.loads(said)["acted_at"]
            assert end(process)[0] == 0
        assert (weight.read_text(), other.read_text()) == originals
    finally:
        for one in site.processes:
            if one.poll() is None:
                one.kill()
                one.wait()
        sweep(site.hierarchy, foreign, component, engine)
        for mount in mounts(site.hierarchy) - {site.hierarchy.mount}:
            (mount / site.parent).rmdir()


def test_cpu_time_is_read_where_the_host_accounts_for_it(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "30 20 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n31 20 0:2 / /x/acct rw - cgroup cgroup rw,cpuacct\n"
    )
    assert find_cpu_accounts(Hierarchy(1, tmp_path), table) == Path("/x/acct")
    assert find_cpu_accounts(Hierarchy(2, tmp_path), table) == tmp_path
    table.write_text("30 20 0:1 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n")
    assert find_cpu_accounts(Hierarchy(1, tmp_path), table) is None


@pytest.mark.parametrize(
    ("version", "file", "text"), [(1, "cpuacct.usage", "%d000"), (2, "cpu.stat", "usage_usec %d\nuser_usec 1\n")]
)
def test_levels_are_found_from_the_kernels_accounts(tmp_path: Path, version: int, file: str, text: str) -> None:
    one = Component("p", Role.PEER, "docker/p")
    watch = LevelWatch(CpuAccounts(version, tmp_path))
    (tmp_path / "docker").mkdir()

    def account(host: int, docker: int) -> None:
        (tmp_path / file).write_text(text % host)
        (tmp_path / "docker" / file).write_text(text % docker)

    delays = {"p": DelayReading("p", 0.1, 0.0, 10, 1.0)}
    account(1_000_000, 1_000_000)
    assert "not known" in watch.read(10.0, [one], delays, [])["docker/p"].why
    account(2_900_000, 1_100_000)
    assert watch.read(11.0, [one], delays, [])["docker/p"].groups == ("docker",)
    (tmp_path / file).write_text("what\n")
    assert watch.read(12.0, [one], delays, [])["docker/p"].groups == ("docker/p",)
    assert "not known" in LevelWatch(CpuAccounts(version, None)).read(1.0, [one], delays, [])["docker/p"].why


def test_what_is_much_is_told_by_the_processors_that_are_there_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual machine may be given more while it runs."""
    watch, one = LevelWatch(CpuAccounts(1, tmp_path)), Component("p", Role.PEER, "docker/p")
    delays, levels = {"p": DelayReading("p", 0.1, 0.0, 10, 1.0)}, []
    (tmp_path / "docker").mkdir()
    for second, cpus in enumerate((2, 2, 64)):
        monkeypatch.setattr(os, "cpu_count", lambda cpus=cpus: cpus)
        (tmp_path / "cpuacct.usage").write_text(f"{second * 500_000_000}\n")  # 0.4 CPUs beside docker
        (tmp_path / "docker/cpuacct.usage").write_text(f"{second * 100_000_000}\n")
        levels.append(watch.read(float(second), [one], delays, [])["docker/p"].groups)
    assert levels[1:] == [("docker",), ("docker/p",)]


def test_a_component_that_is_down_hides_no_level_from_the_others(tmp_path: Path) -> None:
    """It uses nothing; and one that has just begun, of which nothing is known yet, changes nothing."""
    watch = LevelWatch(CpuAccounts(1, tmp_path))
    here, down, new = (Component(name, Role.PEER, f"docker/{name}") for name in ("p", "down", "new"))
    delays = {"p": DelayReading("p", 0.1, 0.0, 10, 1.0)}

    def account(second: int) -> None:
        for group, cores in {"": 2.0, "docker": 0.1, "docker/p": 0.1}.items():
            (tmp_path / group).mkdir(exist_ok=True)
            (tmp_path / group / "cpuacct.usage").write_text(f"{round(second * cores * 1e9)}\n")

    for second in range(3):
        account(second)
        placed = watch.read(float(second), [here, down], delays, [])
    assert placed["docker/p"].groups == ("docker",)
    (tmp_path / "docker/new").mkdir()
    (tmp_path / "docker/new/cpuacct.usage").write_text("5000000000\n")
    account(3)
    assert watch.read(3.0, [here, down, new], delays, [])["docker/p"].groups == ("docker",)
