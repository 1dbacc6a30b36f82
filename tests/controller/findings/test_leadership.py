"""A leader that is lost beside interference raises the orderers' floor until the interference ends."""

from __future__ import annotations

from deciding import decide as decide_once
from hypothesis import given
from hypothesis import strategies as st

from qioi.controller.deciding import Controller
from qioi.controller.findings.leaders import AFTER, ENDED, MOST, Leadership
from qioi.controller.policy import Policy
from qioi.model import ChannelReading, Component, Decision, DelayReading, HostLoad, Role


def run(
    state: Leadership, begin: int, seconds: int, *, lost: bool = False, room: bool | None, ratio: float = 1.0
) -> Leadership:
    for second in range(begin, begin + seconds):
        state = state.step(float(second), lost and second == begin, room, ratio)
    return state


def test_a_loss_while_the_host_has_room_is_no_reason() -> None:
    assert run(Leadership(), 0, 30, lost=True, room=True) == Leadership(room_since=0.0)


def test_beside_interference_twice_the_default_or_what_was_in_force() -> None:
    assert run(Leadership(), 0, 1, lost=True, room=False).factor == 2.0
    assert run(Leadership(), 0, 1, lost=True, room=False, ratio=5.0).factor == 5.0
    assert run(Leadership(), 0, 1, lost=True, room=False, ratio=99.0).factor == MOST


def test_one_change_is_logged_by_many_and_a_further_one_doubles() -> None:
    state = run(Leadership(), 0, 1, lost=True, room=False)
    state = run(state, 2, 1, lost=True, room=False)
    assert (state.factor, state.losses) == (2.0, 1)
    state = run(state, 20, 1, lost=True, room=False)
    assert (state.factor, state.losses) == (4.0, 2)


def test_what_is_not_known_of_the_host_is_no_interference_and_no_end_of_one() -> None:
    assert run(Leadership(), 0, 1, lost=True, room=None).factor == 1.0
    state = run(Leadership(), 0, 1, lost=True, room=False)
    state = run(state, 1, int(ENDED) + 1, room=None)
    assert state.factor == 2.0
    assert run(state, int(AFTER), 1, lost=True, room=None).factor == 4.0


def test_it_ends_with_the_interference_and_not_with_a_moment_of_room() -> None:
    state = run(Leadership(), 0, 1, lost=True, room=False)
    state = run(state, 1, int(ENDED) - 1, room=True)
    state = run(state, 10, 5, room=False)
    assert state.factor == 2.0
    assert run(state, 15, int(ENDED) + 1, room=True).factor == 1.0


def test_a_leader_lost_shortly_after_counts_too() -> None:
    state = run(Leadership(), 0, 1, room=False)
    assert run(state, int(AFTER), 1, lost=True, room=True).factor == 2.0
    assert run(state, int(AFTER) + 1, 1, lost=True, room=True).factor == 1.0


@given(st.lists(st.tuples(st.floats(0, 9), st.booleans(), st.booleans(), st.floats(0, 40)), max_size=30))
def test_the_floor_is_bounded_and_falls_only_at_the_end(periods: list[tuple[float, bool, bool, float]]) -> None:
    state, now = Leadership(), 0.0
    for pause, lost, room, ratio in periods:
        now += pause
        before, state = state, state.step(now, lost, room, ratio)
        assert 1.0 <= state.factor <= MOST
        assert state.factor >= before.factor or (state.factor == 1.0 and room)


def decide(law: str, role: Role, floors: dict[str, float], ceiling: int = 16_384) -> Decision:
    controller = Controller({"red": Policy("red", law, 100.0, ceiling=ceiling)})
    one = Component("one", role, "g/one", ("red",))
    delay = DelayReading("one", 0.1, 0.0, 10, 1.0)
    reading = {"red": ChannelReading("red", 100.0, 0.1)}
    decision = decide_once(controller, 1.0, one, 1024, 1024, reading, delay, HostLoad(0.0, 0.9), floors=floors)
    assert decision is not None
    return decision


def test_only_orderers_of_the_channel_under_adaptive_have_the_floor() -> None:
    raised = decide("adaptive", Role.ORDERER, {"red": 4.0})
    assert raised.shares == 4096
    assert "floor 4096: a Raft leader was lost beside interference" in raised.reason
    assert raised.working is not None
    assert raised.working.floor == 4096
    assert decide("adaptive", Role.ORDERER, {"red": 4.0}, ceiling=3000).shares == 3000
    high = decide("adaptive", Role.ORDERER, {"red": 0.5})
    assert (high.shares, "floor" in high.reason) == (1024, False)
    for law, role, floors in (
        ("adaptive", Role.PEER, {"red": 4.0}),
        ("adaptive", Role.ORDERER, {"blue": 4.0}),
        ("proportional", Role.ORDERER, {"red": 4.0}),  # Algorithm 1 to the letter
    ):
        assert decide(law, role, floors).shares == 1024
