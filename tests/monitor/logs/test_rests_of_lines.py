"""The rest of a line whose beginning was not read counts for nothing: a client chooses what stands at its end.

Engines cut long lines into pieces, each a record of its own. Where records were passed over or dropped, the next one
may be the last piece of a line.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qioi.model import Commit
from qioi.monitor.commits.counters import Skip, SourceCounters
from qioi.monitor.logs import source as sources
from qioi.monitor.logs.journald import ExportReader
from qioi.monitor.logs.line_cutter import LineCutter
from qioi.monitor.logs.source import LineReader, LogSource
from qioi.monitor.logs.tail import FileTail
from qioi.monitor.logs.wrappers import LogFormat

TIME = "2026-01-01T10:00:00.123456789Z"
FORGED, HONEST = 10_000, 7


def commit(block: int) -> bytes:
    return (
        b"2026-01-01 10:00:00.000 UTC 002b INFO [kvledger] commit -> [red] Committed block [%d] with 7 transaction(s)"
        b" in 1ms (state_validation=0ms block_and_pvtdata_commit=0ms state_commit=0ms)" % block
    )


def record(form: LogFormat, text: bytes, last: bool = True, stream: str = "stderr") -> bytes:
    if form is LogFormat.CRI:
        return f"{TIME} {stream} {'F' if last else 'P'} ".encode() + text + b"\n"
    said = {"log": text.decode() + ("\n" if last else ""), "stream": stream, "time": TIME}
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


def long_line(form: LogFormat, stream: str = "stderr", beginning: int = 2) -> list[bytes]:
    """Give the records of a line that a client has made long, and to end like a commit."""
    head = record(form, b"2026-01-01 10:00:00.000 UTC 1 INFO [endorser] call -> x" + b"x" * 50, False, stream)
    return [*[head] * beginning, record(form, commit(FORGED), True, stream)]


def honest(form: LogFormat) -> bytes:
    return record(form, commit(HONEST))


@pytest.fixture(params=[LogFormat.DOCKER, LogFormat.CRI])
def form(request: pytest.FixtureRequest) -> LogFormat:
    return LogFormat(request.param)


def blocks(events: list[object]) -> list[int]:
    return [event.block for event in events if isinstance(event, Commit)]


def test_after_a_part_of_a_log_that_was_passed_over(
    form: LogFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = lambda path, counters: FileTail(path, counters, max_read=3000, max_backlog=4000)  # noqa: E731
    monkeypatch.setattr(sources, "FileTail", small)
    log = tmp_path / "peer.log"
    gaps = 0
    for passed in range(0, 400, 4):  # wherever it goes on
        log.write_bytes(b"")
        source = LogSource(log, "p", log_format=form)
        with log.open("ab") as file:
            file.write(b"".join([*long_line(form) * 12, record(form, b"x" * passed), honest(form), honest(form)]))
        parts = source.parts()
        gaps += any(gap for gap, _ in parts)
        assert blocks([*(event for _, found in parts for event in found), *source.poll()]) == [HONEST, HONEST]
        source.close()
    assert gaps == 100


def test_after_a_record_that_is_too_long(form: LogFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = lambda path, counters: FileTail(path, counters, max_line=2000)  # noqa: E731
    monkeypatch.setattr(sources, "FileTail", small)
    log = tmp_path / "peer.log"
    log.touch()
    source = LogSource(log, "p", log_format=form)
    found: list[object] = []
    with log.open("ab", buffering=0) as file:
        file.write(honest(form) + record(form, b"x" * 5000, last=False)[:-1])
        found += source.poll()
        file.write(b"\n" + record(form, commit(FORGED)) + honest(form))
        found += source.poll()
    assert blocks(found) == [HONEST, HONEST]
    assert source.counters.skipped == {Skip.TOO_LONG: 1}
    source.close()


def test_each_stream_goes_on_with_its_own_next_line(form: LogFormat) -> None:
    reader = LineReader("p", form)
    reader.start_again()
    records = [record(form, b"whole", stream="stdout"), *long_line(form)[1:], honest(form)]
    assert blocks(list(reader.feed(b"".join(records)))) == [HONEST]
    reader.start_again()
    assert blocks(list(reader.feed(record(form, b"the rest\\") + honest(form) + long_line(form, "stdout")[-1]))) == [
        HONEST
    ]


@given(
    st.sampled_from([LogFormat.DOCKER, LogFormat.CRI]),
    st.lists(
        st.tuples(st.sampled_from(["long", "honest", "noise"]), st.sampled_from(["stderr", "stdout"])), max_size=8
    ),
    st.integers(0, 40),
)
def test_wherever_reading_begins_again_only_whole_lines_count(
    form: LogFormat, said: list[tuple[str, str]], cut: int
) -> None:
    """And of each stream no more than the first line is lost."""
    records: list[tuple[str, bytes]] = []
    for what, stream in said:
        match what:
            case "long":
                records += [(what, one) for one in long_line(form, stream)]
            case "honest":
                records.append((what, record(form, commit(HONEST), True, stream)))
            case _:
                records.append((what, record(form, b"noise", True, stream)))
    reader = LineReader("p", form)
    reader.feed(b"".join(one for _, one in records[:cut]))
    reader.start_again()
    found = blocks(list(reader.feed(b"".join(one for _, one in records[cut:]))))
    count = sum(what == "honest" for what, _ in records[cut:])
    assert set(found) <= {HONEST}
    assert count - 2 <= len(found) <= count


def test_a_line_that_was_dropped_leaves_an_empty_one() -> None:
    cutter = LineCutter(SourceCounters(), max_line=10)
    assert cutter.feed(b"one\n" + b"x" * 20) == b"one\n"
    assert cutter.feed(b"x") == b""
    assert cutter.feed(b"\ntwo\n") == b"\ntwo\n"
    assert cutter.feed(b"x" * 20) == b""
    assert (cutter.rest(), cutter.rest()) == (b"\n", b"")


def test_after_files_that_were_rotated_away_unread(
    form: LogFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = lambda path, counters: FileTail(path, counters, max_read=8)  # noqa: E731
    monkeypatch.setattr(sources, "FileTail", small)
    log = tmp_path / "peer.log"
    log.touch()
    source = LogSource(log, "p", log_format=form)
    begun, middle, end = long_line(form)
    log.write_bytes(record(form, b"noise") * 5 + begun + middle)
    for number in range(16):
        source.poll()
        log.rename(log.with_name(f"gone.{number}"))
        log.write_bytes(honest(form) if number else end + honest(form))
    found: list[object] = []
    for _ in range(2_000):
        found += source.poll()
    assert source.counters.lost_files == 1
    assert blocks(found) == [HONEST] * 16
    source.close()


def test_a_file_that_was_passed_over_takes_no_line_of_the_next_one(
    form: LogFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is closed long after the next one was read on."""
    small = lambda path, counters: FileTail(path, counters, max_read=3000, max_backlog=4000)  # noqa: E731
    monkeypatch.setattr(sources, "FileTail", small)
    log = tmp_path / "peer.log"
    log.touch()
    source = LogSource(log, "p", log_format=form)
    source.poll()
    with log.open("ab") as file:
        file.write(record(form, b"noise" * 20) * 60)
    log.rename(tmp_path / "gone")
    log.write_bytes(record(form, b"noise" * 20) * 60)
    assert any(gap for gap, _ in source.parts())
    for _ in range(10):
        source.poll()
    for number in range(40):
        with log.open("ab") as file:
            file.write(record(form, commit(number)))
        assert blocks(source.poll()) == [number]
    source.close()


@pytest.mark.parametrize("stream", ["stderr", "stdout"])
def test_lines_before_a_lost_file_are_whole(form: LogFormat, stream: str, tmp_path: Path) -> None:
    """And the first one of each stream behind it may be the rest of one."""
    log = tmp_path / "peer.log"
    log.touch()
    source = LogSource(log, "p", log_format=form)
    with log.open("ab") as file:
        file.write(record(form, commit(1), stream=stream) + b"".join(long_line(form, stream)[:-1]))
    for number in range(4):
        for old in (1, 0):
            named = tmp_path / (f"peer.log.{old}" if old else "peer.log")
            if named.exists():
                named.rename(tmp_path / f"peer.log.{old + 1}")
        end = long_line(form, stream)[-1] if number == 1 else b""  # number 0 is lost
        log.write_bytes(end + record(form, commit(2 + number), stream=stream))
        time.sleep(0.05)
    found = source.poll()
    assert source.counters.lost_files == 1
    assert blocks(found) == [1, 3, 4, 5]
    source.close()


def test_after_a_truncation_that_has_left_no_copy(form: LogFormat, tmp_path: Path) -> None:
    log = tmp_path / "peer.log"
    log.touch()
    source = LogSource(log, "p", log_format=form)
    *beginning, end = long_line(form)
    with log.open("ab", buffering=0) as file:
        file.write(honest(form) * 5)
        found: list[object] = [*source.poll()]
        file.write(b"".join(beginning))
        file.truncate(0)
        file.write(end + honest(form))
        found += source.poll()
    assert source.counters.truncations == 1
    assert blocks(found) == [HONEST] * 6
    source.close()


def entry(message: bytes, piece: bool = False) -> bytes:
    mark = b"_LINE_BREAK=line-max\n" if piece else b""
    return b"__CURSOR=s=ab;i=1\n" + mark + b"MESSAGE=" + message + b"\n\n"


def test_in_a_journal_too() -> None:
    reader = ExportReader(SourceCounters())
    assert reader.feed(entry(b"begun", piece=True)) == b""
    reader.pass_over()
    assert reader.feed(entry(b"middle", piece=True) + entry(commit(FORGED)) + entry(b"next")) == b"next\n"
    reader.pass_over()
    assert reader.feed(entry(commit(FORGED)) + entry(b"next") + entry(b"a", piece=True) + entry(b"b")) == b"next\nab\n"


def test_of_a_line_that_grows_too_long_nothing_is_kept() -> None:
    counters = SourceCounters()
    cutter = LineCutter(counters, max_line=10)
    assert cutter.feed(b"x" * 10) == b""
    assert cutter.unfinished
    assert cutter.feed(b"x") == b""
    assert not cutter.unfinished
    assert counters.skipped == {Skip.TOO_LONG: 1}
    assert cutter.feed(b"x\nnext\n") == b"\nnext\n"
