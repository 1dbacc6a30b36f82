"""When the law ``adaptive`` gives a share back, and when it holds it."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace
from stepped_law import CROWDED, LIMITS, ROOMY, law_at, run, seen

from qioi.controller.laws.adaptive import Adaptive
from qioi.controller.laws.backoff import Backoff
from qioi.model import Bounds, HostLoad


def test_room_must_last_before_the_share_goes_back() -> None:
    law, _ = run(law_at(8000), *(seen(i, 0.0, host=ROOMY) for i in range(3)), seen(3, 0.0, host=CROWDED))
    assert law.memory.share == 8000
    law, _ = run(law, *(seen(4 + i, 0.0, host=ROOMY) for i in range(5)))
    assert 1024 < law.memory.share < 8000
    law, reason = run(law, *(seen(9 + i, 0.0, host=ROOMY) for i in range(20)))
    assert law.memory.share == 1024
    assert "default share" in reason


def test_a_host_that_is_not_known_has_no_room() -> None:
    law, _ = run(law_at(8000), *(seen(i, 0.01, host=None) for i in range(60)))
    assert law.memory.share == 8000


def test_a_release_that_hurt_is_put_off_longer_each_time() -> None:
    law, now, blocks = law_at(4000), 0.0, []
    for _ in range(8):
        while law.memory.share >= 4000:  # until it is released
            now += 1
            assert now < 86_400
            law, _ = law.step(seen(now, 0.0, host=ROOMY))
        while law.memory.share < 4000:  # and that hurts
            now += 1
            assert now < 86_400
            law, _ = law.step(seen(now, 0.9, host=HostLoad(0.09, 0.91)))
        blocks.append(law.memory.release.wait)
        held, reason = run(law, *(seen(now + i, 0.0, host=ROOMY) for i in range(1, 5)))
        assert held.memory.share == law.memory.share
        assert "a release hurt lately" in reason
    assert blocks == [5, 10, 20, 40, 80, 160, 300, 300]


def test_a_new_neighbour_long_after_a_release_is_no_relapse() -> None:
    law = law_at(1024.0, release=Backoff(80.0, tried_at=0.0))
    law, _ = run(law, seen(100, 0.9, host=CROWDED))
    assert law.memory.release.wait == 0
    assert law.memory.release.until == -math.inf


def test_while_the_neighbour_stays_probes_are_small_and_rare() -> None:
    law, _ = run(Adaptive.start(bounds=LIMITS), seen(0, 0.8, host=HostLoad(0, 1)))
    raised = law.memory.share
    moves = []
    for now in range(1, 300):
        before = law.memory.share
        law, reason = law.step(seen(now, 0.01, host=CROWDED))
        if law.memory.share != before:
            moves.append(now)
            assert law.memory.share == pytest.approx(0.95 * before)
            assert "a lower share tried" in reason.reason
    assert law.memory.share < raised
    assert moves == [60, 120, 180, 240]


def test_a_probe_that_hurt_doubles_the_time_to_the_next() -> None:
    law = law_at(4000, probe=Backoff(60.0, 0.0))
    law, _ = run(law, seen(0, 0.01, host=CROWDED))
    assert law.memory.share == 3800
    law, _ = run(law, seen(3, 0.9, host=CROWDED))
    assert law.memory.probe.wait == 120
    assert law.memory.probe.until == 123


def test_a_probe_ends_at_the_default_though_the_floor_is_lower() -> None:
    law = replace(law_at(1050, probe=Backoff(60.0, 0.0)), bounds=Bounds(2, 16384))
    assert law.step(seen(0, 0.01, host=CROWDED))[0].memory.share == 1024


def test_who_comes_while_a_release_is_on_its_way_is_probed_as_if_it_were_the_first() -> None:
    """What hurt beside those who went, an hour apart, says nothing of those who came."""
    law, _ = run(law_at(8000, probe=Backoff(3840.0, 4000.0)), *(seen(i, 0.0, host=ROOMY) for i in range(5)))
    released = law.memory.share
    assert 1024 < released < 8000
    held, _ = run(law, *(seen(i, 0.01, host=CROWDED) for i in range(5, 63)))
    assert held.memory.share == released
    probed, _ = run(held, *(seen(i, 0.01, host=CROWDED) for i in range(63, 66)))
    assert probed.memory.share == pytest.approx(0.95 * released)


@pytest.mark.parametrize(("need", "a"), [(0.13, 100.0), (0.0, 90.0)])
def test_no_probe_where_it_is_just_enough(need: float, a: float) -> None:
    law = law_at(4000, probe=Backoff(60.0, 30.0), raised_at=29.9)
    law, reason = run(law, *(seen(i, need, host=HostLoad(0, 1), a=a, t=100 if a < 100 else None) for i in range(31)))
    assert law.memory.share == 4000
    assert "just enough" in reason


def test_in_silence_a_share_stays_while_the_neighbour_does_and_goes_back_with_it() -> None:
    law, _ = run(law_at(8000), seen(0, 0.1, host=CROWDED))
    kept, reason = run(law, *(seen(i, 0.1, age=float(i), host=CROWDED) for i in range(1, 600)))
    assert kept.memory.share == 8000
    assert reason == "no commits for 593 s, but the neighbour is still there: share held"
    gone, reason = run(kept, *(seen(i, 0.1, age=float(i), host=ROOMY) for i in range(600, 604)))
    assert 1024 < gone.memory.share < 8000
    assert reason == "the neighbour is gone: back towards the default"
    unknown, reason = run(law, *(seen(i, 0.1, age=float(i), host=None) for i in range(1, 60)))
    assert (unknown.memory.share, reason) == (1024, "no commits: default share")


@pytest.mark.parametrize(("need", "age"), [(None, 0.1), (0.9, None)])
def test_missing_input_holds_then_decays_to_the_default(need: float | None, age: float | None) -> None:
    law, _ = run(law_at(8000), seen(0, 0.1, host=CROWDED))
    held, reason = run(law, *(seen(i, need, age=age, host=CROWDED) for i in range(1, 11)))
    assert held.memory.share == 8000
    assert "share held" in reason
    law, reason = run(held, *(seen(i, need, age=age, host=CROWDED) for i in range(11, 14)))
    assert 1024 < law.memory.share < 8000
    assert "back towards the default" in reason
    law, reason = run(law, *(seen(i, need, age=age, host=CROWDED) for i in range(14, 35)))
    assert law.memory.share == 1024
    assert reason.endswith("default share")


def test_what_is_taken_to_be_sent_to_is_raised_as_by_commits_and_let_go_as_without_them() -> None:
    silent = seen(1, 0.6, host=CROWDED, age=None, a=None)
    law, reason = run(Adaptive.start(bounds=LIMITS), silent)
    assert (law.memory.share, reason) == (1024, "no commits: default share")
    law, _ = run(law, *(replace(silent, now=float(now), presumed=True) for now in range(2, 12)))
    assert law.memory.share > 2048
    held, _ = run(law, *(replace(silent, now=float(now)) for now in range(12, 22)))
    assert held.memory.share == law.memory.share
    law, _ = run(held, *(replace(silent, now=float(now)) for now in range(22, 45)))
    assert law.memory.share == 1024


def test_without_any_input_from_the_start_a_raised_share_goes_back() -> None:
    law, _ = run(law_at(8000), *(seen(i, None) for i in range(30)))
    assert law.memory.share == 1024
