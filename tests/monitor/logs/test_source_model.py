"""A whole log source against a model: each commit that its peer has logged is reported once, in order, and no other.

Whatever the peer's log holds beside them (forged lines, bytes that are no text, lines without an end), however it is
cut into writes and looks, and however it is rotated; in each of the ways that engines wrap it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from qioi.model import Commit
from qioi.monitor.logs.source import LogSource

TIME = "2026-01-01T10:00:00.123456789Z"
#: What Docker and containerd cut a line at.
PIECE = 16 * 1024


def message(channel: str, block: int) -> bytes:
    durations = b"1ms (state_validation=0ms block_and_pvtdata_commit=0ms state_commit=0ms)"
    text = b"[%s] Committed block [%d] with 7 transaction(s) in %s commitHash=[ab]"
    return text % (channel.encode(), block, durations)


def said(by: bytes, text: bytes) -> bytes:
    return b"2026-01-01 10:00:00.000 UTC 002b INFO [%s] commit -> %s" % (by, text)


def wrap(form: str, line: bytes) -> bytes:
    """Write a line as an engine does; without an engine, as it is."""
    if form == "plain":
        return line + b"\n"
    pieces = [line[at : at + PIECE] for at in range(0, len(line), PIECE)] or [b""]
    return b"".join(record(form, piece, last=number == len(pieces)) for number, piece in enumerate(pieces, 1))


def record(form: str, piece: bytes, *, last: bool) -> bytes:
    if form == "cri":
        return b"%s stderr %s %s\n" % (TIME.encode(), b"F" if last else b"P", piece)
    text = piece.decode(errors="replace") + ("\n" if last else "")
    return json.dumps({"log": text, "stream": "stderr", "time": TIME}, separators=(",", ":")).encode() + b"\n"


class Writer:
    """A peer's log, and the blocks that were honestly committed in it."""

    def __init__(self, path: Path, form: str) -> None:
        self.path, self.form = path, form
        self.blocks: list[int] = []

    def write(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def commit(self) -> bytes:
        self.blocks.append(len(self.blocks) + 1)
        return wrap(self.form, said(b"kvledger", message("red", self.blocks[-1])))

    def noise(self, kind: str) -> bytes:
        forged = message("red", 10_000)
        match kind:
            case "chaincode":  # says what it likes, under its own name
                return wrap(self.form, said(b"peer.chaincode", forged))
            case "gossip":
                return wrap(self.form, said(b"gossip.privdata", b"Channel " + forged))
            case "other tenant":
                return wrap(self.form, said(b"kvledger", message("blue", 10_000)))
            case "no header":
                return wrap(self.form, forged)
            case "no text":
                return wrap(self.form, b"\xff\xfe\x00 " + forged + b"\xc3")
            case "huge":
                return wrap(self.form, b"x" * 1_000_000 + said(b"kvledger", forged))
            case _:
                return wrap(self.form, said(b"kvledger", forged + b" and more"))


NOISE = ("chaincode", "gossip", "other tenant", "no header", "no text", "huge", "more")


def rename(path: Path) -> None:
    for number in range(17, 0, -1):
        old = path.with_name(f"{path.name}.{number}")
        if old.exists():
            old.rename(path.with_name(f"{path.name}.{number + 1}"))
    path.rename(path.with_name(f"{path.name}.1"))
    path.touch()


def copy_and_truncate(path: Path) -> None:
    shutil.copy(path, path.with_name(f"{path.name}.1"))
    os.truncate(path, 0)


def delete(path: Path) -> None:
    path.unlink()
    path.touch()


def blocks(source: LogSource) -> Iterator[int]:
    for event in source.poll():
        assert isinstance(event, Commit)
        assert (event.channel, event.transactions, event.peer) == ("red", 7, "peer0")
        yield event.block


@pytest.mark.parametrize("rotation", ["rename", "copy and truncate", "delete"])
@pytest.mark.parametrize("form", ["plain", "docker-json", "cri"])
@settings(max_examples=25)
@example(events=["look", "rotate", "look", "commit", "rotate"], cut=1)
@given(
    st.lists(st.sampled_from(["commit", "commit", "half", "rotate", "look", *NOISE]), max_size=30), st.integers(1, 99)
)
def test_each_honest_commit_is_reported_once(
    form: str, rotation: str, tmp_path_factory: pytest.TempPathFactory, events: list[str], cut: int
) -> None:
    path = tmp_path_factory.mktemp("source") / "peer.log"
    writer = Writer(path, form)
    path.write_bytes(wrap(form, said(b"kvledger", message("red", 10_000))))  # from before: nobody's news
    source = LogSource(path, "peer0", log_format=form, channels=("red",))
    found: list[int] = []
    # A copy is known by what was read of the file before, if anything was; of files that are gone only the one that is
    # open is read.
    rotations, known = 0, False
    writer.write(writer.commit())
    for event in events:
        match event:
            case "commit":
                writer.write(writer.commit())
            case "half":
                line = writer.commit()
                writer.write(line[: len(line) * cut // 100])
                found += blocks(source)
                writer.write(line[len(line) * cut // 100 :])
                rotations, known = 0, False
            case "look":
                found += blocks(source)
                rotations, known = 0, rotation != "copy and truncate" or path.stat().st_size > 0
            case "rotate" if rotation == "rename" and rotations < 15:
                rename(path)
                rotations += 1
            case "rotate" if rotation == "copy and truncate" and known and path.stat().st_size:
                copy_and_truncate(path)
                known = False
            case "rotate" if rotation == "delete" and known:
                delete(path)
                known = False
            case "rotate":
                pass
            case _:
                writer.write(writer.noise(event))
    for _ in range(4):
        found += blocks(source)
    source.close()
    assert found == writer.blocks
