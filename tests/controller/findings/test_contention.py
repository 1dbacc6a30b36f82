"""Channels that keep each other back: the one below its T is raised against the one above; and all against a burner."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace
from toy_daemon import ToySite, peer
from toy_host import ToyHost
from toy_tenants import FULL, PARTS, ROOM, in_force, period, pins, step, tenants_run, wanted

from qioi.controller.findings.contention import Contention
from qioi.controller.laws.room import ROOM_FOR
from qioi.controller.laws.thresholds import Threshold
from qioi.controller.levels.steps import KEPT
from qioi.controller.period import Period
from qioi.model import ChannelReading, Component, DelayReading, HostLoad, Role
from qioi.settings.config import load_config


def seen(*args: Period, burning: tuple[str, ...] = ()) -> dict[str, float]:
    contention = Contention(cpus=2)
    rivals = [step(contention, one, burning) for one in args][-1]
    assert not rivals.limits  # no share in force is known
    return {name: round(load.foreign, 3) for name, load in rivals.loads.items()}


def test_what_the_other_tenant_uses_is_foreign_to_the_one_below_its_threshold() -> None:
    assert seen(period(50.0, 150.0)) == {"red0": 0.4}
    assert seen(period(150.0, 50.0)) == {"blue0": 0.4}
    assert seen(period(50.0, 100.0)) == {"red0": 0.4}  # just what it is owed
    moment = HostLoad(0.5, 0.0, lasting=FULL)
    assert seen(period(50.0, 150.0, moment)) == {"red0": 0.4}  # room for a moment is none


@pytest.mark.parametrize(
    "one",
    [
        period(50.0, 150.0, ROOM),
        period(50.0, 150.0, None),
        period(50.0, 60.0),  # both are below theirs: nobody has more than it is owed
        period(150.0, 150.0),
        period(50.0, 97.0),  # that one has nothing to give
        period(50.0, 150.0, HostLoad(0.0, 0.5)),  # foreign work comes first
        period(50.0, None),
        period(50.0, 150.0, source="auto"),  # a T that was learned: nobody has stated it
    ],
)
def test_where_nobody_is_kept_back_by_a_tenant_that_has_its_own(one: Period) -> None:
    assert seen(one) == {}


@pytest.mark.parametrize(("presumed", "names"), [((), set()), (("red",), {"red0"})])
def test_an_idle_channel_is_kept_from_nothing_and_a_starved_one_is(presumed: tuple[str, ...], names: set[str]) -> None:
    one = period(0.0, 150.0)
    silent = {**one.channels, "red": ChannelReading("red", 0.0, 60.0)}
    assert step(Contention(cpus=2), replace(one, channels=silent), (), presumed).loads.keys() == names


def test_what_was_raised_against_a_tenant_is_held_until_there_is_room() -> None:
    assert seen(period(50.0, 150.0), period(100.0, 99.0)) == {"red0": 0.04}
    assert seen(period(50.0, 150.0), period(90.0, 80.0)) == {"red0": 0.04}
    room = replace(period(50.0, 150.0, ROOM), now=ROOM_FOR)
    assert seen(period(50.0, 150.0), room) == {}
    assert seen(period(50.0, 150.0), room, replace(period(100.0, 99.0), now=ROOM_FOR + 1)) == {}
    gone = replace(period(100.0, 99.0), components=PARTS[1:])
    assert seen(period(50.0, 150.0), gone) == {}


@pytest.mark.parametrize("host", [None, ROOM, HostLoad(0.5, 0.0, lasting=HostLoad(0.02, 0.0))])
def test_a_moment_of_room_or_of_an_unknown_host_lets_go_of_nothing(host: HostLoad | None) -> None:
    moments = [replace(period(100.0, 99.0, host), now=now) for now in (1.0, 2.0)]
    full = replace(period(100.0, 99.0), now=ROOM_FOR)
    again = [replace(one, now=one.now + ROOM_FOR) for one in (*moments, full)]
    assert seen(period(50.0, 150.0), *moments, full, *again) == {"red0": 0.04}
    assert seen(period(50.0, 150.0), *moments) == ({"red0": 0.04} if host else {})


def test_a_burner_is_a_neighbour_to_all_others() -> None:
    assert seen(period(100.0, 100.0), burning=("blue0",)) == {"red0": 0.4, "both": 0.4}


@pytest.mark.parametrize(
    ("mine", "theirs", "foreign"),
    [
        ({0, 1}, {0, 1}, 0.5),  # it has one of these two CPUs
        ({0, 1}, {1, 2, 3}, 1 / 6),
        ({0, 1}, {2, 3}, None),
        ({0, 1}, (), 1 / 64),  # anywhere, like the host's other work
        ((), {0, 1}, 1 / 64),
        ((), (), 1 / 64),
    ],
)
def test_a_burner_counts_by_what_it_uses_of_the_cpus_that_one_may_run_on(
    mine: Iterable[int], theirs: Iterable[int], foreign: float | None
) -> None:
    host = replace(FULL, pinned={"red0": FULL} if mine else {})
    one = replace(period(100.0, 100.0, host), cpus=pins(red0=mine, blue0=theirs))
    delays = {**one.delays, "blue0": DelayReading("blue0", 1.0, 0.8, 10, 1.0)}
    load = step(Contention(cpus=64), replace(one, delays=delays), ("blue0",)).loads.get("red0")
    assert (load and load.foreign) == (foreign and pytest.approx(foreign))


def test_cpus_that_come_while_the_daemon_runs_count(monkeypatch: pytest.MonkeyPatch) -> None:
    contention, foreign = Contention(), []
    for cpus in (2, 8):
        monkeypatch.setattr(os, "cpu_count", lambda cpus=cpus: cpus)
        foreign.append(step(contention, period(50.0, 150.0)).loads["red0"].foreign)
    assert foreign == pytest.approx([0.8 / 2, 0.8 / 8])


def test_a_tenant_counts_where_the_one_below_its_threshold_may_run() -> None:
    """It fills the two CPUs of it; the others of the host are free."""
    for theirs, foreign in (({0, 1}, 0.4), ({2, 3}, None)):
        one = period(50.0, 150.0, HostLoad(0.9, 0.0, pinned={"red0": FULL}))
        loads = step(Contention(cpus=64), replace(one, cpus=pins(red0={0, 1}, blue0=theirs)), ()).loads
        assert {name: round(load.foreign, 3) for name, load in loads.items()} == ({"red0": foreign} if foreign else {})


@pytest.mark.parametrize("cpus", [HostLoad(0.5, 0.0), HostLoad(0.0, 0.5)])
def test_room_and_foreign_work_on_the_cpus_of_a_component_are_no_tenants(cpus: HostLoad) -> None:
    """A tenant with more than it is owed keeps nobody back there, though the host is full."""
    assert seen(replace(period(50.0, 150.0, HostLoad(0.0, 0.0, pinned={"red0": cpus})), cpus=pins(red0={0}))) == {}


def test_what_was_raised_is_held_until_its_own_cpus_have_room() -> None:
    its = HostLoad(0.9, 0.0, pinned={"red0": FULL})
    begun = replace(period(50.0, 150.0, its), cpus=pins(red0={0, 1}, blue0={0, 1}))
    later = replace(begun, now=ROOM_FOR, channels=period(100.0, 99.0).channels)
    assert seen(begun, later) == {"red0": 0.04}
    unknown = replace(later, now=ROOM_FOR + 1.0, host=HostLoad(0.9, 0.0))  # what of its CPUs is not known for a moment
    assert seen(begun, later, unknown, replace(later, now=ROOM_FOR + 2.0)) == {"red0": 0.04}
    room = replace(later, now=2 * ROOM_FOR, host=HostLoad(0.0, 0.0, pinned={"red0": ROOM}))
    assert seen(begun, later, room) == {}


@pytest.mark.parametrize(("burning", "foreign"), [((), 0.45), (("blue1",), 0.45), (("blue0", "blue1"), 0.45)])
def test_what_runs_in_anothers_group_is_counted_once(burning: tuple[str, ...], foreign: float) -> None:
    """blue0's CPU time of 0.9 CPUs has that of blue1, in its group, in it."""
    inside = Component("blue1", Role.CHAINCODE, "g/blue0/inside", ("blue",))
    one = replace(period(50.0, 150.0), components=(*PARTS, inside))
    delays = {
        **one.delays,
        "blue0": DelayReading("blue0", 0.9, 0.8, 10, 1.0),
        "blue1": DelayReading("blue1", 0.5, 0.8, 10, 1.0),
    }
    assert seen(replace(one, delays=delays), burning=burning)["red0"] == foreign
    del delays["blue1"]  # it could not be read
    assert seen(replace(one, delays=delays), burning=burning)["red0"] == foreign


def test_over_a_second_it_counts_as_well() -> None:
    one = period(50.0, 150.0, HostLoad(0.0, 0.02, lasting=HostLoad(0.05, 0.01)))
    load = step(Contention(cpus=2), one, ()).loads["red0"]
    assert load.foreign == pytest.approx(0.42)
    assert load.lasting is not None
    assert load.lasting.foreign == pytest.approx(0.41)


@pytest.mark.parametrize(
    ("one", "burning", "groups"),
    [
        (period(50.0, 150.0), (), {"g/red0": {"g/blue0"}}),
        (period(100.0, 100.0), ("red0",), {"g/blue0": {"g/red0"}, "g/both": {"g/red0"}}),
        (period(50.0, 150.0), ("both",), {"g/red0": {"g/blue0", "g/both"}, "g/blue0": {"g/both"}}),
        (period(100.0, 100.0), (), {}),
    ],
)
def test_the_groups_that_keep_one_back(one: Period, burning: tuple[str, ...], groups: dict[str, set[str]]) -> None:
    kept_back = step(Contention(cpus=2), one, burning).kept_back
    assert {group: by.rivals for group, by in kept_back.items()} == groups
    assert {group for group, by in kept_back.items() if by.by_tenants} == (set() if burning else groups.keys())


@pytest.mark.parametrize(("kept_back", "share"), [(True, 2200), (False, 2000)])
def test_a_share_against_a_tenant_grows_by_a_tenth(kept_back: bool, share: int) -> None:
    """From the second period on, in which the levels at which the two meet are known."""
    one = replace(period(50.0, 200.0), forces={"red0": in_force(2000, kept_back=kept_back)})
    assert step(Contention(cpus=2), one, ()).limits["red0"].allows(2000, 1024) == share


def test_a_weight_that_a_tenth_does_not_move_is_moved_by_several() -> None:
    """Its file takes whole numbers: what was asked for grows, up to the double, until it is another one."""
    one, contention = replace(period(50.0, 200.0), forces={"red0": in_force(10, 10)}), Contention(cpus=2)
    assert [step(contention, one, ()).limits["red0"].most for _ in range(9)] == [11, 12, 13, 15, 16, 18, 19, 20, 20]
    assert step(contention, replace(one, now=KEPT + 1.0), ()).limits["red0"].most == 11


@pytest.mark.parametrize("weight", [1, 3])
def test_tenants_of_the_least_weights_are_raised_too(tmp_path: Path, weight: int) -> None:
    owed = {"red": {"threshold": 100}, "blue": {"threshold": 25}}
    site = ToySite(tmp_path, [peer(f"{name}0", f"g/{name}0/container", name) for name in owed], channels=owed)
    for name in owed:
        (site.hierarchy.mount / f"g/{name}0" / "cpu.weight").write_text(f"{weight}\n")
    host = ToyHost(demand={"red0": 1.2, "blue0": 2.0}, noise=0.0)
    weights = [tenants_run(site, host, "/container") for _ in range(40)]
    assert weights[-1][0] > weight
    assert weights[-1][1] == weight


@pytest.mark.parametrize("weight", [1, 2, 3])
@pytest.mark.parametrize(("red", "blue"), [(60, 40), (56, 43)])
def test_where_no_weight_is_just_right_both_have_theirs_by_turns(
    tmp_path: Path, weight: int, red: int, blue: int
) -> None:
    owed = {"red": {"threshold": red}, "blue": {"threshold": blue}}
    site = ToySite(tmp_path, [peer(f"{name}0", f"g/{name}0/container", name) for name in owed], channels=owed)
    for name in owed:
        (site.hierarchy.mount / f"g/{name}0" / "cpu.weight").write_text(f"{weight}\n")
    host = ToyHost(demand={"red0": 2.0, "blue0": 2.0}, noise=0.0)
    done = [(tenants_run(site, host, "/container", 0.25), site.toy.tps)[1] for _ in range(300)][100:]
    for name, least in (("red", red), ("blue", blue)):
        assert sum(one[name] for one in done) / len(done) >= 0.95 * least


@pytest.mark.parametrize("blue", [40, 48])
@pytest.mark.parametrize("inside", ["", "/container"])
def test_two_tenants_and_nobody_else(tmp_path: Path, blue: int, inside: str) -> None:
    """On two CPUs red would need 1.2 for what it is owed, blue takes all that it gets and is owed ``blue`` of its 100.

    If that is 40 both can have theirs, if it is 48 blue keeps its own. They compete in one group, or as pods do, of
    which each has one container.
    """
    owed = {"red": {"threshold": 100}, "blue": {"threshold": blue}}
    peers = [peer(f"{name}0", f"g/{name}0{inside}", name) for name in owed]
    site = ToySite(tmp_path, peers, channels=owed)
    host = ToyHost(demand={"red0": 1.2, "blue0": 2.0}, noise=0.02)
    weights = [tenants_run(site, host, inside) for _ in range(150)]
    rates = site.toy.tps
    assert weights[-1][0] > 100
    assert weights[-1][1] == 100
    assert rates["red"] >= (95 if blue == 40 else 84)
    assert rates["blue"] >= 0.95 * blue
    reds = [red for red, _ in weights[-60:]]
    assert max(reds) <= 1.1 * min(reds)


@pytest.mark.parametrize("inside", ["", "/container"])
def test_what_was_raised_against_a_tenant_stays_through_a_restart(tmp_path: Path, inside: str) -> None:
    """With ``on_exit: keep``. Tenants were taken for neighbours that want what they keep, and red stayed short."""
    owed = {"red": {"threshold": 100}, "blue": {"threshold": 40}}
    peers = [peer(f"{name}0", f"g/{name}0{inside}", name) for name in owed]
    site = ToySite(tmp_path, peers, channels=owed, on_exit="keep")
    host = ToyHost(demand={"red0": 1.2, "blue0": 2.0}, noise=0.02)
    before = [tenants_run(site, host, inside)[0] for _ in range(100)][-1]
    assert before > 100
    site.restart()
    assert {tenants_run(site, host, inside)[0] for _ in range(50)} == {before}


@pytest.mark.parametrize(
    ("host", "forces", "owed", "held"),
    [
        (FULL, {"red0": 2000, "blue0": 1024}, {}, {"red0"}),
        (FULL, {"red0": 2000, "blue0": 1024, "both": 2000}, {}, {"red0"}),  # it serves all channels: no rival
        (ROOM, {"red0": 2000}, {}, set()),
        (HostLoad(0.0, 0.1), {"red0": 2000}, {}, set()),
        (HostLoad(0.0, 0.02), {"red0": 2000}, {}, set()),  # neighbours that it was raised against
        (HostLoad(0.0, 0.1, pinned={"red0": FULL}), {"red0": 2000}, {}, {"red0"}),
        (FULL, {"red0": 2000}, {"blue": Threshold(100.0, "auto")}, set()),
        (FULL, {"red0": 2000}, {"red": Threshold(100.0, "auto")}, set()),
        (FULL, {"red0": 2000, "client": 2000}, {}, {"red0"}),
    ],
)
def test_what_is_first_seen_raised_where_only_tenants_can_be_why_is_held(
    host: HostLoad, forces: dict[str, int], owed: dict[str, Threshold], held: set[str]
) -> None:
    one = period(120.0, 120.0, host)
    first = replace(one, forces={name: in_force(share) for name, share in forces.items()}, owed={**one.owed, **owed})
    assert step(Contention(cpus=2), first, ()).loads.keys() == held


@pytest.mark.parametrize(("moments", "held"), [(1, {"red0"}), (4, set())])
def test_a_moment_of_foreign_work_does_not_hide_what_is_inherited(moments: int, held: set[str]) -> None:
    contention, first = Contention(cpus=2), replace(period(120.0, 120.0), forces={"red0": in_force(2000)})
    for now in range(int(ROOM_FOR) + 2):
        host = HostLoad(0.0, 0.1) if now < moments else FULL
        rivals = step(contention, replace(first, now=float(now), host=host), ())
    assert rivals.loads.keys() == held


def test_a_period_without_a_reading_lets_go_of_nothing() -> None:
    one = period(100.0, 99.0)
    unread = replace(one, delays={name: read for name, read in one.delays.items() if name != "red0"})
    assert seen(period(50.0, 150.0), unread, one) == {"red0": 0.04}


@pytest.mark.parametrize("owed", [Threshold(100.0, "auto"), Threshold(None, "none")])
def test_what_nothing_is_stated_for_any_longer_is_held_no_longer(owed: Threshold) -> None:
    """After a reload. It kept what it had been raised to, however little the other one then had."""
    after = replace(period(100.0, 50.0), owed={"red": owed, "blue": Threshold(100.0, "configuration")})
    assert seen(period(50.0, 150.0), after) == {}


def test_what_is_raised_later_is_not_held_for_it() -> None:
    """It was raised by this daemon: against neighbours that may be gone."""
    contention = Contention(cpus=2)
    for forces in ({"red0": in_force(1024)}, {"red0": in_force(2000), "both": in_force(1024)}):
        rivals = step(contention, replace(period(120.0, 120.0), forces=forces), ())
    assert rivals.loads == {}
    absent = replace(period(120.0, 120.0), forces={"both": in_force(1024), "client": in_force(1024)})
    back = replace(absent, forces={**absent.forces, "red0": in_force(2000)})
    assert [step(contention, one, ()).loads for one in (absent, back)] == [{}, {}]
    host_unknown = replace(period(120.0, 120.0, None), forces={"blue0": in_force(2000)})
    assert step(contention, host_unknown, ()).loads == {}
    known = replace(period(120.0, 120.0), forces={"blue0": in_force(2000)})
    assert step(contention, known, ()).loads.keys() == {"blue0"}


@pytest.mark.parametrize(("share", "capped", "then"), [(11, (), 12), (10, (), 11), (11, ("red0",), 11)])
def test_a_step_that_was_not_wanted_or_not_given_is_not_taken_further(
    share: int, capped: tuple[str, ...], then: int
) -> None:
    """Its law asks for less where it waits for its disk. Once that is over, it goes on by a step."""
    contention, one = Contention(cpus=2), replace(period(50.0, 200.0), forces={"red0": in_force(10, 10)})
    assert step(contention, one, ()).limits["red0"].most == 11
    contention.answer([wanted("red0", 10, share)], capped)
    assert step(contention, one, ()).limits["red0"].most == then


def test_what_a_cap_held_down_goes_on_by_a_step_when_it_is_lifted(tmp_path: Path) -> None:
    owed = {"red": {"threshold": 100}, "blue": {"threshold": 25}}
    site = ToySite(tmp_path, [peer(f"{name}0", f"g/{name}0", name) for name in owed], channels=owed, boost_cap=0.52)
    host = ToyHost(demand={"red0": 1.4, "blue0": 2.0}, noise=0.0)
    for _ in range(30):
        capped, _ = tenants_run(site, host, "")
    file = site.folder / "qioi.yaml"
    file.write_text(file.read_text().replace("boost_cap: 0.52", "boost_cap: 0.99"))
    site.snapshot = site.daemon.adopt(load_config(file), site.snapshot)
    reds = [tenants_run(site, host, "")[0] for _ in range(8)]
    assert 100 < capped < reds[-1]
    assert all(after <= 1.1 * before + 1 for before, after in pairwise([capped, *reds]))


@pytest.mark.parametrize(("blue", "most"), [(300.0, 2200), (200.0, 2200), (150.0, 2100), (110.0, 2020), (100.0, 2020)])
def test_the_less_tenants_have_to_give_the_smaller_is_the_step(blue: float, most: int) -> None:
    one = replace(period(50.0, blue), forces={"red0": in_force(2000)})
    assert step(Contention(cpus=2), one, ()).limits["red0"].most == most


@pytest.mark.parametrize(
    ("cores", "where", "most"), [(0.8, (), 2020), (0.0, (), 2200), (0.8, {0, 1}, 2020), (0.8, {2, 3}, 2200)]
)
def test_a_tenant_just_at_its_own_counts_where_it_runs(cores: float, where: Iterable[int], most: int) -> None:
    """Blue has twice its own, and runs on all CPUs."""
    green = Component("green0", Role.PEER, "g/green0", ("green",))
    one = period(50.0, 200.0, replace(FULL, pinned={"red0": FULL}))
    one = replace(
        one,
        components=(*PARTS, green),
        channels={**one.channels, "green": ChannelReading("green", 100.0, 0.1)},
        owed={**one.owed, "green": Threshold(100.0, "configuration")},
        delays={**one.delays, "green0": DelayReading("green0", cores, 0.0, 10, 1.0)},
        forces={"red0": in_force(2000)},
        cpus=pins(red0={0, 1}, green0=where),
    )
    assert step(Contention(cpus=4), one, ()).limits["red0"].most == most


def test_where_the_load_of_the_host_is_not_known_what_is_held_stays() -> None:
    """Laws take all waiting for foreign work then."""
    contention, forces = Contention(cpus=2), {"red0": in_force(2000)}
    assert step(contention, replace(period(50.0, 200.0), forces=forces), ()).kept_back["g/red0"].is_raised
    rivals = step(contention, replace(period(50.0, 200.0, None), forces=forces), ())
    assert {name: limit.most for name, limit in rivals.limits.items()} == {"red0": 2000}
    assert rivals.kept_back == {"g/red0": (frozenset({"g/blue0"}), True, False)}
    assert step(contention, period(50.0, 200.0, None), ()).limits == {}  # the share in force is not known either


@pytest.mark.parametrize("blue", [40, 48])
def test_rates_that_tell_late_take_nobody_far_below_its_own(tmp_path: Path, blue: int) -> None:
    """They move by a quarter of the way in a second."""
    owed = {"red": {"threshold": 100}, "blue": {"threshold": blue}}
    site = ToySite(tmp_path, [peer(f"{name}0", f"g/{name}0", name) for name in owed], channels=owed)
    host = ToyHost(demand={"red0": 2.5, "blue0": 1.0}, noise=0.02)
    least = min((tenants_run(site, host, "", 0.25), site.toy.tps["blue"])[1] for _ in range(150))
    assert least >= 0.92 * blue
    assert site.weight("g/red0") > 100
