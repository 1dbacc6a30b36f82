"""Whether foreign work disturbs: on the whole host, or on the CPUs that a pinned component may run on."""

from __future__ import annotations

import pytest

from qioi.controller.findings.finder import is_disturbed
from qioi.controller.period import Period
from qioi.model import ChannelReading, HostLoad

ROOM, FULL = HostLoad(0.9, 0.05), HostLoad(0.0, 0.6)
LATELY = {"red": ChannelReading("red", 10.0, 0.5)}


@pytest.mark.parametrize(
    ("host", "disturbed"),
    [
        (None, False),
        (ROOM, False),
        (FULL, True),
        (HostLoad(0.9, 0.05, lasting=FULL), True),
        (HostLoad(0.0, 0.6, lasting=ROOM), True),
        (HostLoad(0.9, 0.05, pinned={"peer0": ROOM}), False),
        (HostLoad(0.9, 0.05, pinned={"peer0": FULL}), True),
    ],
)
def test_where_foreign_work_leaves_no_room(host: HostLoad | None, disturbed: bool) -> None:
    assert is_disturbed(Period(1.0, (), LATELY, host=host)) is disturbed
    assert not is_disturbed(Period(1.0, (), {}, host=host))


def test_a_commit_that_is_due_later_is_no_silence() -> None:
    """A channel whose blocks come every 20 s is sent to, though its last commit was 15 s ago."""
    reading = ChannelReading("red", 10.0, 15.0, interval=20.0)
    assert is_disturbed(Period(1.0, (), {"red": reading}, host=FULL))
