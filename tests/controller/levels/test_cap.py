"""The cap on all boosts together: who goes without, and how much they hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from deciding import decide
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from toy_wants import Tree, want

from qioi.controller.deciding import Controller
from qioi.controller.laws.adaptive import Adaptive
from qioi.controller.levels.cap import Boost, Capper, Held, limit, part_held, weights_below
from qioi.controller.levels.wants import Want
from qioi.controller.policy import Policy
from qioi.kernel.cpu_accounts import CpuAccounts
from qioi.model import Component, DelayReading, Role


def beside(others: int) -> dict[str, dict[str, int]]:
    return {"": {"neighbour": others, "a": 1024, "b": 1024}}


def held(busy: Mapping[str, Mapping[str, int]], boosts: list[Boost]):  # type: ignore[no-untyped-def]
    found = {one.component: one.found for one in boosts}
    return lambda shares: part_held({name: s for name, s in shares.items() if s > found[name]}, busy)


@pytest.mark.parametrize(
    ("raised", "busy", "part"),
    [
        ({}, {}, 0.0),
        ({"a": 3072}, {"": {"x": 1024, "a": 1024}}, 0.75),
        ({"a": 3072, "b": 3072}, {"": {"x": 2048, "a": 1024, "b": 1024}}, 0.75),
        ({"d/a": 3072}, {"": {"d": 1024, "x": 1024}, "d": {"d/a": 1024, "d/y": 1024}}, 0.375),
        ({"d": 3072}, {"": {"d": 1024, "x": 1024}, "d": {"d/a": 1024}}, 0.75),
        ({"d": 3072, "d/a": 9999}, {"": {"d": 1024, "x": 1024}, "d": {"d/a": 1024, "d/y": 1}}, 0.75),  # in it already
        ({"a": 3072}, {}, 1.0),  # nobody else is busy
        ({"d/a": 3072}, {"": {"x": 5}}, 0.0),  # a level that is not known any more
    ],
)
def test_the_part_of_the_host_that_groups_hold(
    raised: dict[str, int], busy: dict[str, dict[str, int]], part: float
) -> None:
    assert part_held(raised, busy) == pytest.approx(part)


def test_the_lowest_priority_goes_without_first() -> None:
    boosts = [Boost("a", 1024, ((5, 8192),)), Boost("b", 1024, ((0, 8192),))]
    shares = limit(boosts, held(beside(4096), boosts), 0.7)
    assert shares["a"] == 8192
    assert 1024 <= shares["b"] < 8192
    harder = limit(boosts, held(beside(4096), boosts), 0.4)
    assert harder["b"] == 1024
    assert 1024 < harder["a"] < 8192


def test_equals_give_up_the_same_part() -> None:
    boosts = [Boost("a", 1024, ((0, 8192),)), Boost("b", 1024, ((0, 4096),))]
    shares = limit(boosts, held(beside(4096), boosts), 0.6)
    assert (shares["a"] - 1024) / 7168 == pytest.approx((shares["b"] - 1024) / 3072, abs=0.01)


def test_room_enough_changes_nothing_and_who_is_not_raised_is_left_out() -> None:
    boosts = [Boost("a", 1024, ((0, 2048),)), Boost("b", 1024, ((0, 1024),))]
    assert limit(boosts, held(beside(4096), boosts), 0.9) == {"a": 2048}


@given(
    st.lists(
        st.tuples(
            st.integers(2, 4096),
            st.lists(st.tuples(st.integers(-2, 2), st.integers(2, 60_000)), min_size=1, max_size=3),
        ),
        max_size=5,
    ),
    st.integers(2, 20_000),
    st.floats(0.01, 0.99),
)
def test_within_the_cap_or_at_what_was_found_and_never_above_the_wish(
    members: list[tuple[int, list[tuple[int, int]]]], neighbour: int, cap: float
) -> None:
    boosts = [Boost(f"g{i}", found, tuple(asks)) for i, (found, asks) in enumerate(members)]
    busy = {"": {"neighbour": neighbour, **{one.component: one.found for one in boosts}}}
    weigh = held(busy, boosts)
    shares = limit(boosts, weigh, cap)
    for one in boosts:
        if one.component in shares:
            assert one.found <= shares[one.component] <= max(shares for _, shares in one.asks)
    assert weigh(shares) <= cap + 1e-9 or all(shares.get(one.component, one.found) == one.found for one in boosts)


def test_of_a_component_that_two_share_the_important_one_keeps_what_it_asks_for() -> None:
    """One orderer, and tenants of two priorities: the less important one asks for more, or for just as much."""
    for lesser in (8192, 16384):
        boosts = [Boost("a", 1024, ((0, lesser), (5, 8192))), Boost("b", 1024, ((0, 4096),))]
        shares = limit(boosts, held(beside(4096), boosts), 0.7)
        assert 8192 <= shares["a"] < 8500
        assert 1024 <= shares["b"] < 4096


def test_what_the_cap_has_left_out_does_not_wind_up() -> None:
    controller = Controller({"red": Policy("red", "adaptive", 100.0, priority=3)})
    peer = Component("peer", Role.PEER, "g/peer", ("red",))
    for second in range(5):
        decision = decide(controller, float(second), peer, 1024, 1024, {}, DelayReading("peer", 0.1, 0.9, 1, 1.0), None)
    assert decision is not None
    assert decision.asks == ((3, decision.shares),)
    law = Adaptive.start(1024)
    laws = controller._laws["peer"].laws
    laws["red"] = Adaptive(law.default, law.bounds, law.tuning, law.memory._replace(raised_at=3.0))
    controller.limit("peer", 500, 400)
    limited = laws["red"]
    assert isinstance(limited, Adaptive)
    assert limited.memory.share == 500
    assert limited.memory.raised_at == 3.0
    controller.limit("peer", 600, 400)
    assert laws["red"] is limited
    controller.limit("nobody", 1, 1)
    controller.limit("peer", 400, 400)  # nothing was given: there is no effect to wait for
    unraised = laws["red"]
    assert isinstance(unraised, Adaptive)
    assert (unraised.memory.share, unraised.memory.raised_at) == (400, -math.inf)


def busy_tree(folder: Path) -> tuple[Tree, Capper]:
    """A ledger's group and a neighbour's, both busy, and one that is idle."""
    tree = Tree(folder)
    tree.held("p", "q")
    tree.group("neighbour")
    tree.group("idle")
    (tree.hierarchy.folder(tree.group("not-accounted-for")) / "cpu.stat").unlink()
    tree.hierarchy.folder("no-weight").mkdir()
    return tree, Capper(tree.guard, tree.hierarchy, CpuAccounts(2, tree.hierarchy.mount))


def spend(tree: Tree, seconds: float) -> None:
    for group in ("p", "q", "neighbour"):
        tree.group(group, seconds=seconds)


def test_nothing_is_looked_at_while_nobody_is_raised(tmp_path: Path) -> None:
    _, capper = busy_tree(tmp_path)
    wants = (want("p", 1024),)
    assert capper.apply(1.0, wants, 0.5) == (wants, Held(0.0, 0.5))


def test_wishes_shrink_until_they_fit_beside_what_is_busy(tmp_path: Path) -> None:
    tree, capper = busy_tree(tmp_path)
    wants = (want("p", 4096), want("q", 1024))
    spend(tree, 1.0)
    unknown, before = capper.apply(1.0, wants, 0.9)  # what is busy is not known yet: all count
    assert (unknown, before.part) == (wants, 400 / 800)
    spend(tree, 2.0)
    after, held = capper.apply(2.0, wants, 0.5)
    assert held.part == pytest.approx(0.5, abs=0.01)
    assert after[1] is wants[1]
    assert after[0].decision.shares == pytest.approx(3072, rel=0.02)
    assert after[0].decision.reason == f"it waits; boost_cap 0.5 leaves {after[0].decision.shares} of 4096"
    (roomy, _), held = capper.apply(3.0, wants, 0.9)
    assert (roomy, held.part) == (wants[0], 400 / 500)  # nobody was busy since, as far as is known


def test_after_a_quiet_time_a_neighbour_that_has_just_come_counts_as_busy(tmp_path: Path) -> None:
    tree, capper = busy_tree(tmp_path)
    wants = (want("p", 4096), want("q", 1024))
    spend(tree, 1.0)
    first = capper.apply(1.0, wants, 0.9)
    capper.apply(2.0, (want("p", 1024), want("q", 1024)), 0.9)
    spend(tree, 2.0)  # a second of an hour
    assert capper.apply(3602.0, wants, 0.9) == first == (wants, Held(400 / 800, 0.9))


def test_processes_beside_the_groups_count_by_the_cpus_that_they_used(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.held("p")
    capper = Capper(tree.guard, tree.hierarchy, CpuAccounts(2, tree.hierarchy.mount))

    def part(now: float, used: float, whole: float) -> float:
        """Look when a component has used CPU time, and all that is on the host."""
        tree.group("p", seconds=used)
        (tree.hierarchy.mount / "cpu.stat").write_text(f"usage_usec {round(1e6 * whole)}\n")
        return capper.apply(now, (want("p", 4096),), 1.0)[1].part

    assert part(1.0, 0.5, 5.0) == 1.0  # not known yet
    assert part(2.0, 1.0, 5.55) == 1.0  # a twentieth of a CPU is within what the accounts tell
    assert part(3.0, 1.5, 7.65) == 400 / 600  # 1.6 CPUs: two processes at the least
    tree.group("new", seconds=3.0)
    assert part(4.0, 2.0, 11.0) == 400 / 500  # what is theirs of these CPUs is not known
    tree.group("new", seconds=0.1)
    assert part(5.0, 2.5, 12.2) == 400 / 500  # nor is it where the group was made anew


def test_a_level_is_read_before_the_groups_below_it(tmp_path: Path) -> None:
    """What these use in between would seem to be the level's own otherwise, and a process beside them."""
    tree, asked = Tree(tmp_path), list[str]()
    tree.held("a/p", "a/b/q")

    class Asked(CpuAccounts):
        def seconds(self, group: str) -> float | None:
            asked.append(group)
            return super().seconds(group)

    capper = Capper(tree.guard, tree.hierarchy, Asked(2, tree.hierarchy.mount))
    capper.apply(1.0, (want("a/b/q", 4096), want("a/p", 4096)), 0.5)
    assert sorted(asked) == ["", "a", "a/b", "a/b/q", "a/p"]
    assert sorted(asked, key=lambda group: group.count("/") + bool(group)) == asked


def moved_by_request(shares: int, previous: int, request: int) -> Want:
    one = want("p", shares)
    return replace(one, decision=replace(one.decision, previous=previous), request=request)


def test_a_pod_whose_request_is_moved_counts_by_what_it_was_found_with(tmp_path: Path) -> None:
    """Four CPUs requested are 4096 shares, though its group has 1024 of the guard's: that is no boost."""
    tree, capper = busy_tree(tmp_path)
    spend(tree, 1.0)
    assert capper.apply(1.0, (moved_by_request(4096, 4096, 4096),), 0.5)[1] == Held(0.0, 0.5)
    asked = moved_by_request(1000, 250, 250)  # four times its request, and less than 1024
    before, held = capper.apply(1.0, (asked,), 0.9)
    assert (before, held.part) == ((asked,), 400 / 800)
    tree.guard.drop("p")
    (tree.hierarchy.folder("p") / "cpu.weight").write_text("400")  # the kubelet has written it
    tree.held("p")
    in_force = moved_by_request(1000, 1000, 250)
    assert capper.apply(1.0, (in_force,), 0.9) == ((in_force,), Held(400 / 800, 0.9))
    (less,), held = capper.apply(1.0, (in_force,), 0.4)
    assert less.decision.shares == pytest.approx(667, rel=0.02)
    assert held.part == pytest.approx(0.4, abs=0.01)
    assert capper.apply(1.0, (in_force,), 0.01)[0][0].decision.shares == 250


def test_a_dry_run_takes_nothing_away_from_others(tmp_path: Path) -> None:
    tree, capper = busy_tree(tmp_path)
    shown = replace(want("q", 65_536), shown=True)
    spend(tree, 1.0)
    assert capper.apply(1.0, (shown,), 0.5) == ((shown,), Held(0.0, 0.5))
    alone = capper.apply(1.0, (want("p", 4096),), 0.6)
    (beside, after), held = capper.apply(1.0, (want("p", 4096), shown), 0.6)
    assert (((beside,), held), after) == (alone, shown)


def test_what_others_have_set_holds_nothing_of_ours(tmp_path: Path) -> None:
    tree, capper = busy_tree(tmp_path)
    tree.guard.apply({"p": 4096})
    (tree.hierarchy.folder("p") / "cpu.weight").write_text("777")
    tree.guard.apply({"p": 2048})
    assert tree.guard.is_foreign("p")
    assert capper.apply(1.0, (want("p", 4096),), 0.5)[1] == Held(0.0, 0.5)


def test_a_level_that_is_gone_has_no_weights(tmp_path: Path) -> None:
    assert list(weights_below(Tree(tmp_path).hierarchy, "gone")) == []
    tree = Tree(tmp_path / "other")
    tree.group("a/b", 300)
    (tree.hierarchy.folder("a") / "c").mkdir()
    assert list(weights_below(tree.hierarchy, "a")) == [("a/b", 300)]
