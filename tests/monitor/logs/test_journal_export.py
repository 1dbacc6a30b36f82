"""journald's export format: every message comes out, however it is cut, in bounded memory."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_entries import COMMIT, entry

from qioi.monitor.commits.counters import Skip, SourceCounters
from qioi.monitor.logs.journald import ExportReader


def feed(reader: ExportReader, data: bytes, size: int) -> bytes:
    return b"".join(reader.feed(data[start : start + size]) for start in range(0, len(data), size))


@given(st.lists(st.tuples(st.binary(max_size=60), st.booleans()), max_size=8), st.integers(min_value=1, max_value=200))
def test_every_message_comes_out_however_it_is_cut(messages: list[tuple[bytes, bool]], size: int) -> None:
    reader = ExportReader(SourceCounters())
    data = b"".join(entry(number, text, binary or b"\n" in text) for number, (text, binary) in enumerate(messages))
    assert feed(reader, data, size) == b"".join(text.removesuffix(b"\n") + b"\n" for text, _ in messages)
    assert reader.cursor == (f"s=ab;i={len(messages) - 1:x}" if messages else "")


@pytest.mark.parametrize("binary", [True, False])
def test_a_long_message_is_passed_over_in_bounded_memory(binary: bool) -> None:
    counters = SourceCounters()
    reader = ExportReader(counters, max_line=1000)
    data = entry(1, b"x" * 200_000, binary) + entry(2, b"y" * 1000, binary) + entry(3, b"z" * 1001, binary)
    out = b""
    for start in range(0, len(data), 100):
        out += reader.feed(data[start : start + 100])
        assert len(reader._waiting) + len(reader._text) < 4000
    assert out == b"y" * 1000 + b"\n"
    assert counters.skipped == {Skip.TOO_LONG: 2}


@pytest.mark.parametrize("mark", [b"CONTAINER_PARTIAL_MESSAGE=true\n", b"_LINE_BREAK=line-max\n", b"_LINE_BREAK=nul\n"])
def test_the_rest_of_a_long_line_is_no_line(mark: bytes) -> None:
    counters = SourceCounters()
    reader = ExportReader(counters, max_line=1000)
    assert reader.feed(mark + entry(1, b"chaincode says x") + mark + entry(2, COMMIT % 9)) == b""
    assert reader.feed(entry(3, b" end") + entry(4, b"next")) == b"chaincode says x" + COMMIT % 9 + b" end\nnext\n"
    for number in range(100):
        reader.feed(mark + entry(number, b"x" * 900))
        assert sum(map(len, reader._pieces.open.values())) <= 1900
    assert reader.feed(entry(100, COMMIT % 9) + entry(101, b"next")) == b"next\n"
    assert counters.skipped == {Skip.TOO_LONG: 1}


def docker_piece(line: bytes, ordinal: int, *, last: bool = False) -> bytes:
    partial = b"" if last else b"CONTAINER_PARTIAL_MESSAGE=true\n"
    return b"CONTAINER_PARTIAL_ID=%s\nCONTAINER_PARTIAL_ORDINAL=%d\nPRIORITY=6\n%s" % (line, ordinal, partial)


@pytest.mark.parametrize(
    ("one", "end", "other"),
    [
        (docker_piece(b"ab", 1), docker_piece(b"ab", 2, last=True), b"PRIORITY=3\n"),
        (b"PRIORITY=3\nCONTAINER_PARTIAL_MESSAGE=true\n", b"PRIORITY=3\n", b"PRIORITY=6\n"),
        (b"_STREAM_ID=a\nPRIORITY=4\n_LINE_BREAK=line-max\n", b"_STREAM_ID=a\nPRIORITY=6\n", b"_STREAM_ID=b\n"),
    ],
)
def test_pieces_of_one_stream_are_not_joined_to_anothers(one: bytes, end: bytes, other: bytes) -> None:
    reader = ExportReader(SourceCounters())
    out = reader.feed(one + entry(1, b"long ") + other + entry(2, COMMIT % 9) + end + entry(3, COMMIT % 8))
    assert out == COMMIT % 9 + b"\nlong " + COMMIT % 8 + b"\n"
    reader.pass_over()
    out = reader.feed(b"".join(mark + entry(4, COMMIT % 7) for mark in (other, end, other, one, end)))
    assert (COMMIT % 7 + b"\n") in out, "the stream goes on"
    assert out.count(b"\n") <= 2, "of each stream what comes first may be the end of a line"


@pytest.mark.parametrize("mark", [b"_STREAM_ID=%d\n", b"CONTAINER_PARTIAL_ORDINAL=1\nCONTAINER_PARTIAL_ID=%d\n"])
def test_lines_that_never_end_are_bounded_and_their_rests_forge_none(mark: bytes) -> None:
    reader = ExportReader(SourceCounters())
    for number in range(1000):
        reader.feed(mark % number + b"_LINE_BREAK=line-max\n" + entry(number, b"x"))
        assert len(reader._pieces.open) <= 16
    rest = mark.replace(b"=1", b"=2") % 500
    assert reader.feed(rest + entry(1, COMMIT % 9)) == b""
    for number in range(2000):
        reader.feed(b"_STREAM_ID=s%d\n" % number + entry(number, b"x"))
        assert len(reader._pieces._whole or ()) <= 256


def test_marks_that_mean_a_whole_line() -> None:
    reader = ExportReader(SourceCounters())
    whole = b"CONTAINER_PARTIAL_MESSAGE=false\n" + entry(1, b"a") + b"_LINE_BREAK=eof\n" + entry(2, b"b")
    assert reader.feed(whole) == b"a\nb\n"


def test_an_entry_that_was_cut_off_does_not_count() -> None:
    reader = ExportReader(SourceCounters())
    assert reader.feed(entry(1, b"one") + entry(2, b"two")[:-9]) == b"one\n"
    assert reader.cursor == "s=ab;i=1"
    reader.start_again()
    assert reader.feed(entry(2, b"two")) == b"two\n"


@given(st.binary(max_size=400))
def test_no_bytes_at_all_bring_it_down(data: bytes) -> None:
    reader = ExportReader(SourceCounters(), max_line=100)
    reader.feed(data)
    assert len(reader._waiting) + len(reader._text) <= 4000


@pytest.mark.parametrize("stamp", [b"", b"soon", b"1" * 400, b"-1"])
def test_an_entry_whose_time_is_none_is_not_old(stamp: bytes) -> None:
    reader = ExportReader(SourceCounters())
    reader.feed(re.sub(rb"(__REALTIME_TIMESTAMP=).*\n", rb"\g<1>" + stamp + b"\n", entry(1, b"x")))
    assert reader.written == math.inf
