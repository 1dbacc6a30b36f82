"""Room lasts from the moment at which the CPUs were last full."""

from __future__ import annotations

import pytest

from qioi.controller.laws.room import LastingRoom


@pytest.mark.parametrize(
    ("looks", "lasts"),
    [
        ([(0.0, True)], True),
        ([(0.0, False)], False),
        ([(0.0, False), (2.9, True)], False),
        ([(0.0, False), (3.0, True)], True),
        ([(0.0, False), (2.0, False), (4.9, True)], False),
        ([(0.0, False), (3.0, True), (3.1, False)], False),
    ],
)
def test_room_lasts_three_seconds_after_the_last_moment_without(looks: list[tuple[float, bool]], lasts: bool) -> None:
    room = LastingRoom()
    assert [room.step(now, there) for now, there in looks][-1] is lasts
