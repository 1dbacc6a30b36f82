"""Groups above components: raised by their own odds, bounded by what is asked for, let go of when there is room."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from toy_wants import Tree, want

from qioi.controller.levels.ancestors import Ancestors, Ancestry, Ask, together
from qioi.controller.levels.wants import Want
from qioi.model import DelayReading, HostLoad

FULL = HostLoad(0.0, 0.9)


def ask(
    foreign: float | None = 1.8, need: float = 0.6, most: int = 16_384, found: int = 1024, share: int = 1024
) -> Ask:
    return Ask(found, share, most, foreign, DelayReading("", 0.2, 0.2 * need / (1 - need), 10, 1.0))


def run(laws: Ancestors, one: Ask, periods: int, start: int = 0, host: HostLoad = FULL) -> list[int]:
    return [laws.step(float(start + period), {"docker": one}, host, 2)["docker"] for period in range(periods)]


def test_it_is_raised_by_the_part_of_the_waiting_that_its_level_is_to_blame_for() -> None:
    all_of_it, half, little = (run(Ancestors(), ask(foreign), 1)[0] for foreign in (2.0, 1.0, 0.2))
    assert all_of_it > half > little >= 1024
    assert all_of_it <= 8 * 1024  # one step
    assert little == 1024  # a need of 0.6 behind a tenth of all work: little is waited for there


def test_it_stays_raised_for_components_whose_cpus_are_full_on_a_host_that_is_idle() -> None:
    """Two CPUs of 64 have neighbours, and the components are pinned to these."""
    shares = {}
    for pinned in (None, HostLoad(0.0, 0.9)):
        laws = Ancestors()
        for second in range(60):
            one = Ask(1024, 1024, 16_384, 1.8, ask(need=0.6 if second < 3 else 0.1).delay, pinned)
            shares[pinned is None] = laws.step(float(second), {"docker": one}, HostLoad(0.97, 0.02), 64)["docker"]
    assert shares[True] == 1024
    assert shares[False] > 4096


def test_many_threads_that_wait_for_the_same_moment_are_no_reason() -> None:
    """Of two CPUs others have a tenth; fifty threads of the components wait in turn, mostly behind each other."""
    assert run(Ancestors(), ask(foreign=0.2, need=0.98), 10)[-1] == 1024
    assert run(Ancestors(), ask(foreign=1.9, need=0.98), 1)[-1] > 1024


def test_it_never_has_more_than_is_asked_for_and_winds_nothing_up() -> None:
    laws = Ancestors()
    assert run(laws, ask(most=1500), 30)[-1] == 1500
    assert run(laws, ask(need=0.1), 1, start=30) == [1500]  # not what 30 periods of need would have made
    assert run(laws, ask(most=1024), 1, start=31) == [1024]


def test_it_is_let_go_of_when_there_is_room_at_its_level_though_components_ask() -> None:
    laws = Ancestors()
    assert run(laws, ask(), 3)[-1] > 1024
    assert run(laws, ask(foreign=0.0), 30, start=3)[-1] == 1024
    assert run(laws, ask(), 3, start=33)[-1] > 1024
    assert run(laws, ask(need=0.1), 100, start=36, host=HostLoad(0.5, 0.3))[-1] == 1024


def test_it_stays_raised_for_the_next_load_while_nobody_sends_and_the_neighbours_stay() -> None:
    """It was tried with less in every minute, as nobody waited, down to its default."""
    laws = Ancestors()
    raised = run(laws, ask(), 3)[-1]
    idle = dataclasses.replace(ask(need=0.0, share=raised), idle=True)
    assert raised > 4096
    assert run(laws, idle, 3600, start=3)[-1] == raised
    assert run(laws, idle, 30, start=3603, host=HostLoad(0.5, 0.3))[-1] == 1024


def test_a_moment_without_idle_time_does_not_put_the_way_back_off() -> None:
    laws = Ancestors()
    raised = run(laws, ask(), 3)[-1]
    for period in range(3, 7):
        run(laws, ask(need=0.1), 1, start=period, host=HostLoad(0.5, 0.3))
    now = laws.step(6.3, {"docker": ask(need=0.1)}, HostLoad(0.0, 0.9, HostLoad(0.4, 0.4)), 2)["docker"]
    assert run(laws, ask(need=0.1), 1, start=7, host=HostLoad(0.5, 0.3))[-1] < now <= raised


@pytest.mark.parametrize(("share", "held"), [(1024, 1024), (512, 1024), (2000, 2000), (9000, 3000)])
def test_where_its_level_is_not_known_what_is_in_force_stays(share: int, held: int) -> None:
    laws = Ancestors()
    assert run(laws, ask(foreign=None, most=3000, share=share), 2) == [held, held]
    assert laws.step(3.0, {"docker": ask(most=3000, share=share)}, None, 2) == {"docker": held}
    assert laws.step(4.0, {"docker": Ask(1024, share, 3000, 1.0, together([]))}, FULL, 2) == {"docker": held}


def test_a_restart_that_keeps_shares_raises_no_group_by_more_than_its_level_asks_for() -> None:
    """An earlier daemon left components at 16 times what they were found with, and the group above them at 3 times."""
    laws = Ancestors()
    assert laws.step(0.0, {"docker": ask(foreign=None, share=3072)}, None, 2) == {"docker": 3072}
    assert run(laws, ask(need=0.1, share=3072), 20, start=1)[-1] <= 3072


def test_a_moment_in_which_its_level_is_not_known_does_not_put_the_way_back_off() -> None:
    laws, other, room = Ancestors(), Ancestors(), HostLoad(0.5, 0.3)
    raised = run(laws, ask(), 3)[-1]
    assert run(other, ask(), 3)[-1] == raised
    quiet = ask(need=0.1, share=raised)
    assert run(laws, quiet, 3, start=3, host=room) == run(other, quiet, 3, start=3, host=room)
    assert run(laws, ask(foreign=None, share=raised), 1, start=6) == [raised]
    later = run(laws, quiet, 3, start=7, host=room)
    assert later == run(other, quiet, 3, start=7, host=room)
    assert later[0] < raised


def test_one_that_is_raised_already_goes_on_from_there_and_one_not_named_begins_anew() -> None:
    laws = Ancestors()
    assert run(laws, ask(need=0.0, share=4096), 1) == [4096]
    assert laws.step(2.0, {}, FULL, 2) == {}
    assert run(laws, ask(need=0.0), 1, start=3) == [1024]
    assert run(laws, ask(need=0.0, found=2048, share=4096), 1, start=4) == [4096]  # another group has its path


def test_beside_others_inside_and_outside_it_settles_and_leaves_the_host_its_part() -> None:
    """Weights divide the host: docker is full of interferers of its own, and a crowd of weight 4096 is beside it."""
    laws, share, shares = Ancestors(), 1024, []
    for period in range(600):
        outside = 2.0 * 4096 / (4096 + share)
        delay = DelayReading("", 0.2, 0.2 * (4096 / share + 0.5), 100, 1.0)
        seen = {"docker": Ask(1024, share, 262_144, outside, delay)}
        share = laws.step(float(period), seen, HostLoad(0.0, 0.9), 2)["docker"]
        shares.append(share)
    assert 2048 < share < 65_536  # enough, and far from all that components may ask for
    last = shares[-180:]
    assert max(last) <= 1.1 * min(last)
    assert 2.0 * 4096 / (4096 + share) > 0.1  # who is beside docker is not starved


ASKS = st.builds(
    ask,
    st.none() | st.floats(0, 8),
    st.floats(0, 0.99),
    st.integers(2, 262_144),
    st.integers(2, 262_144),
    st.integers(2, 262_144),
)


@given(st.lists(st.dictionaries(st.sampled_from("ab"), ASKS), max_size=20), st.floats(0, 1), st.floats(0, 1))
def test_bounds_hold_whatever_is_seen(periods: list[dict[str, Ask]], idle: float, foreign: float) -> None:
    laws = Ancestors()
    for number, asks in enumerate(periods):
        most = laws.step(float(number), asks, HostLoad(idle, foreign), 2)
        assert most.keys() == asks.keys()
        for group, one in asks.items():
            assert one.found <= most[group] <= max(one.found, one.most)


@given(st.floats(0, 0.99), st.floats(0, 2), st.floats(0, 2))
def test_more_foreign_work_beside_it_never_gives_less(need: float, one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert run(Ancestors(), ask(less, need), 1) <= run(Ancestors(), ask(more, need), 1)


def test_what_components_did_is_summed_up() -> None:
    readings = [DelayReading("a", 1.0, 2.0, 3, 1.0), DelayReading("b", 0.5, 0.5, 1, 1.0)]
    assert together(readings) == DelayReading("", 1.5, 2.5, 4, 1.0)
    assert together([]) is None


class Acted:
    """A component below a group that is acted at, as the daemon has them."""

    def __init__(self, folder: Path, literal: bool = False) -> None:
        self.tree = Tree(folder)
        self.tree.held("docker", "docker/p", "other")
        self.ancestry = Ancestry(self.tree.guard, lambda _: literal)

    def apply(self, *wants: Want, need: float = 0.6, now: float = 1.0) -> tuple[Want, ...]:
        delays = {"docker/p": DelayReading("docker/p", 0.2, 0.2 * need / (1 - need), 10, 1.0)}
        return self.ancestry.apply(now, wants, delays, FULL)


def test_a_wish_asks_for_no_more_than_its_level_gives(tmp_path: Path) -> None:
    acted, cpus = Acted(tmp_path), float(os.cpu_count() or 1)
    (after,) = acted.apply(want("docker/p", 16_384, "docker", foreign=0.9 * cpus))
    assert 1024 < after.decision.shares == after.limits["docker"] < 16_384
    assert after.decision.reason == (
        f"it waits; docker by the waiting at its own level: {after.decision.shares} of 16384"
    )


def test_a_wish_that_its_level_gives_is_left_as_it_is(tmp_path: Path) -> None:
    asked = want("docker/p", 1100, "docker", foreign=0.9 * float(os.cpu_count() or 1))
    (after,) = Acted(tmp_path).apply(asked)
    assert (after.decision, after.limits) == (asked.decision, {"docker": 1100})


def test_a_group_at_which_nobody_was_acted_for_a_while_begins_anew(tmp_path: Path) -> None:
    """Its only component was started again: the group was put back meanwhile."""
    acted, asked = Acted(tmp_path), want("docker/p", 16_384, "docker", foreign=0.9 * float(os.cpu_count() or 1))
    assert acted.apply(asked)[0].limits["docker"] > 1024
    assert acted.apply(now=2.0) == ()
    assert acted.apply(asked, need=0.0, now=3.0)[0].limits == {"docker": 1024}


def test_a_component_that_is_acted_at_by_itself_too_keeps_its_wish(tmp_path: Path) -> None:
    asked = want("docker/p", 16_384, "docker/p", "docker")
    (after,) = Acted(tmp_path).apply(asked)
    assert after.decision is asked.decision
    assert after.limits["docker"] < 16_384
    modest = want("other", 2000)
    assert Acted(tmp_path / "two").apply(asked, modest)[1] == modest


def test_nobody_is_held_down_who_asks_for_nothing(tmp_path: Path) -> None:
    wants = (want("docker/p", 1024, "docker"),)
    assert Acted(tmp_path).apply(*wants) == wants
    alone = (want("other", 4096), want("docker/p", 4096, "not/held"))
    assert Acted(tmp_path / "two").apply(*alone) == alone


def test_algorithm_1_is_left_to_the_letter(tmp_path: Path) -> None:
    wants = (want("docker/p", 16_384, "docker"),)
    assert Acted(tmp_path, literal=True).apply(*wants) == wants


def test_a_pod_whose_request_is_moved_is_left_to_the_kubelet(tmp_path: Path) -> None:
    """Its shares are absolute: 16384 may be what it was found with, and 2000 four times that."""
    acted, foreign = Acted(tmp_path), 0.9 * float(os.cpu_count() or 1)
    pod = replace(want("docker/p", 16_384, "docker", foreign=foreign), request=16_384)
    beside = want("other", 1100, "docker", foreign=foreign)
    assert acted.apply(pod) == (pod,)
    after, other = acted.apply(pod, beside, now=2.0)
    assert after is pod
    assert other.limits == {"docker": 1024}  # nobody knows how much this one waits: what is in force stays


def test_a_group_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    acted = Acted(tmp_path)
    (acted.tree.hierarchy.folder("docker") / "cpu.weight").write_text("what?")
    wants = (want("docker/p", 16_384, "docker"),)
    assert acted.apply(*wants) == wants


def test_where_the_foreign_work_is_not_known_components_have_what_is_in_force(tmp_path: Path) -> None:
    (after,) = Acted(tmp_path).apply(want("docker/p", 8192, "docker", foreign=None))
    assert (after.decision.shares, after.limits) == (1024, {"docker": 1024})


def stepped(*, is_raised: bool = True, shown: bool = False, shares: int = 16_384) -> Want:
    """What one asks for that is raised against other channels at the group above it."""
    asked = want("docker/p", shares, "docker", foreign=0.9 * float(os.cpu_count() or 1))
    placement = replace(asked.placement, kept_back=True, against_tenants=("docker",), is_raised=is_raised)
    return replace(asked, placement=placement, shown=shown)


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        (stepped(), 1126),
        (stepped(shares=1100), 1100),
        (stepped(shares=512), 1024),
        (stepped(is_raised=False), 1024),  # it has what it is owed: what is in force stays
    ],
)
def test_against_tenants_a_group_is_raised_by_a_tenth_whatever_is_asked_for(
    tmp_path: Path, asked: Want, most: int
) -> None:
    beside = want("other", 2000)  # somebody is raised, so that limits are told
    after, _ = Acted(tmp_path).apply(asked, beside)
    assert after.limits == {"docker": most}


def test_a_step_that_moves_no_weight_is_followed_by_a_larger_one(tmp_path: Path) -> None:
    acted = Acted(tmp_path)
    most = [acted.apply(stepped(), now=float(period))[0].limits["docker"] for period in range(10)]
    assert most == [1126, 1239, 1363, 1499, 1649, 1814, 1995, 2048, 2048, 2048]


def test_a_dry_runs_wish_is_no_step(tmp_path: Path) -> None:
    """Its level's law says what would be given."""
    (after,) = Acted(tmp_path).apply(stepped(shown=True))
    assert after.limits["docker"] > 1126


def test_algorithm_1_takes_no_steps(tmp_path: Path) -> None:
    wants = (stepped(),)
    assert Acted(tmp_path, literal=True).apply(*wants) == wants


@pytest.mark.parametrize(
    ("shares", "shown", "limits"),
    [(4096, False, {}), (1024, False, {"docker": 1126}), (4096, True, {"docker": 1126})],
)
def test_a_group_that_algorithm_1_raises_too_is_left_to_it(
    tmp_path: Path, shares: int, shown: bool, limits: dict[str, int]
) -> None:
    """One in it is raised by its own channel's law to the letter, another one against tenants."""
    acted = Acted(tmp_path)
    acted.ancestry = Ancestry(acted.tree.guard, "letter".__eq__)
    beside = want("other", shares, "docker")
    beside = replace(beside, decision=replace(beside.decision, channel="letter"), shown=shown)
    after, _ = acted.apply(stepped(), beside)
    assert after.limits == limits


def test_a_small_group_that_wants_no_step_more_is_taken_no_further(tmp_path: Path) -> None:
    acted, beside = Acted(tmp_path), want("other", 2000)
    for shares, most in ((16_384, 1126), (16_384, 1239), (1100, 1100), (16_384, 1126)):
        after, _ = acted.apply(stepped(shares=shares), beside)
        assert after.limits == {"docker": most}
