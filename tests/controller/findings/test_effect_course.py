"""Who is suspect of a raise without effect, and what a phase of its trial proves."""

from __future__ import annotations

import pytest

from qioi.controller.findings.effect import (
    BEFORE,
    LONG,
    MORE,
    SETTLED,
    SLACK,
    Course,
    Looks,
    Member,
    Phase,
    Rate,
    Reading,
)

REST, MOST = 1024, 16_384
STARVED = Rate(run=0.1, wait=0.9, part=0.9)


def looks(rate: Rate, length: float = LONG) -> Looks:
    """A look that is over."""
    return Looks().add(rate._replace(seconds=length), length)


def raised(rest: Rate | None, late: Rate) -> Course:
    """Give the course of a component that was raised: a look from before the raise, and one with it."""
    return Course(MOST, 0.0, Looks() if rest is None else looks(rest, BEFORE), looks(late))


@pytest.mark.parametrize(
    ("rate", "need"),
    [
        (Rate(0.1, 0.9, 0.95), 0.9),
        (Rate(0.1, 0.9, 0.4), 0.4),  # the rest of its waiting is behind the ledger
        (Rate(0.0, 0.0, 1.0), 0.0),
    ],
)
def test_need_is_no_more_than_foreigners_have_of_the_busy_time(rate: Rate, need: float) -> None:
    assert rate.need == pytest.approx(need)


@pytest.mark.parametrize(
    ("rest", "late", "suspect"),
    [
        (STARVED, STARVED, True),
        (Rate(0.2, 0.8, 0.8), Rate(0.3, 0.7, 0.7), True),  # odds of 4 and 2.3
        (Rate(0.2, 0.8, 0.8), Rate(0.35, 0.65, 0.65), False),  # of 4 and 1.9: less than half
        (Rate(0.7, 0.3, 0.3), Rate(0.7, 0.3, 0.3), False),  # it hardly waits
        (Rate(0.1, 0.9, 0.5), Rate(MORE * 0.1 + SLACK, 1.0, 0.5), True),
        (Rate(0.1, 0.9, 0.5), Rate(MORE * 0.1 + SLACK + 0.01, 1.0, 0.5), False),  # it runs more
        (Rate(0.1, 0.9, 0.9), Rate(0.05, 0.5, 0.9), False),  # it does not work
        (None, STARVED, True),
        (None, Rate(0.25, 0.75, 0.75), False),  # a raise may have helped it
    ],
)
def test_who_is_suspect(rest: Rate | None, late: Rate, suspect: bool) -> None:
    assert raised(rest, late).is_suspect is suspect


@pytest.mark.parametrize(("share", "looked_at"), [(REST, 0), (2 * REST, 0), (4 * REST, 4 * REST), (MOST, MOST)])
def test_only_a_raise_that_is_large_enough_is_looked_at(share: int, looked_at: int) -> None:
    assert Course().step(0.0, Reading(share, REST, STARVED._replace(seconds=1.0))).share == looked_at


def test_it_is_settled_when_its_share_is() -> None:
    course = raised(STARVED, STARVED)
    assert not course.is_settled(SETTLED - 0.1)
    assert course.is_settled(SETTLED)


@pytest.mark.parametrize(("share", "anew"), [(MOST, False), (round(1.05 * MOST), False), (MOST // 2, True)])
def test_another_share_is_looked_at_anew(share: int, anew: bool) -> None:
    course = raised(STARVED, STARVED).step(30.0, Reading(share, REST, STARVED._replace(seconds=1.0)))
    assert (course.late == Looks()) is anew
    assert course.since == (30.0 if anew else 0.0)


@pytest.mark.parametrize(("weight", "quarter"), [(6, 2), (7, 2), (14, 4), (16, 4)])
def test_a_quarter_that_is_rounded_up_to_a_weight_is_followed_all_the_same(weight: int, quarter: int) -> None:
    """A pod's weight may be 1. Its trial ended in vain, and with it all later ones."""
    member = Member(weight * 1024, STARVED)
    assert round(member.most(Phase.QUARTER) / 1024) == quarter
    for share, follows in ((quarter, True), (weight, False)):
        seen = Reading(share * 1024, REST, STARVED._replace(seconds=1.0))
        assert (member.step(Phase.QUARTER, seen, late=True) is not None) is follows


@pytest.mark.parametrize("phase", [Phase.DEFAULT, Phase.RAISED])
@pytest.mark.parametrize(("seen", "proves"), [(STARVED, True), (Rate(0.2, 0.8, 0.9), False), (Rate(0.1, 0.4), False)])
def test_a_phase_in_which_anything_was_otherwise_proves_nothing(phase: Phase, seen: Rate, proves: bool) -> None:
    """The default is compared with the share before it, and the share that is raised again with the default."""
    member = Member(MOST, STARVED, STARVED, long=looks(seen))
    assert (member.end(phase) is not None) is proves


def test_a_phase_that_was_not_seen_proves_nothing() -> None:
    assert all(Member(MOST, STARVED).end(phase) is None for phase in Phase)
