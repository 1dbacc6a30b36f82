"""When the host shows the onset of interference, from numbers of runnable threads alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qioi.monitor.scheduler.onset import FACTOR, KNOWN, PAUSE, Onset, runnable

LEDGER = [7, 4, 9, 6, 11, 5, 8, 3, 7, 6]


def onsets(counts: list[int], cpus: int = 2, every: float = 0.1) -> list[int]:
    """Give the looks, counted from 0, that showed an onset."""
    onset, found = Onset(cpus), []
    for number, running in enumerate(counts):
        onset, why = onset.step(100.0 + number * every, running)
        if why is not None:
            found.append(number)
    return found


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (LEDGER * 30, []),
        ([*LEDGER * 5, *[27] * 20], [51]),  # the second look that shows it
        ([*LEDGER * 5, 27, *LEDGER * 5], []),  # a burst
        ([*LEDGER * 5, 27, 6, 27, 6, 27, 6], []),
        ([*LEDGER * 5, *[12] * 50], []),  # too few to be told from the ledger's own
        ([*[27] * 100], []),  # who was there before us is usual
        ([*LEDGER, *[27] * 100], []),  # not yet known what is usual
        ([*[40] * 2, *LEDGER * 2, *[27] * 20], [23]),  # we, or the load, began with a burst: that is not what is usual
        ([*[0] * 50, *[3] * 50], []),  # no more than there are CPUs for, and one who looks
        ([*[0] * 50, *[5] * 50], []),  # no more than a burst of a quiet ledger's own
        ([*[0] * 50, *[6] * 50], [51]),
        ([*LEDGER * 5, *[27] * 100, *LEDGER * 10], [51]),  # who stays comes once; who goes does not come
        ([*LEDGER * 5, *[27] * 20, *LEDGER * 2, *[27] * 5], [51]),  # so soon again: left to the period
        ([*LEDGER * 5, *[27] * 20, *LEDGER * 10, *[27] * 20], [51, 171]),
    ],
)
def test_onsets(counts: list[int], expected: list[int]) -> None:
    assert onsets(counts) == expected


@given(
    st.lists(st.tuples(st.integers(0, 20) | st.integers(0, 500), st.integers(1, 60)), max_size=12),
    st.integers(1, 64),
    st.floats(0.04, 1.0),
)
@example([(6, 40), (27, 2), (6, 20), (27, 10)], 2, 0.1)  # another one, as soon as what is usual is known again
@example([(6, 5), (27, 5)], 2, 0.1)  # it is not known yet
@example([(6, 40), (27, 5)], 64, 0.1)  # few, for so many CPUs
def test_an_onset_is_rare_and_never_among_few(runs: list[tuple[int, int]], cpus: int, every: float) -> None:
    """Each run is a number of threads, and so many looks that find it."""
    counts = [running for running, looks in runs for _ in range(looks)]
    found = onsets(counts, cpus, every)
    assert all((later - earlier) * every >= PAUSE - 1e-6 for earlier, later in pairwise(found))
    assert all(counts[one] > cpus + 1 and one * every >= KNOWN - 1e-6 for one in found)


def test_it_is_said_in_words() -> None:
    onset = Onset(2)
    for number in range(50):
        onset, why = onset.step(number * 0.1, 6)
        assert why is None
    onset, _ = onset.step(5.0, int(6 * FACTOR) + 1)
    _, why = onset.step(5.1, 20)
    assert why is not None
    assert why.startswith("20 threads are runnable, usual are ")


def test_loadavg() -> None:
    assert runnable(b"0.52 1.01 1.96 27/129 13017\n") == 27
    with pytest.raises((ValueError, IndexError)):
        runnable(b"0.52")
