"""Shares that have no effect go back, and those that have any stay: the trial that tells."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as changed
from toy_daemon import ToySite, peer
from toy_trial import LOOK, MOST, REAL_TIME, REST, WHOLE, Site, World

from qioi.controller.findings.effect import (
    FIRST,
    LATE,
    LONG,
    LOOKS,
    QUARTER,
    SETTLED,
    Effects,
    Rate,
    is_alike,
    is_worse,
)
from qioi.controller.findings.limits import Reason
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.model import Component, DelayReading, HostLoad, Role
from qioi.show.trouble import Trouble, TroubleKind
from qioi.show.troubles import find


def test_shares_without_effect_go_back_by_a_trial_and_come_back_for_another_look() -> None:
    site = Site()
    shares = site.run(60)
    assert shares[:3] == [8192, MOST, MOST]
    begun = shares.index(MOST // 4)
    assert begun <= SETTLED + 3
    assert set(shares[begun : begun + 4]) == {MOST // 4}
    assert set(shares[begun + 4 : begun + 12]) == {REST}
    assert shares[begun + 13] == MOST  # without the raise nothing is proved
    assert shares[-1] == REST
    assert [one[0] for one in site.reasons][-1] is Reason.NO_EFFECT
    found = [one[0] for one in site.reasons].index(Reason.NO_EFFECT)
    site.run(1000)
    assert {one[0] for one in site.reasons[found:]} == {Reason.NO_EFFECT}
    later = [one[0] for one in site.history[found:]]
    assert site.trials == 1
    assert later.count(8192) == 4  # looks after 60, 120, 240, and then every 300 s
    assert set(later[: int(FIRST) - 2]) == {REST}


def test_all_are_tried_together_since_their_shares_count_against_each_other() -> None:
    site = Site(replace(REAL_TIME, demands=(1.0, 1.0, 1.0)))
    site.run(60)
    assert site.shares == [REST] * 3
    assert site.reasons[-1] == [Reason.NO_EFFECT] * 3
    begun = [next(at for at, one in enumerate(site.history) if one[peer] == MOST // 4) for peer in range(3)]
    assert len(set(begun)) == 1


def test_nobody_is_tried_before_it_is_known_of_all_what_their_shares_bring() -> None:
    site = Site(replace(REAL_TIME, demands=(1.0, 1.0)))
    for number in range(60):
        site.second()
        site.shares[1] = MOST if number % 8 < 4 else MOST // 2
    assert site.trials == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"world": World(others=1024)},
        {"world": World(others=8 * 1024)},  # half of the CPU with all its shares, a ninth with the default
        {"world": World(others=1024, demands=(0.05,))},  # waits little, whatever its share
        {"world": World(real_time=0.5, demands=(0.05,))},  # does not work enough to tell
        {"world": replace(REAL_TIME, room=True)},
        {"owed": 40.0},  # it has its T
        {"literal": True},  # Algorithm 1 does as the paper says
        {"limited": frozenset({"peer0"})},
        {"free": False},  # slices are on trial
        {"hides": True},
    ],
)
def test_it_is_left_alone_where_there_is_nothing_to_be_found_out(changes: dict[str, object]) -> None:
    site = Site(**changes)  # type: ignore[arg-type]
    assert site.run(300)[2:] == [MOST] * 298


@pytest.mark.parametrize(("owed", "tps"), [(100.0, 50.0), (100.0, None), (None, 50.0)])
def test_a_channel_that_is_below_its_t_or_has_none_is_not_served(owed: float | None, tps: float | None) -> None:
    site = Site(owed=owed, tps=tps)
    site.run(60)
    assert site.trials == 1


@pytest.mark.parametrize(("presumed", "trials"), [((), 0), (("blue",), 1)])
def test_a_channel_of_which_nobody_is_taken_to_send_lacks_nothing(presumed: tuple[str, ...], trials: int) -> None:
    site = Site(owed=40.0, channels=("red", "blue"), idle=("blue",), presumed=presumed)
    site.run(60)
    assert site.trials == trials


def test_one_that_was_found_raised_is_tried_only_if_it_waits_for_very_long() -> None:
    """An earlier daemon raised it. How long it waited at its default was never seen."""
    site = Site(shares=[MOST])
    site.run(60)
    assert site.trials == 1
    site = Site(World(real_time=0.7), shares=[MOST])
    site.run(60)
    assert site.trials == 0


@pytest.mark.parametrize(("others", "share"), [(100_000, MOST), (262_144, REST)])
def test_a_trial_that_hurts_ends_with_the_first_look_and_the_next_one_waits_ever_longer(
    others: int, share: int
) -> None:
    """Either nobody saw the time before the raise, or the raise does next to nothing beside so heavy a neighbour."""
    site = Site(World(others=others), shares=[share])
    site.run(1200)
    assert {one[0] for one in site.reasons} == {None, Reason.TRIED}
    assert max(site.lows(0)) == 2
    assert site.trials == 5  # after 0, 60, 180, 420 and 900 s


def test_what_does_too_little_harm_for_a_short_look_ends_a_trial_all_the_same() -> None:
    """Beside real-time work that leaves a twentieth, one neighbour of its weight takes half of that."""
    site = Site(World(real_time=0.95, others=1024), shares=[MOST])
    site.run(600)
    assert site.trials > 0
    assert Reason.NO_EFFECT not in {one[0] for one in site.reasons}
    assert max(site.lows(0)) <= WHOLE


def test_a_trial_during_which_the_neighbours_become_others_proves_nothing() -> None:
    """The neighbours become weaker by as much as the share does. The component notices it only when raised again."""
    site = Site()
    site.run(SETTLED)
    while site.share == MOST:
        site.second()
    for share in (MOST // 4, REST):
        site.world = World(others=19 * share)
        while site.share == share:
            site.second()
    site.run(60 - site.now)
    assert site.trials == 1
    assert Reason.NO_EFFECT not in {one[0] for one in site.reasons}
    assert site.share == MOST


@pytest.mark.parametrize(
    ("others", "seconds"),
    [
        (65_536, LOOK),  # less than beside real-time work
        (4096, LOOK + 2),  # more, but a raised share would bring more yet
        (19 * REST, LOOKS + LONG),  # as much
    ],
)
def test_shares_that_went_back_come_back_when_the_neighbours_become_others(others: int, seconds: float) -> None:
    site = Site()
    site.run(200)
    assert site.share == REST
    site.world = World(others=others)
    assert site.run(seconds + 1)[-1] == MOST
    site.run(LONG + 1)
    assert site.reasons[-1] == [None]
    assert set(site.run(20)) == {MOST}


def test_who_is_let_go_of_keeps_nobody_else_from_a_trial() -> None:
    """Each is on a CPU of its own, and real-time work comes to the second one later."""
    site = Site(World(demands=(1.0, 1.0)))
    worlds = [REAL_TIME, World(others=1024)]
    for second in range(300):
        if second == 60:
            assert site.reasons[-1] == [Reason.NO_EFFECT, None]
            worlds[1] = REAL_TIME
        cpus = zip(site.names, worlds, site.shares, strict=True)
        delays = [DelayReading(name, *world.divide([share])[0], 10, 1.0) for name, world, share in cpus]
        site.period(1.0, delays, HostLoad(0.0, 0.95))
    assert site.reasons[-1] == [Reason.NO_EFFECT] * 2
    assert {one[0] for one in site.reasons[60:]} == {Reason.NO_EFFECT}
    assert site.shares == [REST] * 2


def test_a_look_at_who_is_let_go_of_waits_for_the_trial_of_another_one() -> None:
    """They have one of the first one's five CPUs in common. The second one works from shortly before the look on."""
    site, lone = Site(World(demands=(1.0, 1.0))), World(real_time=0.98)
    tried, looks = set(), set()
    found = math.inf
    for second in range(160):
        shared = World(real_time=0.98, demands=(1.0, 1.0 if second >= found + FIRST - 20 else 0.0))
        (first, other), rest = shared.divide(site.shares), [lone.divide([MOST])[0]] * 4
        run, wait = (sum(times) for times in zip(first, *rest, strict=True))
        delays = [DelayReading("peer0", run, wait, 10, 1.0), DelayReading("peer1", *other, 10, 1.0)]
        site.period(1.0, delays, HostLoad(0.0, 0.98))
        if site.reasons[-1][0] is Reason.NO_EFFECT:
            found = min(found, second)
            looks |= {second} if site.shares[0] > REST else set()
            tried |= {second} if site.reasons[-1][1] is Reason.TRIED else set()
    assert len(tried) >= QUARTER + LONG
    assert min(tried) < found + FIRST < max(tried) < min(looks)


def test_room_is_the_end_of_it_and_the_next_trial_still_waits() -> None:
    site = Site()
    site.run(SETTLED + 3)
    assert site.reasons[-1] == [Reason.TRIED]
    site.world = replace(REAL_TIME, room=True)
    assert site.run(2)[-1] == MOST
    site.world, site.shares = REAL_TIME, [REST]
    assert set(site.run(40)[2:]) == {MOST}
    site.run(60)
    assert (site.share, site.trials) == (REST, 2)
    site.world = replace(REAL_TIME, room=True)
    assert site.run(2)[-1] == MOST


@pytest.mark.parametrize(("after", "kept"), [(0, MOST), (QUARTER + 1, MOST), (QUARTER + LONG + 2, REST)])
def test_a_phase_that_somebody_else_keeps_from_being_carried_out_ends_the_trial(after: float, kept: int) -> None:
    """At a quarter, at the default, and raised again."""
    site = Site()
    while site.share in (REST, 8192, MOST):
        site.second()
    for _ in range(int(after)):
        site.second()
    assert site.share != kept
    for _ in range(int(LATE) + 2):
        site.shares = [kept]
        site.second(written=False)
    assert site.reasons[-1] == [None]
    assert Reason.NO_EFFECT not in {one[0] for one in site.reasons}


def test_harm_to_one_ends_the_trial_of_all() -> None:
    """Others may wait for it."""
    site = Site(replace(REAL_TIME, demands=(1.0, 1.0)))
    site.run(SETTLED + 3)
    assert site.reasons[-1] == [Reason.TRIED] * 2
    while site.reasons[-1][1] is not None:
        site.shares[1] = REST // 16
        site.second()
    assert site.reasons[-1] == [None] * 2
    assert site.lows(0)[0] <= 4


def test_a_share_that_is_put_up_by_somebody_else_is_not_without_effect() -> None:
    site = Site()
    site.run(60)
    assert site.reasons[-1] == [Reason.NO_EFFECT]
    site.shares = [2 * REST]
    site.second()
    assert site.reasons[-1] == [None]


@pytest.mark.parametrize("after", [2, QUARTER + 2])
def test_a_trial_that_is_not_seen_proves_nothing(after: float) -> None:
    site = Site()
    while site.share in (REST, 8192, MOST):
        site.second()
    site.run(after)
    site.hides = True
    site.run(WHOLE + LATE)
    assert site.reasons[-1] == [None]
    assert Reason.NO_EFFECT not in {one[0] for one in site.reasons}


def test_who_has_gone_or_is_limited_by_something_else_is_out_of_it_and_the_others_stay() -> None:
    site = Site(replace(REAL_TIME, demands=(1.0, 1.0)))
    site.run(SETTLED + 3)
    assert site.reasons[-1] == [Reason.TRIED] * 2
    site.limited = frozenset({"peer1"})
    site.second()
    assert site.reasons[-1] == [Reason.TRIED, None]


def test_who_is_no_more_raised_is_not_tried() -> None:
    site = Site()
    for number in range(60):
        site.second()
        site.shares = [MOST if number % 8 < 7 else 2 * REST]
    assert site.trials == 0


def test_beside_real_time_neighbours_it_runs_for_a_moment_of_each_second() -> None:
    """A wait is counted when it ends: in the tenth of a second in which the component runs, and foreigners do not."""
    effects, now, share, found = Effects(lambda _channel: False), 0.0, REST, []
    its = Component("peer", Role.PEER, "docker/peer")
    for number in range(900):
        now += 0.1
        run, wait, foreign = (0.05, 0.95, 0.5) if number % 10 == 7 else (0.0, 0.0, 1.0)
        period = Period(
            now,
            (its,),
            delays={"peer": DelayReading("peer", run, wait, 10, 0.1)},
            host=HostLoad(0.0, foreign),
            forces={"peer": InForce(share, REST, Placement(("docker/peer",), ""))},
        )
        limit = effects.step(period, (), free=True, channels={}).get("peer")
        share = MOST if limit is None else min(MOST, limit.allows(share, REST))
        found.append(limit and limit.reason)
    first = found.index(Reason.NO_EFFECT)
    assert set(found[first:]) == {Reason.NO_EFFECT}
    assert first < 400


def test_who_is_not_seen_is_not_judged() -> None:
    effects, its = Effects(lambda _channel: False), Component("peer", Role.PEER, "docker/peer", ("red",))
    forces = {"peer": InForce(MOST, REST, Placement(("docker/peer",), ""))}
    still = {"peer": DelayReading("peer", 0.0, 0.0, 0, 0.0)}
    idle = {"peer": DelayReading("peer", 0.0, 0.0, 0, 1.0)}
    host = HostLoad(0.0, 0.95)
    for now, period in enumerate(
        [
            Period(0.0, (its,), host=host, forces=forces),
            Period(0.0, (its,), host=host, forces=forces, delays=still),
            Period(0.0, (its,), forces=forces, delays=idle),
            Period(0.0, (its,), host=host),
            *[Period(0.0, (its,), host=host, forces=forces, delays=idle)] * 40,
        ]
    ):
        assert effects.step(changed(period, now=float(now)), (), free=True, channels={}) == {}
    assert not effects.trying


@pytest.mark.parametrize(("world", "helps"), [(REAL_TIME, False), (World(others=8 * 1024), True)])
def test_in_the_loop_what_helps_stays_and_what_does_not_is_said(tmp_path: Path, world: World, helps: bool) -> None:
    """With the law, and with neighbours whose weights are known, beside which shares settle."""
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}})
    site.toy.tps, site.toy.host = {"red": 50.0}, HostLoad(0.0, 0.95)
    site.toy.siblings = {"docker": {f"docker/sysbench{one}": 100 for one in range(16)}}
    shares = []
    for _ in range(60):
        shares.append(site.weight("docker/p") * REST // 100)
        site.toy.waits = {"peer0": world.divide([shares[-1]])[0]}
        site.run(1)
    state = site.snapshot.components[0]
    told = Trouble(TroubleKind.NO_EFFECT, "peer0") in find(site.snapshot)
    assert told is not helps
    assert max(shares) == MOST
    if helps:
        assert set(shares[10:]) == {MOST}
    else:
        assert shares[-1] == REST
        assert state.limit is not None
        assert state.limit.reason is Reason.NO_EFFECT


@pytest.mark.parametrize(
    ("less", "more", "worse"),
    [
        ((0.05, 0.95), (0.05, 0.95), False),
        ((0.04, 0.96), (0.05, 0.95), False),  # a moment more or less
        ((0.7, 0.3), (0.9, 0.3), True),  # runs much less
        ((0.8, 0.3), (0.9, 0.3), False),
        ((0.02, 0.98), (0.05, 0.95), True),  # runs less than half of it
        ((0.3, 1.2), (0.3, 0.5), True),  # waits more
        ((0.3, 0.55), (0.3, 0.5), False),
        ((0.0, 0.0), (0.0, 0.0), False),
    ],
)
def test_what_is_worse(less: tuple[float, float], more: tuple[float, float], worse: bool) -> None:
    assert is_worse(Rate(*less), Rate(*more)) is worse


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ((0.05, 0.95), (0.05, 0.95), True),
        ((0.05, 0.95), (0.06, 0.94), True),
        ((0.05, 0.95), (0.065, 0.935), False),  # runs a quarter more
        ((0.1, 0.2), (0.1, 0.4), False),  # waits more
        ((0.0, 1.0), (0.0, 1.0), True),  # nothing is left beside real-time work where all is allowed to it
        ((0.0, 0.0), (0.0, 1.0), True),
        ((0.0, 1.0), (0.001, 1.0), False),
    ],
)
def test_what_is_alike(one: tuple[float, float], other: tuple[float, float], alike: bool) -> None:
    assert is_alike(Rate(*one), Rate(*other)) is alike
    assert is_alike(Rate(*other), Rate(*one)) is alike
