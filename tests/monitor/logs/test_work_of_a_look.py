"""What a look takes is bounded in lines, for one log and for all together, and the rate stays that of the channel."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from commit_line import commit_line

from qioi.model import Component, Role
from qioi.monitor.commits.parser import CommitParser
from qioi.monitor.commits.records import parse_record
from qioi.monitor.logs import wrappers
from qioi.monitor.logs.component_logs import LogChannels
from qioi.monitor.logs.source import LogSource
from qioi.monitor.logs.work import MOST, RECORDS, SEARCHED, Effort, Shares

MEGABYTES = 4 * 2**20
STAMP = b"2026-11-30T21:38:41.123456789Z"
#: What a hostile writer may fill a log with, by its format.
FLOODS = {
    "plain": [b"Committed block\n", b"[red] Committed block [1] with 1 transaction(s)\n"],
    "cri": [b"\n", STAMP + b" stderr F \n", STAMP + b" stderr F Committed block\n"],
    "docker-json": [
        b"a\n",
        b'{"log":"Committed block\\n","stream":"stderr","time":"%s"}\n' % STAMP,
        b'{"log":"Raft leader changed\\n","stream":"stderr","time":"%s"}\n' % STAMP,
    ],
}


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Count the lines that are parsed, and the records that a wrapper is taken off."""
    done = {"lines": 0, "records": 0}
    parse, records = CommitParser.parse, wrappers._records

    def counted_parse(self: CommitParser, line: bytes) -> object:
        done["lines"] += 1
        return parse(self, line)

    def counted_records(block: bytes) -> list[bytes]:
        found = records(block)
        done["records"] += len(found)
        return found

    monkeypatch.setattr(CommitParser, "parse", counted_parse)
    monkeypatch.setattr(wrappers, "_records", counted_records)
    return done


@pytest.mark.parametrize(("form", "line"), [(form, line) for form, lines in FLOODS.items() for line in lines])
@pytest.mark.parametrize("logs", [1, 12])
def test_floods_take_no_more_than_the_work_of_a_look(
    tmp_path: Path, looked_at: dict[str, int], form: str, line: bytes, logs: int
) -> None:
    paths = [tmp_path / f"peer{number}.log" for number in range(logs)]
    for path in paths:
        path.write_bytes(b"")
    peers = [Component(f"p{n}", Role.PEER, f"g/{n}", ("red",), str(path), form) for n, path in enumerate(paths)]
    channels = LogChannels(peers, ["red"])
    for path in paths:
        path.write_bytes(line * (MEGABYTES // len(line)))
    channels.read(1.0)
    states = channels.states()
    channels.close()
    assert 0 < looked_at["lines"] + looked_at["records"] // RECORDS <= MOST
    for state in states:  # no log is left out, and each says what was
        assert state.lines > 0
        assert state.behind


def test_a_peer_that_commits_more_than_is_parsed_has_the_rate_of_all_its_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, start, blocks = tmp_path / "peer.log", 1_800_000_000.0, 12_000
    log.write_bytes(b"")
    channels = LogChannels([Component("p", Role.PEER, "g", ("red",), str(log))], ["red"])
    monkeypatch.setattr(time, "time", lambda: start + second)
    for second in range(1, 12):
        with log.open("a") as file:
            for block in range(blocks):
                at = datetime.fromtimestamp(start + second - 1 + block / blocks, UTC)
                file.write(commit_line("red", blocks * second + block, 5, at))
        reading = channels.read(float(second))["red"]
    (state,) = channels.states()
    channels.close()
    assert state.skipped_bytes > 0
    assert reading.throughput == pytest.approx(5 * blocks, rel=0.1)


def test_the_first_logs_take_turns_and_a_quiet_one_is_read_whole(tmp_path: Path) -> None:
    paths = [tmp_path / f"peer{number}.log" for number in range(4)]
    for path in paths:
        path.write_bytes(b"")
    peers = [Component(f"p{n}", Role.PEER, f"g/{n}", ("red",), str(path)) for n, path in enumerate(paths)]
    channels = LogChannels(peers, ["red"])
    quiet, sources, most = 100, list(channels._sources.values()), set()
    for look in range(1, 5):
        for path in paths[1:]:
            with path.open("ab") as file:
                file.write(b"Committed block\n" * 100_000)
        with paths[0].open("ab") as file:
            file.writelines(commit_line("red", 100 * look + block, 1).encode() for block in range(quiet))
        channels.read(float(look))
        most.add(max(sources, key=lambda one: one.work).component)
    assert sources[0].counters.commits == 4 * quiet
    assert most == {"p1", "p2", "p3"}
    channels.close()


@pytest.mark.parametrize("most", [0, 1, 7, 1000])
def test_what_is_kept_is_the_newest_and_the_rest_is_a_gap(most: int) -> None:
    parts = [(3, b"[c] Committed block [1]\n" * 50), (0, b"x\n" * 9), (5, b"[c] Committed block [2]\n" * 40)]
    effort = Effort(is_wrapped=False, elections=False)
    kept, passed, work = effort.newest(parts, most)
    whole, rest = b"".join(lines for _, lines in parts), b"".join(lines for _, lines in kept)
    assert whole == whole[:passed] + rest
    assert not passed or whole[passed - 1 : passed] == b"\n"
    assert sum(gap for gap, _ in kept) == 8 + passed
    assert work <= most
    assert (most == 1000) == (passed == 0)


def test_a_flood_of_bytes_leaves_some_to_other_logs(tmp_path: Path) -> None:
    log = tmp_path / "peer.log"
    log.write_bytes(b"")
    source = LogSource(log, "p")
    log.write_bytes(b"nothing\n" * (MEGABYTES // 8))
    source.parts(100)
    assert source.counters.bytes <= 50 * SEARCHED
    assert source.backlog
    source.close()


def test_one_log_takes_half_of_what_is_spare_and_each_has_its_part() -> None:
    shares, given = Shares(50), []
    for _ in range(50):
        given.append(shares.next)
        shares.take(shares.next)
    assert sum(given) <= MOST
    assert min(given) >= MOST // 2 // 50


def test_a_line_of_pairs_is_looked_at_up_to_where_fabrics_end() -> None:
    record = parse_record(b"ts=1 level=info name=kvledger " + b"a=1 " * 900 + b"msg=late")
    assert record is not None
    assert (record.module, record.message) == ("kvledger", b"")
