"""What is kept of commits is bounded over all channels that a log names, also of those that nobody asks for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from commit_line import commit_line

from qioi.model import Commit, Component, Role
from qioi.monitor.commits import throughput
from qioi.monitor.commits.agreement import AgreedThroughput
from qioi.monitor.commits.throughput import MAX_OF_A_PEER, Throughput
from qioi.monitor.logs.component_logs import LogChannels


def kept(meter: Throughput) -> list[int]:
    return [len(channel.events) for channel in meter._channels.values()]


def flood(agreed: AgreedThroughput, blocks: int, peer: str = "p") -> None:
    for number in range(MAX_OF_A_PEER):
        for block in range(blocks):
            agreed.observe(Commit(f"c{number}", block, 1, None, peer), block / blocks)


def test_channels_of_a_peer_that_fell_silent_keep_nothing(tmp_path: Path) -> None:
    log = tmp_path / "peer.log"
    log.write_bytes(b"")
    channels = LogChannels([Component("p", Role.PEER, "g", (), str(log))], [])
    log.write_text("".join(commit_line(f"c{name}", block, 1) for name in range(90) for block in range(50)))
    channels.read(1.0)
    (meter,) = channels._throughput._meters.values()
    assert sum(kept(meter)) == 90 * 50
    channels.read(100.0)
    channels.close()
    assert len(kept(meter)) == 90
    assert max(kept(meter)) <= 4


def test_many_channels_share_one_bound_and_small_ones_keep_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throughput, "_MAX_EVENTS", 600)
    agreed = AgreedThroughput()
    agreed.organise({"p": "org", "q": "org"}, [])
    for block in range(5):
        agreed.observe(Commit("small", block, 7, None, "q"), block / 5)
    flood(agreed, 20)
    (meter,) = agreed._meters.values()
    assert sum(kept(meter)) == 5 + 20 * MAX_OF_A_PEER
    agreed.prune(1.0)
    assert sum(kept(meter)) <= 600
    assert len(meter._channels["small"].events) == 5
    for channel in meter._channels.values():  # what became one still counts
        assert sum(event.transactions for event in channel.events) == channel.total


def test_an_organisation_that_fell_silent_keeps_the_window_of_its_last_commit() -> None:
    """The others' peers go on: its rate of then counts for a while."""
    agreed = AgreedThroughput()
    for block in range(100):
        for peer in ("p", "q") if block < 80 else ("p",):
            agreed.observe(Commit("c", block, 10, None, peer), block / 5)
        agreed.prune(block / 5)
    assert agreed.reading("c", 99 / 5).throughput == pytest.approx(50)


def test_what_was_dropped_takes_no_room() -> None:
    agreed = AgreedThroughput()
    for block in range(20_000):
        agreed.observe(Commit("c", block, 1, None, "p"), block / 20_000)
    (meter,) = agreed._meters.values()
    before = sys.getsizeof(meter._channels["c"].recent)
    agreed.prune(100.0)
    assert sys.getsizeof(meter._channels["c"].recent) < before / 100
