"""Slices that were kept are watched over, and prove themselves anew beside the next neighbours."""

from __future__ import annotations

from sliced_host import LONG, Host, kept

from qioi.controller.findings.slice_trial import PHASE, STEADY, WATCH, WATCHED


def test_kept_slices_are_watched_over_and_given_up_when_the_gain_ends() -> None:
    host = Host(0.5, 1.0)
    host.run(LONG)
    assert host.trial.verdict is True
    on = host.run(10 * WATCH)
    assert 0.9 < sum(on) / len(on) < 1
    assert host.trial.verdict is True
    host.with_slices = 1.5
    host.run(2 * (WATCH + 2 * PHASE + 2))
    assert host.trial.verdict is False
    assert host.trial.text.startswith("not kept any more")


def test_kept_slices_that_begin_to_harm_are_watched_without_a_pause() -> None:
    host = kept()
    host.run(2 * WATCH)
    host.with_slices = 1.5
    begun = host.now
    while host.trial.gains[-1] > 0:
        host.run(1)
        assert host.now < 86_400
    assert host.now - begun <= WATCH + 2 * PHASE
    assert host.trial.verdict is True
    assert sum(host.run(2 * (PHASE + 4))) <= 4
    assert host.trial.verdict is False


def test_one_pair_with_a_loss_is_looked_into_at_once_and_may_be_noise() -> None:
    host = kept()
    while host.trial.phase is None or not host.trial.on:  # the second phase of a pair that watches
        host.run(1)
        assert host.now < 86_400
    host.with_slices = 1.5
    host.run(2)
    assert not host.trial.on
    host.with_slices = 0.5
    host.run(2 * PHASE + 4)
    assert host.trial.on
    assert host.trial.text.startswith("kept: 3 last pairs")


def test_in_the_next_interference_kept_slices_prove_themselves_before_they_are_in_force() -> None:
    host = kept()
    host.run(1, active=False)
    assert not any(host.run(STEADY + PHASE, lacking=False))  # the new neighbours are dealt with by shares
    on = host.run(STEADY + PHASE)
    assert not any(on)
    on = host.run(2 * PHASE + 2)
    assert any(on)
    assert host.trial.on
    host.run(WATCH / 2)
    assert all(host.run(5, moved=True))


def test_kept_slices_that_harm_beside_the_next_neighbours_are_out_before_they_are_in_force() -> None:
    host = kept()
    host.run(1, active=False)
    host.with_slices = 1.5
    assert sum(host.run(3 * (STEADY + 2 * PHASE))) <= WATCHED * 3
    assert host.trial.verdict is False


def test_kept_slices_that_cannot_be_compared_beside_the_next_neighbours_are_given_up() -> None:
    host = kept()
    host.run(1, active=False)
    host.tps = lambda on: 0.0
    assert not any(host.run(STEADY + WATCHED * (PHASE + 4)))
    assert host.trial.verdict is False
