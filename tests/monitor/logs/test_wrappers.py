from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qioi.model import Commit
from qioi.monitor import CommitParser, LineReader, LogFormat, LogSource, Skip, SourceCounters, detect_format
from qioi.monitor.commits.parser import _USUAL
from qioi.monitor.logs.wrappers import CriUnwrapper, DockerUnwrapper

LOGS = Path(__file__).parents[2] / "data" / "fabric-logs"
BARE = "[ch1] Committed block [7] with 3 transaction(s) in 0ms (state_validation=0ms block_commit=0ms state_commit=0ms)"
LINE = "\x1b[34m2026-11-21 03:27:56.052 UTC 002b INFO\x1b[0m [kvledger] \x1b[34;1mcommit\x1b[0m -> " + BARE
SEEN = Commit("ch1", 7, 3, 1795231676.052, "p")
STAMP = "2026-11-21T03:27:57.500000001Z"


def docker(text: str, stream: str = "stderr") -> bytes:
    return json.dumps({"log": text, "stream": stream, "time": STAMP}, separators=(",", ":")).encode() + b"\n"


def cri(text: str, stream: str = "stderr") -> bytes:
    tag = "F" if text.endswith("\n") else "P"
    return f"{STAMP} {stream} {tag} {text.removesuffix(chr(10))}\n".encode()


WRAPPERS = {LogFormat.DOCKER: docker, LogFormat.CRI: cri}
UNWRAPPERS: dict[LogFormat, type[DockerUnwrapper | CriUnwrapper]] = {
    LogFormat.DOCKER: DockerUnwrapper,
    LogFormat.CRI: CriUnwrapper,
}


@pytest.fixture(params=list(WRAPPERS))
def log_format(request: pytest.FixtureRequest) -> LogFormat:
    return LogFormat(request.param)


def read(log_format: LogFormat, *pieces: str | tuple[str, str]) -> tuple[list[object], LineReader]:
    wrap = WRAPPERS[log_format]
    reader = LineReader("p", log_format)
    block = b"".join(wrap(piece) if isinstance(piece, str) else wrap(*piece) for piece in pieces)
    return list(reader.feed(block)), reader


def test_a_line_is_unwrapped(log_format: LogFormat) -> None:
    found, reader = read(log_format, "hello\n", LINE + "\n", "bye\n")
    assert found == [SEEN]
    assert reader.counters.lines == 3
    assert reader.counters.skipped == {}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_is_unwrapped_fits_the_parsers_fast_way(log_format: LogFormat, end: str) -> None:
    """A container with a terminal ends its lines in both."""
    usual = "2026-11-21 03:27:56.052 UTC 002b INFO [kvledger] commit -> " + BARE
    block = b"".join(WRAPPERS[log_format](piece) for piece in (usual + end, usual[:40], usual[40:] + end))
    lines = [line for line, _ in UNWRAPPERS[log_format](SourceCounters()).feed(block)]
    assert len(lines) == 2
    assert all(_USUAL.fullmatch(line) for line in lines)


def test_a_line_without_a_time_gets_the_engines(log_format: LogFormat) -> None:
    found, _ = read(log_format, BARE + "\n")
    assert found == [Commit("ch1", 7, 3, 1795231677.500000001, "p")]


def test_pieces_are_joined_stream_by_stream(log_format: LogFormat) -> None:
    for cut in range(1, len(LINE)):
        found, _ = read(log_format, LINE[:cut], ("other\n", "stdout"), LINE[cut:] + "\n")
        assert found == [SEEN], cut


@pytest.mark.parametrize("length", [10, 20_000, 1_000_000])
def test_a_commit_inside_a_line_in_pieces_does_not_count(log_format: LogFormat, length: int) -> None:
    said = "2026-11-21 03:27:56.052 UTC 0001 INFO [endorser] callChaincode -> " + "x" * length
    found, reader = read(log_format, said, LINE + "\n", LINE + "\n")
    assert found == [SEEN]
    # Of a long line only the beginning is kept, and there is no commit in it.
    assert sum(reader.counters.skipped.values()) == (1 if length == 10 else 0)


def test_a_piece_that_looks_complete_is_none() -> None:
    """The text ends in a backslash and an n, which is not a line's end."""
    found, _ = read(LogFormat.DOCKER, "2026-11-21 03:27:56.052 UTC 1 INFO [x] y -> a\\n", LINE + "\n", LINE + "\n")
    assert found == [SEEN]


@pytest.mark.parametrize(
    "text", [b"\xff\xfe\n", b"{}\n", b'{"log":1,"stream":"stderr"}\n', b"[" * 100_000 + b"\n", b"x y\n"]
)
def test_what_is_not_wrapped_is_counted(log_format: LogFormat, text: bytes) -> None:
    reader = LineReader("p", log_format)
    assert reader.feed(text + WRAPPERS[log_format](LINE + "\n")) == [SEEN]
    assert reader.counters.skipped == {Skip.BAD_WRAPPER: 1}


def test_other_fields_of_docker_are_passed_over() -> None:
    entry = {"log": LINE + "\n", "stream": "stderr", "attrs": {"tag": 'x","stream":"'}, "time": 5}
    assert LineReader("p", LogFormat.DOCKER).feed(json.dumps(entry).encode() + b"\n") == [SEEN]


def test_a_recorded_log_reads_the_same_in_every_wrapping(log_format: LogFormat) -> None:
    text = (LOGS / "fabric-2.5.16-peer.log").read_bytes()
    wrapped = b"".join(WRAPPERS[log_format](line) for line in text.decode().splitlines(keepends=True))
    assert LineReader("p", log_format).feed(wrapped) == CommitParser("p").scan(text)
    assert detect_format(wrapped) is log_format
    assert detect_format(text) is LogFormat.PLAIN


def test_a_source_follows_unwraps_and_parses(tmp_path: Path) -> None:
    path = tmp_path / "id-json.log"
    path.write_bytes(docker(LINE + "\n"))
    source = LogSource(path, "p", log_format="docker-json")
    assert source.poll() == []
    with path.open("ab") as file:
        file.write(docker(LINE.replace("[7]", "[8]") + "\n"))
    assert [event.block for event in source.poll() if isinstance(event, Commit)] == [8]
    assert source.counters.commits == 1
    assert source.problem is None
    source.close()


@given(st.lists(st.binary(max_size=80) | st.sampled_from([docker(LINE), cri(LINE), docker("x\n"), b"\n"]), max_size=10))
def test_no_input_raises(parts: list[bytes]) -> None:
    for log_format in LogFormat:
        LineReader("p", log_format).feed(b"".join(parts) + b"\n")


@given(
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])),
    st.lists(st.integers(1, 400), max_size=4),
)
def test_what_a_process_writes_can_not_forge_the_wrapping(said: str, cuts: list[int]) -> None:
    for log_format, wrap in WRAPPERS.items():
        forged = wrap(LINE + "\n").decode().removesuffix("\n")
        line = f"2026-11-21 03:27:56.052 UTC 1 INFO [endorser] call -> {said}{forged}"
        pieces, rest = [], line
        for cut in cuts:
            pieces.append(rest[:cut])
            rest = rest[cut:]
        found, _ = read(log_format, *(piece for piece in pieces if piece), rest + "\n")
        assert found == []
