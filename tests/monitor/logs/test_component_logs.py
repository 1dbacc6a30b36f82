"""A log that is written far faster than it is read: the lag stays bounded, and the rate is that of the channel."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from commit_line import commit_line
from hypothesis import given
from hypothesis import strategies as st

from qioi.model import Commit, Component, Role
from qioi.monitor import FileTail, Throughput
from qioi.monitor.logs.component_logs import LogChannels

#: What a peer at DEBUG writes between two blocks: four megabytes, of which a tenth is read.
NOISE = (
    b"2026-01-01 00:00:00.000 UTC 0001 DEBU [gossip.comm] sendToEndpoint -> Entering, sending to peer, msg: x\n"
    * 40_000
)
TRANSACTIONS = 20


def line(block: int, instant: float) -> bytes:
    return commit_line("red", block, TRANSACTIONS, datetime.fromtimestamp(instant, UTC)).encode()


@pytest.mark.parametrize("rotated", [False, True])
def test_a_flood_is_passed_over_and_the_rate_is_the_channels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rotated: bool
) -> None:
    log = tmp_path / "peer.log"
    log.write_bytes(b"")
    peer = Component("peer0", Role.PEER, "g/p", ("red",), str(log))
    channels = LogChannels([peer], ["red"])
    start, rates = 1_800_000_000.0, []
    monkeypatch.setattr(time, "time", lambda: start + second)
    for second in range(1, 16):
        with log.open("ab") as file:
            for tenth in range(10):
                file.write(NOISE)
                file.write(line(10 * second + tenth, start + second - 1 + tenth / 10))
        reading = channels.read(float(second))["red"]
        if second >= 8:
            rates.append(reading.throughput)
        assert reading.age is None or reading.age < 1.5  # what was read is of now
        if rotated:
            log.rename(log.with_name("peer.log.1"))
            log.write_bytes(b"")
        elif second % 5 == 0:
            log.write_bytes(b"")  # room on the disk; this truncation is seen too
    (state,) = channels.states()
    channels.close()
    assert rates == pytest.approx([10 * TRANSACTIONS] * len(rates), rel=0.1)
    assert state.behind
    assert state.skipped["backlog"] >= 12  # a file that was truncated is known for long in the look after
    assert state.skipped_bytes > 12 * 30 * 2**20


def test_blocks_that_were_lost_with_a_truncated_file_count_like_the_others(tmp_path: Path) -> None:
    log = tmp_path / "peer.log"
    log.write_bytes(b"")
    channels = LogChannels([Component("peer0", Role.PEER, "g/p", ("red",), str(log))], ["red"])
    for blocks in (range(5), range(5, 8), range(8, 9), range(9, 10)):
        if 8 in blocks:
            log.write_bytes(b"")  # without a copy
        with log.open("ab") as file:
            file.writelines(line(block, 1_800_000_000.0) for block in blocks)
        if 5 not in blocks:
            reading = channels.read(1.0 + blocks[0])["red"]
    channels.close()
    assert (reading.height, reading.committed) == (9, 10 * TRANSACTIONS)


def test_what_fits_into_a_few_looks_is_read_whole(tmp_path: Path) -> None:
    log = tmp_path / "peer.log"
    log.write_bytes(b"")
    tail = FileTail(log, max_read=1000, max_backlog=4000)
    lines = [b"%06d" % number for number in range(570)]
    log.write_bytes(b"".join(one + b"\n" for one in lines))
    found = b"".join(block for _ in range(5) for block in tail.poll())
    assert found.split() == lines
    log.write_bytes(found * 3)
    blocks = tail.poll()
    assert tail.gap > 0
    assert tail.backlog
    assert b"".join(blocks).split()[-1] == lines[-1]
    assert set(b"".join(blocks).split()) <= set(lines)  # no half of a line
    tail.close()


def passed_over(gaps: list[int], transactions: int) -> tuple[Throughput, int]:
    """Have a peer commit a block each half of a second, of which one after each gap is seen; give the last one, too."""
    meter, block = Throughput(window=6), 0
    meter.observe(Commit("red", 0, transactions, None, "p"), 0.0)
    for gap in gaps:
        meter.skipped("p", 4_000_000)
        block += gap
        meter.observe(Commit("red", block, transactions, None, "p"), block / 2)
    return meter, block


@given(st.lists(st.integers(1, 40), max_size=40), st.integers(1, 30))
def test_blocks_that_were_not_seen_count_like_those_that_were(gaps: list[int], transactions: int) -> None:
    meter, block = passed_over(gaps, transactions)
    assert meter.transactions("red") == (block + 1) * transactions
    assert meter.reading("red", block / 2).height == block


@given(st.lists(st.integers(1, 4), min_size=12, max_size=40), st.integers(1, 30))
def test_the_rate_of_a_log_that_is_passed_over_in_part_is_that_of_all_its_blocks(
    gaps: list[int], transactions: int
) -> None:
    """The blocks that are seen are 2 s apart at most, as with Fabric's default BatchTimeout; they fill a window."""
    meter, block = passed_over(gaps, transactions)
    assert meter.reading("red", block / 2).throughput == pytest.approx(2 * transactions)


def test_a_jump_that_no_gap_explains_is_still_not_believed() -> None:
    meter = Throughput(window=6)
    for block in range(5):
        meter.observe(Commit("red", block, 10, None, "p"), block * 1.0)
    meter.skipped("p", 10_000)
    assert not meter.observe(Commit("red", 1_000_000, 10, None, "p"), 5.0)
    assert meter.reading("red", 5.0).height == 4
    assert meter.transactions("red") == 50
