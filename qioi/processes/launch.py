"""Start one process inside its control group; no instruction of the program runs outside.

A shell joins the groups and then becomes the program (``exec``). Python between fork and exec would not be safe in a
process with threads.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from qioi.kernel.child import Child, mortal
from qioi.processes.cgroups import Group

#: Exit status of the launcher when it could not join a group.
LAUNCH_FAILED = 125


class Running(Protocol):
    """A program that was started: a process (:class:`qioi.kernel.child.Child`), or a container that stands for one."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None:
        """Give its exit status once it has ended."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        ...

    def send_signal(self, number: int, /) -> None:
        """Send a signal to it."""
        ...

    def kill(self) -> None:
        """Kill it."""
        ...


_JOIN_AND_EXEC = f"""
files=$1; shift
while [ "$files" -gt 0 ]; do echo $$ > "$1" || exit {LAUNCH_FAILED}; shift; files=$((files - 1)); done
exec "$@"
"""


def launch(
    argv: Sequence[str],
    group: Group,
    *,
    log: Path | None = None,
    stdout: Path | None = None,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    die_with_parent: bool = False,
) -> Child[bytes]:
    """Start ``argv`` in ``group``, in a session of its own, away from the terminal's ctrl-C.

    ``log`` takes standard error, and standard output too unless ``stdout`` names a file for it.
    With ``die_with_parent`` call this from a thread that lives as long as the process shall: the
    kernel counts the end of the starting thread as the end of the parent.
    """
    files = [str(file) for file in group.procs_files]
    command = ["/bin/sh", "-c", _JOIN_AND_EXEC, "sh", str(len(files)), *files, *argv]
    if die_with_parent:
        command = mortal(command)
    error_to = open_log(log)
    output_to = open_log(stdout) if stdout is not None else error_to
    try:
        process: Child[bytes] = Child(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output_to,
            stderr=error_to,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    finally:
        for descriptor in {error_to, output_to} - {subprocess.DEVNULL}:
            os.close(descriptor)
    # A caller that removes the group right after this call must find the process in it.
    while process.pid not in group.members() and process.poll() is None:
        time.sleep(0.001)
    return process


def open_log(path: Path | None) -> int:
    """Open a file for appending, or stand in /dev/null."""
    if path is None:
        return subprocess.DEVNULL
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)


def last_lines(path: Path, count: int = 15) -> str:
    """Give the end of a log for an error message; empty when there is none."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 16_384))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-count:])
