"""A loop that was held up finds many lines at once: they are counted at the times that they tell."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from qioi.model import Component, Role
from qioi.monitor.logs.component_logs import LogChannels

LINE = (
    "{} 0a1 INFO [kvledger] commit -> [red] Committed block [{}] with 10 transaction(s) in 3ms "
    "(state_validation=0ms block_and_pvtdata_commit=2ms state_commit=0ms) commitHash=[ab]\n"
)


def stamp(unix: float) -> str:
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


@pytest.mark.parametrize("held", [1, 9, 20])
def test_a_loop_that_was_held_up_sees_no_burst(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    log = tmp_path / "peer.log"
    log.touch()
    channels = LogChannels([Component("peer0", Role.PEER, "g/p", ("red",), str(log))], ["red"])
    begun, block = 1000.0, 0
    # A clock that stands still from a line's writing to its reading, however long this host takes for that.
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.0 + begun)
    for seconds in (0, *[1] * 10, held, 1, 1):
        begun += seconds
        wall = time.time()
        with log.open("a") as file:
            for tenth in range(10 * seconds):
                block += 1
                file.write(LINE.format(stamp(wall - seconds + tenth / 10), block))
        reading = channels.read(begun)["red"]
    assert reading.throughput == pytest.approx(100, rel=0.05)
    channels.close()
