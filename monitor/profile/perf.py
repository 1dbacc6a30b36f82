"""Records the scheduler's events with perf, within bounds, and leaves nothing behind: no file, no mount, no process."""

from __future__ import annotations

import contextlib
import math
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from qioi.kernel.child import Child, mortal
from qioi.kernel.threads import threads_of
from qioi.monitor.profile.scheduling import Accountant, Recording

TRACEFS = Path("/sys/kernel/tracing")
MOUNTS = Path("/proc/self/mounts")
#: What a slice and its delay are made of, and which threads are whose.
EVENTS = ("sched:sched_switch", "sched:sched_waking", "sched:sched_process_fork")
#: Seconds between two looks at who is in which group.
LOOK = 0.25
#: Seconds that perf has to begin, and to write its file out once it was told to stop.
PATIENCE = 60.0


class ProfileError(Exception):
    """Nothing could be recorded; the message says why, and what brings what is missing."""


class LateError(ProfileError):
    """perf had not begun when it was to end."""


def perf_binary() -> str:
    """Find perf, or name the package that brings it."""
    found = shutil.which("perf")
    if found is None:
        raise ProfileError("perf is not installed: `apt-get install linux-perf` (package linux-perf) brings it")
    return found


def within_tracefs(words: list[str], mounts: Path = MOUNTS) -> list[str]:
    """Give a command the kernel's event files: the host's where they are mounted, else a mount that ends with it.

    The mount is in a namespace of the command's own: recordings side by side cannot meet in it, and a kill leaves none.
    """
    kinds = {line.split(" ")[2] for line in mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()}
    if kinds & {"tracefs", "debugfs"}:
        return words
    # Another process may have mounted it in the meantime.
    script = (
        f"[ -e {TRACEFS}/events ] || mount -t tracefs none {TRACEFS} || "
        "{ echo 'tracefs cannot be mounted (root is needed)' >&2; exit 1; }; exec \"$@\""
    )
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *words]


def record(
    groups: Mapping[str, list[Path]], seconds: float, megabytes: int, until: float = math.inf
) -> tuple[Recording, bool]:
    """Record for so long, or until the file has reached its bound; say whether that came first.

    ``groups`` are folders of control groups by component; a group that is gone is passed over. Nothing later than
    ``until``, in seconds of the monotonic clock, is recorded; LateError: perf had not begun by then.
    """
    perf = perf_binary()
    try:
        with tempfile.TemporaryDirectory(prefix="qioi-profile-") as folder:
            free = shutil.disk_usage(folder).free // 2**20
            if free < 2 * megabytes:
                raise ProfileError(
                    f"{folder}: {free} MB free: the recording may take {megabytes} MB, and leaves as much; "
                    "see --max-size, or set TMPDIR to another folder"
                )
            file = Path(folder) / "perf.data"
            accountant = run_perf(perf, file, groups, seconds, megabytes, until)
            full = file.stat().st_size >= megabytes * 2**20
            return read(perf, file, accountant), full
    except OSError as error:
        where = error.filename or "TMPDIR"
        raise ProfileError(f"{where}: {error.strerror}: accepted is a folder with room, which TMPDIR names") from None


def run_perf(
    perf: str, file: Path, groups: Mapping[str, list[Path]], seconds: float, megabytes: int, until: float = math.inf
) -> Accountant:
    """Record into a file, and watch meanwhile whose thread is whose.

    perf enables and disables its events one after the other, on one CPU after the other, which takes it up to a second
    where CPU is short. So only what comes between its word that all are enabled and ours to end counts.
    """
    events = [word for event in EVENTS for word in ("-e", event)]
    words = [perf, "record", "-a", *events, "-o", str(file), f"--max-size={megabytes}M", "--clockid=CLOCK_MONOTONIC"]
    owners = seen = look(groups)
    looks: list[tuple[float, dict[int, str]]] = []
    with contextlib.ExitStack() as stack:
        control = stack.enter_context(Control())
        process = stack.enter_context(
            child(within_tracefs([*words, *control.words]), subprocess.DEVNULL, subprocess.PIPE, control.theirs)
        )
        # Where CPU is short perf may take longer to begin than it is to record.
        begun = control.enable(process)
        if begun is None and process.poll() is None:
            raise ProfileError(f"{perf} record does not begin, {PATIENCE:g} s after it was told to")
        if begun is not None and begun >= until:
            raise LateError(f"{perf} record began {begun - until:.1f} s after it was to end")
        deadline = min(time.monotonic() + seconds, until)
        while process.poll() is None and (rest := deadline - time.monotonic()) > 0:
            before, seen = seen, look(groups)
            if new := {tid: name for tid, name in seen.items() if before.get(tid) != name}:
                looks.append((time.monotonic(), new))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(LOOK, rest))
        # One that has ended by itself, at its bound, has done so with its last event.
        ended = time.monotonic() if process.poll() is None else None
        process.send_signal(signal.SIGINT)
        try:
            _, text = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise ProfileError(f"{perf} record does not end, {PATIENCE:g} s after it was told to") from None
    if not file.exists() or file.stat().st_size == 0:
        raise ProfileError(f"{perf} record: {complaint(text)}")
    return Accountant(owners, begun, ended, looks)


def read(perf: str, file: Path, accountant: Accountant) -> Recording:
    """Read a recording line by line, as perf prints it."""
    words = [perf, "script", "-i", str(file), "--show-lost-events", "-F", "time,event,trace"]
    with child(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        recording = accountant.read(process.stdout)
        if process.wait() != 0 or not recording.events:
            raise ProfileError(f"{perf} script cannot read its own recording (exit status {process.returncode})")
    return recording


class Control:
    """How perf is told when to begin, and says that it has: perf-record(1), ``--control``, from perf 5.10 on."""

    def __init__(self) -> None:
        self._commands, self._answers = os.pipe(), os.pipe()
        #: The ends of the two pipes that are perf's.
        self.theirs = self._commands[0], self._answers[1]
        self.words = ("--delay=-1", f"--control=fd:{self.theirs[0]},{self.theirs[1]}")

    def enable(self, process: Child[str]) -> float | None:
        """Have it record; give the monotonic time in s from which on it does.

        ``None`` where it has ended before, or says nothing for :data:`PATIENCE`.
        """
        os.write(self._commands[1], b"enable\n")
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if select.select([self._answers[0]], [], [], LOOK)[0]:
                return time.monotonic()
            if process.poll() is not None:
                break
        return None

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (*self._commands, *self._answers):
            os.close(descriptor)


@contextlib.contextmanager
def child(words: list[str], stdout: int, stderr: int, descriptors: tuple[int, ...] = ()) -> Iterator[Child[str]]:
    """Run a process that never outlives us, even where we are killed, or the thread that calls this ends.

    What it prints may hold any bytes: threads choose their names.
    """
    try:
        process = Child(
            mortal(words),
            stdout=stdout,
            stderr=stderr,
            text=True,
            errors="replace",
            start_new_session=True,
            pass_fds=descriptors,
        )
    except OSError as error:
        raise ProfileError(f"{error.filename or words[0]} cannot be started: {error.strerror}") from None
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def look(groups: Mapping[str, list[Path]]) -> dict[int, str]:
    """Say whose each thread is at this instant."""
    return {tid: name for name, folders in groups.items() for folder in folders for tid in map(int, threads_of(folder))}


def complaint(text: str) -> str:
    """Find what is wrong in what a program said: its error, or else its last line. perf goes on with its options."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it said nothing"]
    for line, following in zip(lines, [*lines[1:], lines[-1]], strict=True):
        if line.lower().startswith("error:"):
            return line[len("error:") :].strip() or following
    return lines[-1]
