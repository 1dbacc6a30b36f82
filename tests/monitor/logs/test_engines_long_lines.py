"""How real engines and a real journald write long lines: tests/data/engine-logs.

One program wrote to each of them: commits of the blocks 7 to 9, and lines that end in a commit exactly where a new
piece begins: after 48 KiB, after a NUL, and after 16 KiB and a line of the other stream (block 6). Where both streams
are one, that line has ended the piece before, and block 6 is a line. What journald has is what `journalctl
--output=export` gave. ``<x*16384>`` in a file stands for so many of that letter.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qioi.model import Commit
from qioi.monitor import LineReader, LogFormat, SourceCounters, detect_format
from qioi.monitor.logs.journald import ExportReader

LOGS = Path(__file__).parents[2] / "data" / "engine-logs"
TWO_STREAMS, ONE_STREAM = [7, 8, 9], [6, 7, 8, 9]


def recorded(name: str) -> bytes:
    text = (LOGS / name).read_bytes()
    return re.sub(rb"<([xy])\*(\d+)>", lambda run: run[1] * int(run[2]), text)


def blocks(log: bytes, log_format: LogFormat) -> list[int]:
    return [event.block for event in LineReader("p", log_format).feed(log) if isinstance(event, Commit)]


@pytest.mark.parametrize(
    ("name", "log_format", "commits"),
    [
        ("docker-20.10-json-file", LogFormat.DOCKER, TWO_STREAMS),
        ("docker-20.10-json-file-terminal", LogFormat.DOCKER, ONE_STREAM),
        ("podman-4.3-k8s-file", LogFormat.CRI, TWO_STREAMS),
        ("containerd-1.6-cri", LogFormat.CRI, TWO_STREAMS),
    ],
)
def test_only_whole_lines_of_a_file_are_commits(name: str, log_format: LogFormat, commits: list[int]) -> None:
    log = recorded(f"{name}.log")
    assert detect_format(log) is log_format
    assert blocks(log, log_format) == commits


@pytest.mark.parametrize(
    ("name", "commits"),
    [
        ("docker-20.10-journald", TWO_STREAMS),
        ("podman-4.3-journald", TWO_STREAMS),
        ("systemd-252-unit", ONE_STREAM),
    ],
)
@pytest.mark.parametrize("size", [100, 1_000_000])
def test_only_whole_lines_of_a_journal_are_commits(name: str, commits: list[int], size: int) -> None:
    reader, log = ExportReader(SourceCounters()), recorded(f"{name}.export")
    text = b"".join(reader.feed(log[start : start + size]) for start in range(0, len(log), size))
    assert blocks(text, LogFormat.JOURNALD) == commits
    assert b"\n\n" not in text, "Podman's messages have their line feeds in them"
