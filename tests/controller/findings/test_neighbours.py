"""What neighbours weigh together: at once, not one after the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qioi.controller.findings.neighbours import KEPT, Neighbours


def test_jobs_that_come_one_after_the_other_are_not_added_up() -> None:
    """Each in a group of its own: a minute of them was taken for sixty neighbours."""
    neighbours = Neighbours()
    for second in range(200):
        assert neighbours.look(float(second), {"g": {f"g/job{second}": 1024}}) == {"g": (1024, 1024)}


def test_neighbours_that_pause_count_meanwhile_and_those_that_stay_away_do_not() -> None:
    neighbours = Neighbours()
    both = {"g": (400, 300)}
    assert neighbours.look(1000.0, {"g": {"g/a": 100, "g/b": 300}, "h": {}}) == both
    assert all(neighbours.look(1000.0 + second, {}) == both for second in range(int(KEPT) + 1))
    assert neighbours.look(1001.0 + KEPT, {}) == {}


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(1, 10_000), min_size=1), min_size=1, max_size=200))
def test_it_is_the_most_of_the_last_minute(looks: list[dict[str, int]]) -> None:
    neighbours = Neighbours()
    for second, look in enumerate(looks):
        beside = neighbours.look(float(second), {"g": look})
    last = looks[-int(KEPT) - 1 :]
    assert beside == {"g": (max(sum(look.values()) for look in last), max(max(look.values()) for look in last))}


def test_all_is_forgotten_where_there_is_room() -> None:
    neighbours = Neighbours()
    neighbours.look(1.0, {"g": {"g/a": 100}})
    neighbours.forget()
    assert neighbours.look(2.0, {}) == {}
