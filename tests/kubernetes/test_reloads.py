"""Groups that systemd puts back: raised again at once, later, or never."""

from __future__ import annotations

from itertools import pairwise

from qioi.kubernetes.reloads import CALM, MOST, PAUSE, Reloads


def raised_at(reloads: Reloads, start: float, seconds: int) -> list[float]:
    """Give the times at which a group is raised again whose value somebody puts back in every second."""
    times = (start + step for step in range(seconds))
    return [now for now in times if reloads.is_over("pod", now)]


def test_a_reload_now_and_then_costs_nothing() -> None:
    reloads = Reloads()
    for number in range(20):
        assert reloads.is_over("pod", number * (CALM + 1))


def test_whoever_goes_on_putting_a_group_back_is_left_alone_in_the_end() -> None:
    raised = raised_at(Reloads(), 1000, 20_000)
    assert len(raised) == MOST
    pauses = [after - before for before, after in pairwise(raised)]
    assert pauses == [PAUSE * 2**number + 1 for number in range(MOST - 1)]  # one second until it is put back


def test_a_series_of_reloads_is_waited_out() -> None:
    reloads = Reloads()
    last = raised_at(reloads, 0, 120)[-1]
    assert not reloads.is_over("pod", last + 1)
    assert reloads.is_over("pod", last + CALM)
    assert reloads.is_over("pod", last + 3 * CALM)


def test_another_group_and_one_that_was_gone_begin_anew() -> None:
    reloads = Reloads()
    raised_at(reloads, 0, 20_000)
    assert reloads.is_over("other", 20_000)
    reloads.keep_only({"other"})
    assert reloads.is_over("pod", 20_001)
