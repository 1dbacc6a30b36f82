"""What one report costs does not grow with the blocks that are kept: a peer's log may say what it likes.

The slow way, which looks at every event that is kept, comes to the same readings.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qioi.model import Commit
from qioi.monitor.commits import throughput
from qioi.monitor.commits.throughput import Throughput, _Channel, _Event

BLOCKS = 2000
#: Comparisons per event that a search in a sorted list takes, with some room.
FEW = 40


def commit(block: int, peer: str = "p", transactions: int = 10) -> Commit:
    return Commit("c", block, transactions, None, peer)


class Work:
    """Counts the comparisons of events, and those that are walked over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done = 0
        for name in ("__eq__", "__lt__"):
            monkeypatch.setattr(_Event, name, self._counted(name))

    def _counted(self, name: str) -> object:
        plain = getattr(_Event, name)

        def compare(one: _Event, other: _Event) -> bool:
            self.done += 1
            return bool(plain(one, other))

        return compare

    def watch(self, meter: Throughput) -> None:
        """Count the walks over a channel's events from now on."""
        work, channel = self, meter._channels["c"]

        class Walked(list[_Event]):
            def __iter__(self) -> Iterator[_Event]:
                work.done += len(self)
                return super().__iter__()

        channel.events = Walked(channel.events)
        self.done = 0


def test_a_network_that_begins_anew_is_taken_back_event_by_event(monkeypatch: pytest.MonkeyPatch) -> None:
    work, meter = Work(monkeypatch), Throughput()
    for block in range(BLOCKS):
        meter.observe(commit(block), block / BLOCKS)
        if block == BLOCKS // 2:
            meter.observe(commit(block, "q"), 0.5)
    meter.forget("p")
    work.watch(meter)
    meter.observe(commit(BLOCKS // 2 - 1, "q"), 1.0)
    meter.observe(commit(BLOCKS // 2, "q"), 1.0)
    assert meter.reading("c", 1.0).height == BLOCKS // 2
    assert meter.transactions("c") == 10 * (BLOCKS // 2 + 1)
    assert work.done < FEW * BLOCKS


def test_jumps_that_are_taken_back_cost_as_much_as_other_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    work, meter = Work(monkeypatch), Throughput()
    for block in range(BLOCKS):
        meter.observe(commit(block), block / BLOCKS)
    work.watch(meter)
    for block in range(BLOCKS, BLOCKS + 200):
        for reported in (10**6, 10**6 + 1, block):
            meter.observe(commit(reported), 1.0)
    assert meter.transactions("c") == 10 * (BLOCKS + 200)
    assert work.done < FEW * 600


def test_an_earlier_report_of_a_block_is_found_without_looking_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    work, meter = Work(monkeypatch), Throughput()
    for block in range(BLOCKS):
        meter.observe(commit(block), 1 + block / BLOCKS)
    work.watch(meter)
    for block in range(BLOCKS):
        meter.observe(commit(block, "q"), 0.5 + block / BLOCKS)
    assert work.done < FEW * BLOCKS


class SlowWay(Throughput):
    """Looks at every event."""

    def _take_back(self, channel: _Channel, supported: int) -> None:
        for false in [kept for kept in channel.events if kept.block > supported]:
            channel.events.remove(false)
            channel.recent.pop(false.block, None)
            channel.guesses.pop(false.block, None)
            channel.total -= false.transactions

    def _move(self, channel: _Channel, counted: _Event, time: float) -> None:
        channel.events.remove(counted)
        counted.time = time
        channel.events.append(counted)
        channel.events.sort()


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 1, 5, -1, -3, 100, -100]),
        st.sampled_from([1, 10]),
        st.sampled_from("pqr"),
        st.sampled_from([0.0, 0.1, 1.0, -0.5, -2.0, 50_000.0]),
        st.sampled_from([None, None, None, "forget", "skip"]),
    ),
    max_size=80,
)


@given(STEPS, st.sampled_from([8, 50_000]))
def test_the_slow_way_comes_to_the_same(steps: list[tuple[int, int, str, float, str | None]], most: int) -> None:
    """Peers go on where they are, jump, go back, are late, are forgotten, and have parts of their logs passed over."""
    fast, slow = Throughput(), SlowWay()
    heads = dict.fromkeys("pqr", 0)
    now = 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(throughput, "_MAX_EVENTS", most)
        for jump, transactions, peer, gap, also in steps:
            heads[peer] = max(0, heads[peer] + 1 + jump)
            now = max(0.0, now + gap)
            for meter in (fast, slow):
                if also == "skip":
                    meter.skipped(peer, 1000)
                meter.observe(commit(heads[peer], peer, transactions), now)
                if also == "forget":
                    meter.forget(peer)
            assert fast.reading("c", now) == slow.reading("c", now)
            assert fast.transactions("c") == slow.transactions("c")
            mine, its = fast._channels["c"], slow._channels["c"]
            assert (mine.events, mine.recent, mine.guesses) == (its.events, its.recent, its.guesses)
