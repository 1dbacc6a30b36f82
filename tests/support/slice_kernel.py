"""A process whose threads have slices set, and grow in number."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SPAWN = "import threading, sys, time\n" \
        "grow = lambda: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n" \
        "grow()\nprint('up', flush=True)\n" \
        "for line in sys.stdin: grow(); print('more', flush=True)"  # fmt: skip


@contextlib.contextmanager
def child() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", SPAWN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def tids(process: subprocess.Popen[str]) -> list[int]:
    return sorted(int(name.name) for name in Path(f"/proc/{process.pid}/task").iterdir())


def grow(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()
