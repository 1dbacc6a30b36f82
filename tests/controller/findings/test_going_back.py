"""What was raised against tenants, and gives it back to those who are worse off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from toy_daemon import ToySite, peer
from toy_host import ToyHost
from toy_tenants import FULL, PARTS, in_force, period, pins, step, tenants_run, wanted

from qioi.controller.findings.contention import Contention
from qioi.controller.findings.going_back import AGAIN, FIRM
from qioi.controller.laws.thresholds import Threshold
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.model import ChannelReading, Component, DelayReading, Role

BOTH = {"red0": in_force(1024), "blue0": in_force(2048)}


def test_a_tenant_that_was_raised_itself_goes_back_first() -> None:
    contention = Contention(cpus=2)
    step(contention, replace(period(150.0, 50.0), forces={"blue0": in_force(1024)}), ())
    forces = {"red0": in_force(1500), "blue0": in_force(2000)}
    rivals = step(contention, replace(period(50.0, 200.0), forces=forces), ())
    assert {name: limit.most for name, limit in rivals.limits.items()} == {"red0": 1500, "blue0": 1818}
    assert [by.is_raised for by in rivals.kept_back.values()] == [False, False]
    forces["blue0"] = in_force(1024)
    rivals = step(contention, replace(period(50.0, 200.0), forces=forces), ())
    assert {name: limit.most for name, limit in rivals.limits.items()} == {"red0": 1650}
    assert rivals.kept_back["g/red0"] == (frozenset({"g/blue0"}), True, True)


def eased(forces: dict[str, InForce], *later: Period, answers: Mapping[str, int] = {}) -> dict[str, int]:
    """Raise blue0 against red; give what limits whom in the last of the periods after it.

    What each wants within the limits, ``answers`` says.
    """
    contention = Contention(cpus=2)
    step(contention, replace(period(150.0, 50.0), forces=forces), ())
    for one in later:
        rivals = step(contention, replace(one, forces=forces), ())
        contention.answer([wanted(name, forces[name].share, share) for name, share in answers.items()])
    return {name: limit.most for name, limit in rivals.limits.items() if limit.most is not None}


@pytest.mark.parametrize("share", [3, 4, 5])
def test_small_weights_go_back_by_several_steps(share: int) -> None:
    forces = {"blue0": in_force(share, 2)}
    limits = [eased(forces, *[period(50.0, 200.0)] * count)["blue0"] for count in range(1, 6)]
    assert limits == sorted(limits, reverse=True)
    assert limits[-1] < share


def test_who_goes_no_further_back_holds_nobody_up() -> None:
    """Its share is its default, or of a law that takes no limits, or a lost leader's floor."""
    again = [period(50.0, 200.0)] * 2
    assert eased(BOTH, *again, answers={"blue0": 1863}) == {"red0": 1126}
    assert eased(BOTH, *again, answers={"blue0": 1862}).keys() == {"red0", "blue0"}


def test_who_went_no_further_back_is_asked_again_later_or_once_it_has_more() -> None:
    one, firm = period(50.0, 200.0), {"blue0": 2048}
    assert "blue0" in eased(BOTH, one, replace(one, now=AGAIN), answers=firm)
    contention = Contention(cpus=2)
    step(contention, replace(period(150.0, 50.0), forces=BOTH), ())
    step(contention, replace(one, forces=BOTH), ())
    contention.answer([wanted("blue0", 2048, 2000)])
    more = {**BOTH, "blue0": in_force(2049)}
    assert "blue0" not in step(contention, replace(one, now=FIRM - 0.1, forces=more), ()).limits
    assert "blue0" in step(contention, replace(one, now=FIRM, forces=more), ()).limits


def test_a_dry_run_holds_nobody_up() -> None:
    """What it would give back it has not got."""
    contention = Contention(cpus=2)
    step(contention, replace(period(150.0, 50.0), forces=BOTH), ())
    step(contention, replace(period(50.0, 200.0), forces=BOTH), ())
    contention.answer([wanted("blue0", 2048, 1800, shown=True)])
    assert step(contention, replace(period(50.0, 200.0), forces=BOTH), ()).limits.keys() == {"red0"}


@pytest.mark.parametrize("whose", [{"foreign": True}, {"taken": ("g",)}, {"problem": "g is read-only"}])
def test_a_share_that_nobody_here_decides_holds_nobody_up(whose: dict[str, Any]) -> None:
    forces = {"red0": in_force(1024), "blue0": replace(in_force(2048), **whose)}
    assert eased(forces, period(50.0, 200.0)) == {"red0": 1126}


@pytest.mark.parametrize(("theirs", "limits"), [({2, 3}, {}), ({1, 2}, {"red0": 1024, "blue0": 1862})])
def test_what_was_raised_on_other_cpus_holds_nobody_up(theirs: Iterable[int], limits: dict[str, int]) -> None:
    one = period(50.0, 200.0, replace(FULL, pinned={"red0": FULL}))
    assert eased(BOTH, replace(one, cpus=pins(red0={0, 1}, blue0=theirs))) == limits


@pytest.mark.parametrize(
    ("red", "blue", "limits"),
    [
        (40.0, 80.0, {"blue0": 1862}),
        (75.0, 80.0, {}),  # neither has its own, and they lack as much
        (80.0, 40.0, {}),  # it was not enough
        (40.0, None, {}),
    ],
)
def test_where_both_lack_theirs_the_raised_one_gives_to_who_lacks_more(
    red: float, blue: float | None, limits: dict[str, int]
) -> None:
    assert eased(BOTH, period(red, blue)) == limits


def three(red: float, blue: float, green: float) -> Period:
    """A period with a third tenant."""
    third = Component("green0", Role.PEER, "g/green0", ("green",))
    one = period(red, blue)
    return replace(
        one,
        components=(*PARTS, third),
        channels={**one.channels, "green": ChannelReading("green", green, 0.1)},
        owed={**one.owed, "green": Threshold(100.0, "configuration")},
        delays={**one.delays, "green0": DelayReading("green0", 0.8, 0.8, 10, 1.0)},
    )


def test_who_goes_back_is_raised_against_nobody() -> None:
    """Green has its own, red lacks more than blue, which was raised against green: red's comes first."""
    assert eased(BOTH, three(40.0, 80.0, 200.0)) == {"red0": 1024, "blue0": 1862}


def test_for_who_sends_less_than_its_own_nobody_goes_back() -> None:
    """Red lacks less than blue, and is starved. Blue waits for nobody."""
    one = three(60.0, 20.0, 200.0)
    forces = {"red0": in_force(2048), "blue0": in_force(1024)}
    contention = Contention(cpus=2)
    step(contention, replace(three(50.0, 150.0, 150.0), forces=forces), ())
    idle = {**one.delays, "blue0": DelayReading("blue0", 0.8, 0.01, 10, 1.0)}
    for delays, most in ((one.delays, 1862), (idle, 2253)):
        limits = step(contention, replace(one, delays=delays, forces=forces), ()).limits
        assert limits["red0"].most == most


@pytest.mark.parametrize("default", [1800, 1900, 2600])
def test_a_default_that_a_weight_cannot_say_holds_nobody_up(tmp_path: Path, default: int) -> None:
    """1900 shares are a weight of 186, and that is 1905."""
    owed = {"red": {"threshold": 100}, "blue": {"threshold": 40, "default": default}}
    site = ToySite(tmp_path, [peer(f"{name}0", f"g/{name}0", name) for name in owed], channels=owed)
    host = ToyHost(demand={"red0": 1.2, "blue0": 2.0}, noise=0.02)
    for _ in range(80):
        tenants_run(site, host, "")
    assert site.toy.tps["red"] >= 85


def test_where_neither_can_have_its_own_what_was_raised_goes_back(tmp_path: Path) -> None:
    """Blue comes to need far more: what red was raised by takes from it what it is owed."""
    owed = {"red": {"threshold": 100}, "blue": {"threshold": 40}}
    site = ToySite(tmp_path, [peer(f"{name}0", f"g/{name}0", name) for name in owed], channels=owed)
    host = ToyHost(demand={"red0": 1.2, "blue0": 2.0}, noise=0.02)
    weights = [tenants_run(site, host, "") for _ in range(60)]
    assert weights[-1][0] > 100
    host.demand["blue0"] = 6.0  # each of its transactions takes three times the CPU time
    weights = [tenants_run(site, host, "") for _ in range(60)]
    assert weights[-30:] == [(100, 100)] * 30
    assert site.toy.tps["blue"] < 0.9 * owed["blue"]["threshold"]


def test_many_who_lack_the_same_ask_the_same_ones() -> None:
    """They serve the same channel; two of them may run on all CPUs, and one on some."""
    more = [Component(f"red{number}", Role.PEER, f"g/red{number}", ("red",)) for number in (1, 2)]
    one = period(50.0, 200.0, replace(FULL, pinned={"red2": FULL}))
    delays = {each.name: DelayReading(each.name, 0.8, 0.8, 10, 1.0) for each in (*PARTS, *more)}
    one = replace(one, components=(*PARTS, *more), delays=delays, cpus=pins(red2={0, 1}))
    reds = {name: in_force(1024) for name in ("red0", "red1", "red2")}
    assert eased({**reds, "blue0": in_force(2048)}, one) == {**dict.fromkeys(reds, 1024), "blue0": 1862}
