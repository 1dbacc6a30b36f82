"""Who is raised, by whose policy."""

from __future__ import annotations

import pytest
from deciding import decide as decide_once
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from qioi.controller.deciding import Controller
from qioi.controller.findings.finder import Findings
from qioi.controller.laws.adaptive import Adaptive
from qioi.controller.laws.proportional import Proportional
from qioi.controller.laws.thresholds import Threshold
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce, Want
from qioi.controller.period import Period
from qioi.controller.policy import Policy
from qioi.model import ChannelReading, Component, Decision, DelayReading, HostLoad, Role


def component(name: str, role: Role = Role.PEER, *channels: str) -> Component:
    return Component(name, role, f"g/{name}", channels)


def decide(
    controller: Controller,
    one: Component,
    now: float = 1.0,
    share: int = 1024,
    owed: dict[str, float | None] | None = None,
    **rates: float,
) -> Decision | None:
    channels = {name: ChannelReading(name, rate, 0.1) for name, rate in rates.items()}
    delay = DelayReading(one.name, 0.1, 0.9, 10, 1.0)
    return decide_once(controller, now, one, share, 1024, channels, delay, None, owed=owed)


PROPORTIONAL = {name: Policy(name, "proportional", 100.0) for name in ("red", "blue")}


@pytest.mark.parametrize(
    ("role", "law", "raised"),
    [
        (Role.PEER, "proportional", True),
        (Role.ORDERER, "proportional", True),
        (Role.BROKER, "proportional", True),
        (Role.REPLICA, "proportional", True),
        (Role.REPLICA, "adaptive", True),
        (Role.CHAINCODE, "proportional", False),  # the paper: chaincode keeps the default
        (Role.CHAINCODE, "adaptive", True),
        (Role.CLIENT, "proportional", False),
        (Role.CLIENT, "adaptive", False),
    ],
)
def test_roles(role: Role, law: str, raised: bool) -> None:
    controller = Controller({"red": Policy("red", law, 100.0)})
    decision = decide(controller, component("a", role), red=50)
    assert (decision is not None and decision.changes) is raised


def test_only_the_tenant_below_its_threshold_is_raised() -> None:
    controller = Controller(PROPORTIONAL)
    low = decide(controller, component("a", Role.PEER, "red"), red=50, blue=100)
    well = decide(controller, component("b", Role.PEER, "blue"), red=50, blue=100)
    assert low is not None
    assert (low.shares, low.channel) == (3072, "red")
    assert well is not None
    assert not well.changes


def test_a_shared_orderer_gets_the_most_that_any_tenant_needs() -> None:
    controller = Controller(PROPORTIONAL)
    shared = decide(controller, component("o", Role.ORDERER), red=50, blue=75)
    assert shared is not None
    assert (shared.shares, shared.channel) == (3072, "red")
    shared = decide(controller, component("o", Role.ORDERER), share=3072, red=90, blue=25)
    assert shared is not None
    assert (shared.shares, shared.channel) == (4096, "blue")


@pytest.mark.parametrize(("red", "blue"), [(True, False), (False, True), (True, True)])
def test_a_dry_run_has_no_say_about_what_another_policy_acts_on(red: bool, blue: bool) -> None:
    controller = Controller({
        "red": Policy("red", "proportional", 100.0, dry_run=red),
        "blue": Policy("blue", "proportional", 100.0, dry_run=blue),
    })  # fmt: skip
    one = component("o", Role.ORDERER, "red", "blue")
    for rates, shown in (({"red": 100, "blue": 100}, "red"), ({"red": 25, "blue": 50}, "red")):
        decision = decide(controller, one, **rates)
        assert decision is not None
        assert decision.channel == (shown if red == blue else "blue" if red else "red")


@pytest.mark.parametrize(
    ("one", "acted"),
    [
        (component("p", Role.PEER, "red"), True),
        (component("p", Role.PEER, "blue"), False),
        (component("p", Role.PEER, "red", "blue"), True),
        (component("p", Role.PEER), True),
        (component("p", Role.PEER, "blue", "of no policy"), False),
        (component("p", Role.PEER, "of no policy"), True),
        (component("c", Role.CHAINCODE, "blue"), False),  # whom its law would not raise
    ],
)
def test_what_only_dry_runs_serve_is_not_acted_on(one: Component, acted: bool) -> None:
    red, blue = Policy("red", "adaptive"), Policy("blue", "proportional", 100.0, dry_run=True)
    period = Period(0.0, (one,), {name: ChannelReading(name, 1.0, 0.1) for name in ("red", "blue", "of no policy")})
    after = Controller({"red": red, "blue": blue}).acted_on(period)
    assert (after.components, set(after.channels)) == ((one,) if acted else (), {"red", "of no policy"})
    assert Controller({"red": red}).acted_on(period) is period


@pytest.mark.parametrize(("by_request", "request_found"), [(True, 512), (False, None)])
def test_what_is_wanted_of_a_request_says_what_it_was_found_with(by_request: bool, request_found: int | None) -> None:
    one = component("p", Role.PEER, "red")
    force = InForce(1024, 512, Placement((one.cgroup,), ""), by_request=by_request)
    period = Period(0.0, (one,), owed={"red": Threshold(None, "none")}, forces={"p": force})
    (want,) = Controller({"red": Policy("red", "adaptive")}).decide_all(period, Findings({}, {}))
    assert (want.request, want.decision.previous) == (request_found, 1024)


def test_a_component_of_another_channel_is_nobodys() -> None:
    assert decide(Controller(PROPORTIONAL), component("a", Role.PEER, "green"), red=1) is None


def test_a_channel_without_a_reading_holds() -> None:
    decision = decide(Controller(PROPORTIONAL), component("a", Role.PEER, "red"))
    assert decision is not None
    assert not decision.changes


def test_forgotten_laws_begin_anew() -> None:
    controller = Controller({"red": PROPORTIONAL["red"]})
    one = component("a")
    decide(controller, one, red=0)
    held = decide(controller, one, red=100)
    controller.forget("a")
    anew = decide(controller, one, red=100)
    assert held is not None
    assert anew is not None
    assert (held.shares, anew.shares) == (5120, 1024)


@pytest.mark.parametrize(("taken_up", "shares"), [(False, 5120), (True, 1024)])
def test_laws_of_a_component_that_is_taken_up_begin_anew(taken_up: bool, shares: int) -> None:
    controller = Controller({"red": PROPORTIONAL["red"]})
    one = component("a", Role.PEER, "red")
    decide(controller, one, red=0)
    force = InForce(1024, 1024, Placement((one.cgroup,), ""), taken_up=taken_up)
    owed, channels = {"red": Threshold(100.0, "configuration")}, {"red": ChannelReading("red", 100.0, 0.1)}
    period = Period(1.0, (one,), channels, owed=owed, forces={"a": force})
    (want,) = controller.decide_all(period, Findings({}, {}))
    assert want.decision.shares == shares


def test_bounds_and_default_come_from_the_share_found_unless_given() -> None:
    found = Policy("red", "proportional", 100.0).start(512)
    assert isinstance(found, Proportional)
    assert (found.default, found.bounds.floor, found.bounds.ceiling) == (512, 512, 16384)
    given = Policy("red", "adaptive", default=2048, floor=1000, ceiling=4000).start(512)
    assert isinstance(given, Adaptive)
    assert (given.default, given.bounds.floor, given.bounds.ceiling) == (2048, 1000, 4000)
    high = Policy("red", "proportional", 100.0, ceiling=4000).start(9000)
    assert isinstance(high, Proportional)
    assert high.bounds.ceiling == 9000


@pytest.mark.parametrize(
    ("law", "stated", "found", "outweighs", "ceiling"),
    [
        ("adaptive", None, 1024, 0, 16_384),
        ("adaptive", None, 1024, 2048, 16_384),
        ("adaptive", None, 1024, 40_960, 40_960),
        ("adaptive", None, 20_000, 0, 20_000),
        ("adaptive", None, 20_000, 262_144, 262_144),
        ("adaptive", 16_384, 1024, 40_960, 16_384),  # an operator's word stands
        ("proportional", None, 1024, 40_960, 16_384),  # Algorithm 1 is followed to the letter
    ],
)
def test_a_ceiling_that_nobody_stated_follows_the_neighbours(
    law: str, stated: int | None, found: int, outweighs: int, ceiling: int
) -> None:
    _, bounds = Policy("red", law, 100.0, ceiling=stated).frame(found, outweighs)
    assert bounds.ceiling == ceiling


def test_a_law_goes_on_when_its_ceiling_has_moved() -> None:
    """It is raised beyond the old one from where it stands, and nobody takes a share in force away."""
    controller, one = Controller({"red": Policy("red", "adaptive", 100.0)}), Component("p", Role.PEER, "g/p")
    shares, share = [], 1024
    for now, outweighs in enumerate([0, 0, 0, 40_960, 40_960, 40_960], start=1):
        period = Period(
            float(now),
            (one,),
            {"red": ChannelReading("red", 20.0, 0.1)},
            {"p": DelayReading("p", 0.1, 0.9, 10, 1.0)},
            HostLoad(0.0, 0.9),
            {"red": Threshold(100.0, "configuration")},
            forces={"p": InForce(share, 1024, Placement(("g/p",), ""))},
        )
        made = controller.decision_for(period, Findings({}, {}, outweighs={"p": outweighs} if outweighs else {}), one)
        assert made is not None
        share = made.shares
        shares.append(share)
    assert shares == [8192, 16_384, 16_384, 40_960, 40_960, 40_960]


def test_another_policy_goes_on_with_the_share_in_force() -> None:
    controller = Controller(PROPORTIONAL)
    one = component("a", Role.PEER, "red", "blue")
    decide(controller, one, red=50, blue=100)
    controller.adopt({"red": Policy("red", "proportional", 100.0, k=2)})
    held = decide(controller, one, share=3072, red=100)
    assert held is not None
    assert (held.shares, held.channel) == (3072, "red")
    raised = decide(controller, one, share=3072, owed={"red": 200.0}, red=100)
    assert raised is not None
    assert raised.shares == 2048  # 1024 + 1024 * 2 * 0.5
    controller.adopt({"red": Policy("red", "adaptive", 100.0)})
    other = decide(controller, one, share=3072, red=100)
    assert other is not None
    assert other.shares >= 3072
    controller.adopt({"red": Policy("red", "adaptive", 100.0, ceiling=2000)})
    bounded = decide(controller, one, share=3072, red=100)
    assert bounded is not None
    assert bounded.shares == 2000


def test_the_law_of_a_channel_is_its_policys() -> None:
    controller = Controller({"red": Policy("red", "adaptive"), "blue": PROPORTIONAL["blue"]})
    channels = ("red", "blue", "green", None)
    assert [controller.is_literal(channel) for channel in channels] == [False, True, False, False]


@pytest.mark.parametrize(("law", "raised"), [("adaptive", True), ("proportional", False)])
def test_a_channel_that_is_taken_to_be_sent_to_is_raised_and_that_is_said(law: str, raised: bool) -> None:
    controller, delay = Controller({"red": Policy("red", law, 100.0)}), DelayReading("a", 0.1, 0.9, 10, 1.0)
    silent = {"red": ChannelReading("red", None, None)}
    before = decide_once(controller, 1.0, component("a"), 1024, 1024, silent, delay, None)
    assert before is not None
    assert not before.changes
    decision = decide_once(controller, 2.0, component("a"), 1024, 1024, silent, delay, None, presumed={"red"})
    assert decision is not None
    assert decision.changes is raised
    assert decision.reason.startswith("no commit is seen, but its channel works; waits 90%") is raised


@pytest.mark.parametrize("law", ["proportional", "adaptive"])
def test_a_channel_that_is_new_begins_at_the_default_whatever_another_one_has_asked_for(law: str) -> None:
    controller, one = Controller({"red": Policy("red", law, 100.0)}), component("o", Role.ORDERER, "red", "blue")

    def step(now: float, waiting: float, **rates: float) -> Decision:
        channels = {name: ChannelReading(name, rate, 0.1) for name, rate in rates.items()}
        delay, host = DelayReading("o", 1.0 - waiting, waiting, 100, 1.0), HostLoad(0.0, 0.9)
        decision = decide_once(controller, now, one, shares[-1], 1024, channels, delay, host)
        assert decision is not None
        shares.append(decision.shares)
        return decision

    shares = [1024]
    for now in range(5):
        step(float(now), 0.5, red=20.0)
    assert shares[-1] > 4000
    controller.adopt({"red": Policy("red", law, 100.0), "blue": Policy("blue", law, 100.0)})
    asked = dict(zip(("red", "blue"), (shares for _, shares in step(5.0, 0.0, red=20.0, blue=100.0).asks), strict=True))
    assert asked["red"] > 4000
    assert asked["blue"] == 1024


@pytest.mark.parametrize("law", ["proportional", "adaptive"])
def test_shares_that_were_kept_are_held_for_a_while_and_not_for_ever(law: str) -> None:
    """The daemon before this one has left them; since then nobody has committed anything."""
    controller, one = Controller({"red": Policy("red", law, 100.0)}), component("a")
    shares = [4096]
    for now in range(80):
        delay = DelayReading("a", 0.1, 0.0, 10, 1.0) if now else None
        decision = decide_once(controller, float(now), one, shares[-1], 1024, {}, delay, HostLoad(0.0, 0.9))
        assert decision is not None
        shares.append(decision.shares)
    assert shares[8] == 4096
    assert shares[-1] == 1024


@pytest.mark.parametrize("law", ["proportional", "adaptive"])
def test_a_share_that_somebody_sets_before_we_do_is_gone_on_from(law: str) -> None:
    controller, one = Controller({"red": Policy("red", law, 100.0)}), component("a")
    for now, share in enumerate((1024, 1024, 300, 300, 300)):
        reading, delay = ChannelReading("red", 100.0, 0.1), DelayReading("a", 0.1, 0.0, 10, 1.0)
        decision = decide_once(controller, float(now), one, share, share, {"red": reading}, delay, HostLoad(0.0, 0.9))
        assert decision is not None
        assert decision.shares == share


@pytest.mark.parametrize("law", ["proportional", "adaptive"])
def test_a_policy_that_is_changed_does_not_take_over_what_another_one_has_asked_for(law: str) -> None:
    policies = {"red": Policy("red", law, 100.0), "blue": Policy("blue", law, 100.0)}
    controller, one = Controller(policies), component("o", Role.ORDERER, "red", "blue")
    raised = decide(controller, one, red=20.0, blue=150.0)
    raised = decide(controller, one, now=2.0, red=20.0, blue=150.0)
    assert raised is not None
    assert raised.shares > 2000
    controller.adopt({**policies, "blue": Policy("blue", law, 100.0, ceiling=9000)})
    after = decide(controller, one, now=3.0, share=raised.shares, red=20.0, blue=150.0)
    assert after is not None
    assert after.asks[1] == (0, 1024)


@pytest.mark.parametrize(("found", "default", "ceiling", "rest"), [(700, None, 900, 700), (700, 1024, 16_384, 1024)])
def test_where_a_share_rests(found: int, default: int | None, ceiling: int, rest: int) -> None:
    controller = Controller({"red": Policy("red", "adaptive", default=default, ceiling=ceiling)})
    assert controller.rest("red", found) == rest


def test_a_law_does_not_wind_up_what_it_was_not_given() -> None:
    shares = {}
    for got in (1500, None):
        controller, one = Controller({"red": Policy("red", "adaptive", 100.0)}), component("a", Role.PEER, "red")
        asked = decide(controller, one, red=50)
        assert asked is not None
        want = Want(asked, one.cgroup, Placement((one.cgroup,), ""))
        less = Want(replace(asked, shares=got or asked.shares), one.cgroup, want.placement)
        controller.limit_all((want,), (less,))
        after = decide(controller, one, now=2.0, share=less.decision.shares, red=50)
        assert after is not None
        shares[got] = after.shares
    assert 1500 <= shares[1500] < (shares[None] or 0)


PART = st.tuples(
    st.integers(1, 8),  # seconds of it
    st.sampled_from([0.0, 0.0, 0.02, 0.1, 0.5, 0.9]),  # of which the component waits, beside foreign work
    st.sampled_from([HostLoad(0.6, 0.1), HostLoad(0.0, 0.9)]),
    st.lists(st.sampled_from([None, 40.0, 99.0, 130.0]), min_size=3, max_size=3),  # what each channel does
    st.sampled_from([{}, {"c1": 4.0}]),  # lost leaders
)


@settings(max_examples=60, deadline=None)
@given(st.lists(PART, min_size=1, max_size=12), st.sampled_from([None, 2048]))
def test_policies_that_are_given_anew_all_the_time_change_no_decision(
    parts: list[tuple[int, float, HostLoad, list[float | None], dict[str, float]]], default: int | None
) -> None:
    """Of two controllers one is given its policies anew all the time, and so looks for all its laws anew."""
    policies = {f"c{n}": Policy(f"c{n}", "adaptive", 100.0, default=default if n == 2 else None) for n in range(3)}
    quick, thorough, one = Controller(policies), Controller(policies), component("o", Role.ORDERER)
    now, shares = 0.0, [1024, 1024]
    for seconds, waits, host, rates, floors in parts:
        channels = {
            name: ChannelReading(name, rate, 0.1 if rate is not None else None)
            for name, rate in zip(policies, rates, strict=True)
        }
        for _ in range(seconds):
            now += 1.0
            thorough.adopt(policies)
            delay = DelayReading("o", 0.3, 0.3 * waits / (1 - waits), 100, 1.0)
            made = [
                decide_once(each, now, one, share, 1024, channels, delay, host, floors=floors)
                for each, share in zip((quick, thorough), shares, strict=True)
            ]
            assert made[0] == made[1]
            shares = [decision.shares for decision in made if decision is not None]


def test_a_component_of_two_channels_that_is_forgotten_begins_anew() -> None:
    policies = {name: Policy(name, "adaptive", 100.0) for name in ("red", "blue")}
    controller, one, delay = Controller(policies), component("a"), DelayReading("a", 0.1, 0.0, 10, 1.0)

    def step(now: float, found: int) -> int:
        channels = {name: ChannelReading(name, 100.0, 0.1) for name in policies}
        decision = decide_once(controller, now, one, found, found, channels, delay, HostLoad(0.9, 0.0))
        assert decision is not None
        return decision.shares

    assert [step(float(now), 1024) for now in range(3)] == [1024] * 3
    controller.forget("a")
    controller.forget("never seen")
    assert [step(float(now), 700) for now in range(3, 6)] == [700] * 3
    assert step(6.0, 800) == 800


def test_a_component_that_waits_is_asked_about_for_every_channel() -> None:
    policies = {"red": Policy("red", "adaptive"), "blue": Policy("blue", "adaptive", ceiling=2048)}
    controller, one, full = Controller(policies), component("a"), HostLoad(0.0, 0.9)
    channels = {name: ChannelReading(name, 100.0, 0.1) for name in policies}

    def step(now: float, wait: float) -> Decision:
        delay = DelayReading("a", 0.1, wait, 10, 1.0)
        decision = decide_once(controller, now, one, 1024, 1024, channels, delay, full)
        assert decision is not None
        return decision

    assert [step(float(now), 0.0).shares for now in range(3)] == [1024] * 3
    raised = step(3.0, 0.9)
    assert raised.shares > 2048
    assert len(raised.asks) == 2
    assert {shares for _, shares in raised.asks} == {raised.shares, 2048}
