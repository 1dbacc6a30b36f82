"""The disk is looked at beside the measurement."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from waiting import PATIENCE, until

from qioi.lab.flush_probe import Flush, FlushProbe, file_system, flush_figures


def test_real_flushes_are_timed_and_nothing_is_left(tmp_path: Path) -> None:
    with FlushProbe(tmp_path) as probe:
        until(lambda: len(probe.flushes) >= 3)
    assert all(flush.took > 0 for flush in probe.flushes)
    assert list(tmp_path.iterdir()) == []
    assert not probe._thread.is_alive()  # so nothing more comes


INTERRUPTED = """
import sys, threading
from pathlib import Path
from qioi.lab.flush_probe import FlushProbe

start = threading.Thread.start

def interrupted(thread):
    start(thread)
    raise KeyboardInterrupt

threading.Thread.start = interrupted
try:
    with FlushProbe(Path(sys.argv[1])):
        pass
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_while_it_starts_ends_the_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.stdout, done.stderr, done.returncode) == ("interrupted\n", "", 0)


def test_figures_are_of_the_window_alone() -> None:
    flushes = [Flush(float(at), float(at)) for at in range(200)]
    found = flush_figures(flushes, 100, 199)
    assert (found.count, found.p50, found.p95, found.maximum) == (100, 149.0, 194.0, 199.0)
    assert flush_figures(flushes, 500, 600).count == 0


def test_a_flush_that_hangs_through_the_window_counts() -> None:
    hanging = Flush(99.5, 11_000.0)
    found = flush_figures([Flush(98.0, 0.2), hanging, Flush(110.6, 0.2)], 100, 110)
    assert (found.count, found.p50, found.p95, found.maximum) == (1, 11_000.0, 11_000.0, 11_000.0)


def test_the_innermost_mount_names_the_file_system(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/vda / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\nx /dev/shm/a\\040b xfs rw 0 0\n")
    assert file_system(Path("/var/lib"), mounts) == "ext4"
    assert file_system(Path("/dev/shm/qioi"), mounts) == "tmpfs"
    assert file_system(Path("/dev/shmother"), mounts) == "ext4"
    assert file_system(Path("/dev/shm/a b/c"), mounts) == "xfs"
