"""When and how far the law ``adaptive`` raises a share."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec.structs import replace
from stepped_law import CROWDED, LIMITS, ROOMY, delay, law_at, run, seen

from qioi.controller.laws.adaptive import Adaptive
from qioi.controller.laws.law import Seen
from qioi.controller.laws.memory import Memory, Tuning
from qioi.controller.laws.need import odds
from qioi.model import Bounds, DelayReading, HostLoad


@pytest.mark.parametrize(
    ("need", "expected"),
    [(0.0, 1024), (0.3, 1024), (0.4, 2731), (0.5, 4096), (0.6, 6144), (0.7, 8192), (0.99, 8192)],
)
def test_first_raise_follows_the_need_up_to_the_step_cap(need: float, expected: int) -> None:
    law, _ = run(Adaptive.start(bounds=LIMITS), seen(1, need))
    assert law.memory.share == pytest.approx(expected, rel=0.05)


SUDDEN = HostLoad(0.0, 0.6, CROWDED, sudden=True)


def test_whom_an_onset_starves_is_raised_by_the_onset_step_at_once() -> None:
    """What a larger second step would bring a period later, a backlog has been piled up for meanwhile."""
    law, reason = run(Adaptive.start(bounds=LIMITS), *(seen(i, 0.02, host=ROOMY) for i in range(9)),
                      seen(9.3, 0.5, host=SUDDEN))  # fmt: skip
    assert law.memory.share == LIMITS.ceiling == Tuning().onset_step * 1024
    assert "many came at once" in reason
    bounds = Bounds(1024, 200_000)
    law, _ = Adaptive.start(bounds=bounds).step(seen(9.3, 0.5, host=SUDDEN))
    assert law.memory.share == Tuning().onset_step * 1024


def test_at_an_onset_whom_nothing_keeps_waiting_is_not_raised() -> None:
    law, _ = run(Adaptive.start(bounds=LIMITS), seen(9, 0.02, host=ROOMY), seen(9.3, 0.15, host=SUDDEN))
    assert law.memory.share == 1024
    law, _ = run(Adaptive.start(bounds=LIMITS), seen(9, 0.02, host=ROOMY), seen(9.3, 0.15, host=SUDDEN, a=80, t=100))
    assert 1024 < law.memory.share < 4096


def test_neighbours_that_come_to_others_are_an_onset_too() -> None:
    law, _ = run(law_at(2048), seen(9.3, 0.5, host=SUDDEN))
    assert law.memory.share == Tuning().onset_step * 1024
    law, _ = run(law_at(9000), seen(9.3, 0.5, host=SUDDEN))
    assert law.memory.share == LIMITS.ceiling


def test_more_need_more_share_for_each_component_of_its_own() -> None:
    shares = [run(Adaptive.start(bounds=LIMITS), seen(1, need))[0].memory.share for need in (0.4, 0.5, 0.6, 0.65)]
    assert shares == sorted(set(shares))


def test_waiting_behind_the_ledger_itself_is_no_need() -> None:
    law, reason = run(Adaptive.start(bounds=LIMITS), *(seen(i, 0.8, host=HostLoad(0.0, 0.01)) for i in range(20)))
    assert law.memory.share == 1024
    assert "nothing waits" in reason


@pytest.mark.parametrize(
    ("need", "a", "reason"),
    [
        (0.02, 100, "nothing waits behind foreign work"),
        (0.02, 130, "nothing waits behind foreign work"),
        (0.15, 100, "waits 15% of its runnable time behind foreign work, too little for a raise"),
        (0.15, None, "waits 15% of its runnable time behind foreign work, too little for a raise"),
        (0.30, 100, "waits 30% of its runnable time behind foreign work, not for long enough yet"),
        (0.60, 130, "waits 60% of its runnable time behind foreign work, but A is 30% above T"),
    ],
)
def test_who_stays_at_the_default_is_told_why(need: float, a: float | None, reason: str) -> None:
    looks = [seen(i, need, a=a, t=100) if a else seen(i, need) for i in range(2)]
    law, said = run(Adaptive.start(bounds=LIMITS), *looks)
    assert (law.memory.share, said.partition(":")[0]) == (1024, reason)


def test_many_threads_that_wait_for_the_same_moment_are_no_reason() -> None:
    """Fifty in line behind each other, while others have a twentieth of the time: no share brings more than that."""
    law, _ = run(Adaptive.start(bounds=LIMITS), *(seen(i, 0.98, host=HostLoad(0.0, 0.05)) for i in range(20)))
    assert law.memory.share == 1024
    law, _ = run(Adaptive.start(bounds=LIMITS), seen(1, 0.98, host=HostLoad(0.0, 0.9)))
    assert law.memory.share > 1024


@pytest.mark.parametrize("interval", [0.1, 1.0])
def test_what_does_not_run_at_all_beside_foreign_work_is_raised(interval: float) -> None:
    starved = DelayReading("peer0", 0.0, interval, 0, interval)
    law, _ = run(
        Adaptive.start(bounds=LIMITS),
        *(seen(i * interval, 0.02, host=ROOMY) for i in range(10)),
        *(replace(seen((10 + i) * interval, host=CROWDED), delay=starved) for i in range(10)),
    )
    assert law.memory.share == 16384


def test_a_host_that_did_nothing_has_no_foreign_part() -> None:
    assert run(Adaptive.start(bounds=LIMITS), seen(1, 0.8, host=HostLoad(1.0, 0.0)))[0].memory.share == 1024


#: In a moment there was no idle time and some foreign work, or the other way round; over a second not.
BLIP, GAP = HostLoad(0.0, 0.05, ROOMY), HostLoad(0.4, 0.0, CROWDED)


@pytest.mark.parametrize(("moment", "released"), [(ROOMY, True), (BLIP, True), (CROWDED, False), (GAP, False)])
def test_a_moment_neither_puts_the_way_back_off_nor_opens_it(moment: HostLoad, released: bool) -> None:
    law = law_at(4096, asked_at=0.0, room_since=None)
    usual = ROOMY if released else CROWDED
    law, _ = run(law, seen(1, host=usual), seen(2, host=usual), seen(3, host=usual), seen(3.3, host=moment),
                 seen(4.3, host=usual))  # fmt: skip
    assert (law.memory.share < 4096) == released


def test_what_is_raised_early_is_not_released_by_a_second_that_was_mostly_before() -> None:
    late = HostLoad(0.0, 0.6, ROOMY)
    law, reason = run(
        Adaptive.start(bounds=LIMITS), *(seen(i, host=ROOMY) for i in range(10)), seen(10.4, 0.8, host=late)
    )
    assert "raised" in reason
    after, _ = run(law, seen(10.7, 0.0, host=late), seen(11.7, 0.0, host=CROWDED))
    assert after.memory.share == law.memory.share > 1024


FULL, FILLED = HostLoad(0.0, 0.6, CROWDED), HostLoad(0.0, 0.6, ROOMY)


def moments(law: Adaptive, count: int, host: HostLoad, need: float = 0.8, a: float = 100.0) -> tuple[Adaptive, int]:
    """Ask so many times, a tenth of a second apart, after two seconds without need; say how many went by unraised."""
    law, _ = run(law, *(moment(number, 0.02, ROOMY) for number in range(20)))
    for number in range(20, 20 + count):
        before = law.memory.share
        law, _ = law.step(replace(moment(number, need, host), throughput=a, threshold=100.0))
        if law.memory.share > before:
            return law, number - 20
    return law, count


def moment(number: int, need: float, host: HostLoad) -> Seen:
    return replace(seen(number * 0.1, need, host=host), delay=delay(need, interval=0.1))


@pytest.mark.parametrize(
    ("count", "host", "raised"),
    [
        (2, FILLED, False),  # a kernel thread's tenth of a second
        (2, FULL, True),  # there was no idle CPU before either
        (2, replace(FILLED, sudden=True), True),  # many have come
        (10, FILLED, True),  # for a second: it may be bound to CPUs that are full
    ],
)
def test_a_moment_is_a_reason_only_on_a_full_host_or_when_somebody_has_come(
    count: int, host: HostLoad, raised: bool
) -> None:
    law, unraised = moments(Adaptive.start(bounds=LIMITS), count, host)
    assert (unraised < count) == raised == (law.memory.share > 1024)


@pytest.mark.parametrize(("host", "raised"), [(FILLED, False), (FULL, True)])
def test_nor_is_a_moment_below_the_threshold(host: HostLoad, raised: bool) -> None:
    assert (moments(Adaptive.start(bounds=LIMITS), 2, host, 0.3, 80.0)[0].memory.share > 1024) == raised


def test_the_first_moments_on_a_host_with_room_are_no_reason() -> None:
    law = Adaptive.start(bounds=LIMITS)
    law, _ = run(law, *(moment(number, 0.7, FILLED) for number in range(8)))
    assert law.memory.share == 1024
    law, _ = run(law, *(moment(number, 0.7, FILLED) for number in range(8, 11)))
    assert law.memory.share > 1024
    law, _ = run(Adaptive.start(bounds=LIMITS), moment(0, 0.7, FULL))
    assert law.memory.share > 1024


def test_what_was_waited_for_behind_those_who_went_is_no_reason_later() -> None:
    """The filter of a lasting need remembers many waits for long: with it a moment's need would be a lasting one."""
    enough = {"throughput": 200.0, "threshold": 100.0}  # far above its threshold it is not raised meanwhile
    law = law_at(4096, asked_at=0.0)
    law, _ = run(law, *(replace(moment(number, 0.9, FULL), **enough) for number in range(100)))
    law, reason = run(law, *(replace(moment(number, 0.02, ROOMY), **enough) for number in range(100, 132)))
    assert "the neighbour is gone" in reason
    raised = []
    for number in range(132, 200):
        before = law.memory.share
        law, _ = law.step(moment(number, 0.32, HostLoad(0.09, 0.91)))
        raised += [number] if law.memory.share > before else []
    assert 150 < raised[0] < 190  # when that has lasted


def test_below_the_threshold_a_smaller_need_suffices_and_the_step_aims_at_where_nothing_waits() -> None:
    law, reason = run(Adaptive.start(bounds=LIMITS), seen(1, 0.15, a=50, t=100))
    assert law.memory.share == pytest.approx(1024 * odds(0.15) / odds(Tuning().low), rel=0.01)
    assert "50% below its threshold" in reason


def test_a_need_that_is_nearly_gone_is_raised_by_the_shortfall() -> None:
    law, _ = run(Adaptive.start(bounds=LIMITS), seen(1, 0.09, a=50, t=100))
    assert law.memory.share == pytest.approx(1536)


@pytest.mark.parametrize(("a", "raised"), [(96.0, False), (94.0, True)])
def test_throughput_varies_by_a_few_per_cent_that_are_no_shortfall(a: float, raised: bool) -> None:
    law, _ = run(Adaptive.start(bounds=LIMITS), *(seen(i, 0.15, a=a, t=100) for i in range(3)))
    assert (law.memory.share > 1024) is raised


def test_below_the_threshold_nothing_is_raised_where_nothing_waits() -> None:
    law, _ = run(Adaptive.start(bounds=LIMITS), *(seen(i, 0.0, a=50, t=100) for i in range(20)))
    assert law.memory.share == 1024


def test_a_tenant_far_above_its_threshold_is_not_raised() -> None:
    law, _ = run(Adaptive.start(bounds=LIMITS), *(seen(i, 0.9, a=150, t=100, host=CROWDED) for i in range(20)))
    assert law.memory.share == 1024


def test_a_lasting_smaller_need_is_raised_once_in_a_slow_time_constant() -> None:
    law = Adaptive.start(bounds=LIMITS)
    raises = []
    for now in range(40):
        before = law.memory.share
        law, _ = law.step(seen(now, 0.32, host=HostLoad(0, 1)))
        if law.memory.share > before:
            raises.append(now)
    assert raises
    assert all(later - earlier >= 5 for earlier, later in pairwise(raises))


@pytest.mark.parametrize(("at", "left", "raises"), [(2, 0.3, True), (4, 0.3, True), (2, 0.15, False), (8, 0.15, False)])
def test_an_urgent_raise_that_was_not_enough_is_followed_up_soon(at: float, left: float, raises: bool) -> None:
    urgent, _ = run(Adaptive.start(bounds=LIMITS), seen(1, 0.6, host=HostLoad(0, 1)))
    assert urgent.memory.share > 1024
    law, _ = run(urgent, seen(at, left, host=HostLoad(0, 1)))
    # The filter remembers a little of the reading before.
    assert (law.memory.share > urgent.memory.share) == raises


def test_a_second_raise_waits_for_the_effect_of_the_first() -> None:
    law, _ = run(Adaptive.start(bounds=LIMITS), seen(1.0, 0.8))
    after, reason = run(law, seen(1.1, 0.8))
    assert after.memory.share == law.memory.share
    assert "waiting for the effect" in reason
    assert run(after, seen(1.6, 0.8))[0].memory.share > law.memory.share


def test_ceiling_is_reached_held_and_not_wound_up() -> None:
    law, reason = run(Adaptive.start(bounds=LIMITS), *(seen(i, 0.9, host=CROWDED) for i in range(50)))
    assert law.memory.share == 16384
    assert "at its ceiling" in reason
    law, _ = run(law, *(seen(50 + i, 0.0, host=ROOMY) for i in range(5)))
    assert law.memory.share < 16384


def test_small_moves_fall_into_the_dead_band() -> None:
    law = law_at(2000)
    law, reason = run(law, *(seen(i, 0.205, host=HostLoad(0, 1)) for i in range(60)))
    assert law.memory.share == 2000
    assert "dead band" in reason


def test_beside_heavy_neighbours_the_first_raise_goes_half_of_the_way_to_what_outweighs_them() -> None:
    reading = DelayReading("peer0", 0.0, 5.0, 0, 1.0)
    for ceiling, share in ((16_384, 8_192), (65_536, 32_768), (4_096, 4_096)):
        law, _ = Adaptive.start(bounds=Bounds(1024, ceiling)).step(replace(seen(1), delay=reading))
        assert law.memory.share == share


def test_a_reading_over_no_time_is_ignored() -> None:
    law, _ = Adaptive.start(bounds=LIMITS).step(replace(seen(1), delay=DelayReading("peer0", 1.0, 9.0, 1, 0.0)))
    assert law.memory.share == 1024


def test_the_whole_runnable_time_spent_waiting_is_the_step_cap() -> None:
    reading = DelayReading("peer0", 0.0, 5.0, 0, 1.0)
    law, _ = Adaptive.start(bounds=LIMITS).step(replace(seen(1), delay=reading))
    assert law.memory.share == 8192


def test_default_outside_the_bounds_rests_at_the_nearest() -> None:
    assert Adaptive.start(512, Bounds(1024, 2048)).memory.share == 1024
    assert Adaptive.start().bounds == Bounds()


def test_it_goes_on_from_a_share_within_its_bounds() -> None:
    law = law_at(4096).at(50_000)
    assert law.share == 16384
    assert law.framed(1024, Bounds(1024, 3000)).share == 3000
    assert law_at(512).framed(2048, Bounds(2048, 9000)).rest == 2048


def test_what_was_not_given_does_not_wind_up() -> None:
    law = law_at(4096, raised_at=3.0)
    assert law.limited(5000, 1024) is law
    assert law.limited(2000, 1024).memory == law_at(2000, raised_at=3.0).memory
    assert law.limited(2000, 2000).memory == law_at(2000).memory  # nothing was given: no effect is to be waited for


def test_the_memory_is_a_value() -> None:
    """Asking a law changes nothing in it: the same question gives the same answer."""
    law = Adaptive.start(bounds=LIMITS)
    assert law.step(seen(1, 0.9))[1] == law.step(seen(1, 0.9))[1]
    assert law.memory == Memory(1024.0)


NOTHING = DelayReading("peer0", 0.0, 0.0, 0, 1.0)


@pytest.mark.parametrize(("quiet", "raised"), [(0, True), (2, True), (6, False), (15, False), (60, False)])
def test_what_a_component_waited_for_before_it_ended_raises_nobody(quiet: int, raised: bool) -> None:
    """Its readings are zero then, of which the part that it waited stays what it was; a pause of two readings is none.

    It is short of its T all the while, as its channel is that another peer commits on.
    """
    law, _ = run(Adaptive.start(bounds=LIMITS), *(seen(i, 0.8, host=CROWDED, a=50, t=100) for i in range(3)))
    law = law.at(2048)
    shares = []
    for i in range(max(quiet, 1)):
        delay = NOTHING if quiet else seen(0, 0.8).delay
        law, verdict = law.step(replace(seen(3 + i, host=CROWDED, a=50, t=100), delay=delay))
        law, shares = law.at(2048), [*shares, verdict.shares]
    assert (shares[-1] > 2048) is raised
    law, reason = run(law, seen(100, 0.6, host=CROWDED, a=50, t=100))
    assert law.memory.share > 2048, reason
