"""What becomes of journalctl: it is started, gone on with, bounded and ended."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from journal_entries import COMMIT, entry
from waiting import until

from qioi.model import Commit
from qioi.monitor.commits.counters import Skip
from qioi.monitor.logs.complaints import MOST_KEPT, MOST_SAID
from qioi.monitor.logs.journald import JournalTail


@pytest.fixture
def journalctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A stand-in for journalctl that notes its arguments; the real one is in tests/guest."""

    def make(script: str) -> Path:
        (tmp_path / "bin").mkdir(exist_ok=True)
        file = tmp_path / "bin" / "journalctl"
        file.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/arguments\n{script}\n')
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        return tmp_path / "arguments"

    return make


def collect(tail: JournalTail, done: Callable[[bytes], bool]) -> bytes:
    out = b""

    def polled() -> bool:
        nonlocal out
        out += b"".join(tail.poll())
        return done(out)

    until(polled)
    return out


def test_it_goes_on_after_the_last_entry_when_journalctl_ends(
    tmp_path: Path, journalctl: Callable[[str], Path]
) -> None:
    (tmp_path / "first").write_bytes(entry(1, COMMIT % 7) + entry(2, COMMIT % 8)[:-20])
    (tmp_path / "second").write_bytes(entry(2, COMMIT % 8))
    arguments = journalctl(
        f'case "$*" in *after-cursor*) cat {tmp_path}/second; exec sleep 1000;; '
        f"*) cat {tmp_path}/first; echo no >&2; exit 3;; esac"
    )
    tail = JournalTail("fabric-peer0.service")
    try:
        out = collect(tail, lambda out: out.count(b"\n") == 1)
        collect(tail, lambda _: tail.problem is not None)
        assert tail.problem == "journal of fabric-peer0.service: journalctl has ended: no"
        out += collect(tail, lambda out: out.count(b"\n") == 1)
        assert tail.problem is None
    finally:
        tail.close()
    assert out == COMMIT % 7 + b"\n" + COMMIT % 8 + b"\n"
    first, second = arguments.read_text().splitlines()
    assert "--lines=0" in first
    assert "--no-tail" not in first  # it would go before --lines=0, and read everything
    assert "--after-cursor=s=ab;i=1 " in second
    assert first.endswith("_SYSTEMD_UNIT=fabric-peer0.service")


def test_a_journalctl_that_fails_again_is_not_well_in_between(
    tmp_path: Path, journalctl: Callable[[str], Path]
) -> None:
    journalctl(f"test -e {tmp_path}/mended && exec sleep 1000; echo no >&2; exit 3")
    tail = JournalTail("p.service")
    try:
        collect(tail, lambda _: tail.problem is not None)
        (tmp_path / "mended").touch()
        why = "journal of p.service: journalctl has ended: no"
        while tail._process is None:
            assert tail.problem == why
            tail.poll()
        assert tail.problem == why, "what is started is not yet known to be better"
        for _ in range(50):
            tail.poll()
        assert tail.problem is None, "a quiet unit's journal tells nothing"
    finally:
        tail.close()


def test_a_missing_journalctl_is_a_problem_and_no_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    tail = JournalTail("a.service")
    assert tail.poll() == []
    assert tail.problem == "journal of a.service: journalctl: No such file or directory"
    tail.close()


def test_commits_come_out_of_a_units_journal(tmp_path: Path, journalctl: Callable[[str], Path]) -> None:
    from qioi.monitor.logs.source import LogSource

    (tmp_path / "all").write_bytes(entry(1, b"noise") + entry(2, COMMIT % 7))
    journalctl(f"cat {tmp_path}/all; exec sleep 1000")
    source = LogSource("p.service", "p", log_format="journald")
    try:
        events: list[object] = []
        until(lambda: events.extend(source.poll()) or events)  # type: ignore[func-returns-value]
    finally:
        source.close()
    assert events == [Commit("red", 7, 3, 1767323045.678, "p")]
    assert source.counters.lines == 2


def test_a_journal_that_is_written_faster_than_it_is_read_is_gone_on_with_at_its_end(
    tmp_path: Path, journalctl: Callable[[str], Path]
) -> None:
    (tmp_path / "flood").write_bytes(b"".join(entry(number, b"noise" * 20) for number in range(500)))
    arguments = journalctl(f"while true; do cat {tmp_path}/flood || exit; done")
    tail = JournalTail("fabric-peer0.service", max_read=4096)
    gaps = []
    try:

        def passed_over() -> bool:
            tail.poll()
            if tail.gap:
                gaps.append(tail.gap)
                assert tail.backlog
            return len(gaps) == 2

        until(passed_over)
        assert tail.counters.skipped[Skip.BACKLOG] == 2
        starts = [line for line in arguments.read_text().splitlines() if "--follow" in line]
        assert len(starts) >= 2
        assert all("--lines=0" in line and "cursor" not in line for line in starts)
    finally:
        tail.close()


@pytest.mark.parametrize(("written", "looked", "late"), [(-60.0, 0.0, True), (0.0, 0.0, False), (0.0, 20.0, False)])
def test_a_pipe_that_was_full_of_entries_from_before_the_last_look_is_a_backlog(
    tmp_path: Path,
    journalctl: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    written: float,
    looked: float,
    late: bool,
) -> None:
    """journalctl gets no CPU on a full host until a look has ended. What a busy peer logs in a second fits into it.

    A burst early in a long period is old by the time of its look, too, but not from before the last one.
    """
    begun = time.time()
    stamp = b"__REALTIME_TIMESTAMP=%d\n" % ((begun + written) * 1e6)
    stamped = [re.sub(rb"__REALTIME_TIMESTAMP=.*\n", stamp, entry(number, b"x" * 300)) for number in range(1500)]
    (tmp_path / "much").write_bytes(b"".join(stamped))
    (tmp_path / "first").write_bytes(entry(1, b"x" * 50_000))
    journalctl(
        f"cat {tmp_path}/first; until test -e {tmp_path}/go; do sleep 0.01; done; cat {tmp_path}/much; exec sleep 1000"
    )
    tail = JournalTail("a.service")
    try:
        pipe = pipe_of(tail)
        until(lambda: waiting_in(pipe) == (tmp_path / "first").stat().st_size)
        tail.poll()
        (tmp_path / "go").touch()
        until(lambda: waiting_in(pipe) == (tmp_path / "much").stat().st_size)
        monkeypatch.setattr(time, "time", lambda: begun + looked)
        assert b"".join(tail.poll()).count(b"\n") == 1500
        assert tail.backlog is late
        assert tail.poll() == []
        assert not tail.backlog
    finally:
        tail.close()


def waiting_in(pipe: int) -> int:
    """Give the bytes that a pipe holds."""
    held = fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))
    return int.from_bytes(held, sys.byteorder)


def pipe_of(tail: JournalTail) -> int:
    assert tail._process is not None
    assert tail._process.stdout is not None
    return tail._process.stdout.fileno()


def test_only_a_pipe_that_was_full_takes_much_of_what_all_pipes_may_hold(
    tmp_path: Path, journalctl: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of root's pipes hold 64 MB together for a daemon under the unit, and later ones 8 KB each."""
    really, refused = fcntl.fcntl, [True, False]

    def may_refuse(pipe: int, command: int, value: int = 0) -> int:
        if command == fcntl.F_SETPIPE_SZ and refused.pop(0):
            raise PermissionError(1, "Operation not permitted")
        return really(pipe, command, value)

    monkeypatch.setattr(fcntl, "fcntl", may_refuse)
    (tmp_path / "half").write_bytes(entry(1, b"x" * 33_000))
    again = f"until rm {tmp_path}/go 2>/dev/null; do sleep 0.01; done"
    journalctl(f"for look in 1 2; do cat {tmp_path}/half; {again}; done; exec sleep 1000")
    tail = JournalTail("a.service")
    try:
        pipe = pipe_of(tail)
        for size in (64 * 1024, 1024 * 1024):  # what was refused is asked for again
            until(lambda: waiting_in(pipe) == (tmp_path / "half").stat().st_size)
            assert fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) == 64 * 1024
            tail.poll()
            assert fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) == size
            (tmp_path / "go").touch()
        assert tail.poll() == []
    finally:
        tail.close()


def test_what_journalctl_complains_of_keeps_it_from_nothing_and_is_logged_once(
    tmp_path: Path, journalctl: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    """A pipe that nobody reads takes 64 KB, and then its writer waits."""
    (tmp_path / "all").write_bytes(entry(1, COMMIT % 7))
    complaints = "Journal file corrupted, ignoring file\n" * 10_000
    (tmp_path / "complaints").write_text(complaints + "".join(f"another \x1b[2J {n}\n" for n in range(1000)) + "last")
    journalctl(f"cat {tmp_path}/complaints >&2; cat {tmp_path}/all; test -e {tmp_path}/gone || exec sleep 1000; exit 4")
    tail = JournalTail("p.service", max_read=4096)
    try:
        assert collect(tail, lambda out: b"\n" in out) == COMMIT % 7 + b"\n"
        assert tail.problem is None
        (tmp_path / "gone").touch()
        tail._pass_over()
        collect(tail, lambda _: tail.problem is not None)
        assert tail.problem == "journal of p.service: journalctl has ended: last"
    finally:
        tail.close()
    said = [record.getMessage() for record in caplog.records]
    assert said[:2] == [
        "journal of p.service: journalctl: Journal file corrupted, ignoring file",
        "journal of p.service: journalctl: another  [2J 0",
    ]
    assert len(said) == len(set(said)) == MOST_SAID


def test_a_complaint_without_an_end_is_bounded_in_memory(tmp_path: Path, journalctl: Callable[[str], Path]) -> None:
    (tmp_path / "all").write_bytes(entry(1, COMMIT % 7))
    journalctl(f"head -c 1000000 /dev/zero >&2; cat {tmp_path}/all; exec sleep 1000")
    tail = JournalTail("p.service")
    try:
        longest = 0

        def read() -> bytes:
            nonlocal longest
            longest = max(longest, len(tail._complaints.unfinished))
            return b"".join(tail.poll())

        assert until(read) == COMMIT % 7 + b"\n"
    finally:
        tail.close()
    assert longest == MOST_KEPT


def test_who_holds_journalctls_pipes_holds_up_nobody(tmp_path: Path, journalctl: Callable[[str], Path]) -> None:
    journalctl(f"sleep 1000 & echo $! >{tmp_path}/new && mv {tmp_path}/new {tmp_path}/child; exec sleep 1000")
    tail = JournalTail("p.service")
    until((tmp_path / "child").exists)
    child = psutil.Process(int((tmp_path / "child").read_text()))
    tail.close()
    assert child.status() != psutil.STATUS_ZOMBIE
    child.kill()


def test_a_journalctl_that_cannot_be_killed_is_waited_for_later(
    journalctl: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one in uninterruptible sleep, since its disk hangs."""
    before = psutil.Process().children()
    arguments = journalctl("exec sleep 20")
    tail = JournalTail("p.service")
    try:
        until(arguments.exists)
        (child,) = set(psutil.Process().children()).difference(before)
        with monkeypatch.context() as patch:
            patch.setattr(subprocess.Popen, "kill", lambda _: None)
            tail._pass_over()
        child.kill()
        until(lambda: tail.poll() or not psutil.pid_exists(child.pid))
        assert tail.problem is None
    finally:
        tail.close()
