"""Counters that an operator names as what counts: several nodes together, restarts, nodes away, late answers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metrics_page import parse_page

from qioi.model.counting import Count
from qioi.monitor.metrics.counted import ABSENT, WINDOW, CountedThroughput
from qioi.monitor.metrics.exposition import MOST_LINES

INSERTS = Count("db_commands_total", {"command": ("insert", "update")})
PAGE = """\
# TYPE db_commands_total counter
db_commands_total{command="insert"} 40
db_commands_total{command="update",table="a"} 2
db_commands_total{command="select"} 900
db_commands_total_of_somebody_else{command="insert"} 1000
plain_total 7
broken{
"""


def steady(counted: CountedThroughput, node: str, rate: float, begin: float, end: float, value: float = 0.0) -> float:
    """Show a node's counter every second; give its last value."""
    now = begin
    while now <= end:
        counted.observe(node, {"db": {0: value}}, now)
        now, value = now + 1, value + rate
    return value


def together(
    counted: CountedThroughput,
    rates: Mapping[str, float],
    begin: int,
    end: int,
    values: Mapping[str, float] | None = None,
) -> None:
    """Show several nodes' counters every second, each from its value or 0 on."""
    for second in range(begin, end + 1):
        for node, rate in rates.items():
            counted.observe(node, {"db": {0: (values or {}).get(node, 0) + rate * (second - begin)}}, second)


def test_a_page_is_read_by_metric_and_labels() -> None:
    page = parse_page(PAGE.encode(), {"db": INSERTS, "plain": Count("plain_total"), "none": Count("nothing")})
    assert page.counts == {"db": 42, "plain": 7}
    assert page.transactions == {}
    assert parse_page(PAGE.encode()).counts == {}


@pytest.mark.parametrize("value", ["NaN", "-1", "1e300"])
def test_impossible_values_do_not_count(value: str) -> None:
    assert parse_page(f"plain_total {value}\n".encode(), {"db": Count("plain_total")}).counts == {}


def test_nodes_that_each_count_their_own_are_added_up() -> None:
    counted = CountedThroughput({"db": INSERTS})
    for node, rate in (("a", 100.0), ("b", 50.0)):
        steady(counted, node, rate, 0, 10)
    reading = counted.reading("db", 10.0)
    assert reading.throughput == pytest.approx(150)
    assert reading.committed == 1500
    assert (reading.age, reading.source) == (0.0, "metrics")


def test_nodes_that_each_count_all_are_not_added_up() -> None:
    counted = CountedThroughput({"db": Count("x", combine="max")})
    together(counted, {"a": 100, "b": 90}, 0, 10)
    reading = counted.reading("db", 10.0)
    assert reading.throughput == pytest.approx(100)
    assert reading.committed == 1000


def test_nodes_that_each_count_all_may_be_replaced_one_by_one() -> None:
    counted = CountedThroughput({"db": Count("x", combine="max")})
    together(counted, {"a": 100, "b": 90}, 0, 1000)
    before = counted.reading("db", 1000).committed or 0
    counted.forget("a")
    together(counted, {"b": 90, "c": 100}, 1001, 1010, {"b": 90 * 1001})
    counted.forget("b")
    together(counted, {"c": 100, "d": 90}, 1011, 1020, {"c": 1000})
    reading = counted.reading("db", 1020)
    assert before + 1800 <= (reading.committed or 0) <= before + 2000
    assert reading.age == 0


def test_there_is_no_rate_before_a_window_is_full() -> None:
    counted = CountedThroughput({"db": INSERTS})
    assert counted.reading("db", 0.0).throughput is None
    steady(counted, "a", 100, 0, WINDOW - 1)
    assert counted.reading("db", WINDOW - 1).throughput is None
    steady(counted, "a", 100, WINDOW, WINDOW, 600)
    assert counted.reading("db", WINDOW).throughput == pytest.approx(100)


def test_a_counter_that_begins_anew_loses_nothing_and_adds_nothing() -> None:
    counted = CountedThroughput({"db": INSERTS})
    steady(counted, "a", 100, 0, 10, 5000)
    steady(counted, "a", 100, 11, 20)  # its process was started again, at 0
    assert counted.reading("db", 11.0).throughput is not None
    reading = counted.reading("db", 20.0)
    assert reading.throughput == pytest.approx(100)
    assert reading.committed == 1000 + 900


def test_an_answer_that_comes_late_changes_nothing() -> None:
    counted = CountedThroughput({"db": INSERTS})
    for now in (0.0, 1.0, 2.0, 3.0, 6.7, 7.0, 8.0, 9.4):  # each page tells what was so when it came
        counted.observe("a", {"db": {0: 100 * now}}, now)
    assert counted.reading("db", 9.9).throughput == pytest.approx(100)


def test_a_node_that_does_not_answer_counts_for_a_while_and_then_is_away() -> None:
    counted = CountedThroughput({"db": INSERTS})
    steady(counted, "a", 100, 0, 60)
    steady(counted, "b", 50, 0, 10)
    assert counted.reading("db", 10 + ABSENT).throughput == pytest.approx(150)
    assert counted.reading("db", 11 + ABSENT).throughput == pytest.approx(100)
    steady(counted, "b", 50, 50, 60, 9000)  # it is back, and what it did meanwhile is no rate of now
    assert counted.reading("db", 60.0).throughput == pytest.approx(150)
    counted.forget("b")
    assert counted.reading("db", 60.0).throughput == pytest.approx(100)
    assert counted.reading("db", 60 + 2 * ABSENT).throughput is None


def test_silence_is_seen() -> None:
    counted = CountedThroughput({"db": INSERTS})
    value = steady(counted, "a", 100, 0, 10)
    steady(counted, "a", 0, 11, 25, value - 100)
    reading = counted.reading("db", 25.0)
    assert reading.throughput == 0
    assert reading.age == pytest.approx(15)
    assert (counted.heard(10.0), counted.heard(11.0)) == (("db",), ())


def test_a_page_that_is_late_is_no_silence_until_its_node_is_away() -> None:
    counted = CountedThroughput({"db": INSERTS})
    steady(counted, "a", 100, 0, 10)
    assert counted.reading("db", 10 + ABSENT).age == 0
    assert counted.reading("db", 11 + ABSENT).age == pytest.approx(11 + ABSENT - 10)


def test_a_series_that_begins_anew_leaves_the_others_alone() -> None:
    counted = CountedThroughput({"db": INSERTS})
    for second in range(11):  # one database of three has its statistics reset
        reset = 70 + 3 * second if second < 5 else 3 * (second - 5)
        counted.observe("a", {"db": {1: 1e6 + 4 * second, 2: reset, 3: 9e5 + 3 * second}}, float(second))
    reading = counted.reading("db", 10.0)
    assert reading.throughput == pytest.approx(10, abs=1)
    assert reading.committed == pytest.approx(100, abs=3)


def test_a_series_that_is_dropped_leaves_the_others_alone() -> None:
    counted = CountedThroughput({"db": INSERTS})
    for second in range(11):
        others = {2: 1e6} if second < 5 else {}
        counted.observe("a", {"db": {1: 5e5 + 10 * second, **others}}, float(second))
    reading = counted.reading("db", 10.0)
    assert (reading.throughput, reading.committed) == (pytest.approx(10), 100)


def test_a_series_that_is_missing_for_a_while_adds_what_it_has_grown_by() -> None:
    counted = CountedThroughput({"db": INSERTS})
    for second in range(11):
        others = {2: 1e6 + 7 * second} if second != 5 else {}
        counted.observe("a", {"db": {1: 5e5 + 3 * second, **others}}, float(second))
    reading = counted.reading("db", 10.0)
    assert (reading.throughput, reading.committed) == (pytest.approx(10), 100)


def test_the_first_value_of_a_new_series_adds_nothing() -> None:
    counted = CountedThroughput({"db": INSERTS})
    for second in range(11):  # a database is restored with its statistics
        restored = {2: 1e6 + 10 * second} if second >= 5 else {}
        counted.observe("a", {"db": {1: 10.0 * second, **restored}}, float(second))
    assert counted.reading("db", 10.0).committed == 10 * 10 + 10 * 5


def test_series_that_come_and_go_do_not_fill_the_memory() -> None:
    counted = CountedThroughput({"db": INSERTS})
    counted.observe("a", {"db": {0: 1.0}}, 0.0)
    for second in range(1, 5):
        made_up = dict.fromkeys(range(second * MOST_LINES, (second + 1) * MOST_LINES - 1), 1.0)
        counted.observe("a", {"db": {0: second + 1.0, **made_up}}, float(second))
    assert counted.reading("db", 4.0).committed == 4
    assert sum(len(its.last) for its in counted._channels["db"].counters.values()) <= MOST_LINES


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 1e12)), max_size=30))
def test_whatever_pages_say_the_sum_is_finite_and_never_falls(shown: list[tuple[str, float]]) -> None:
    counted, before = CountedThroughput({"db": INSERTS}), 0
    for now, (node, value) in enumerate(shown):
        counted.observe(node, {"db": {0: value}}, float(now))
        reading = counted.reading("db", float(now))
        assert (reading.committed or 0) >= before
        before = reading.committed or 0
        assert reading.throughput is None or reading.throughput >= 0
