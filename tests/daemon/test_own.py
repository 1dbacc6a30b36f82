"""What the daemon knows of its own place, and the bound of its priority."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from realtime import realtime

from qioi.daemon.own import competing

POD, CONTAINER = "pod1f0c3b52-6b0e-4a3c-9d3a-0d7d3a9f0c11", "ab" * 32


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (f"kubepods/burstable/{POD}/{CONTAINER}", f"kubepods/burstable/{POD}"),
        (f"kubepods/{POD}/{CONTAINER}", f"kubepods/{POD}"),
        (f"kubelet/kubepods/besteffort/{POD}/{CONTAINER}", f"kubelet/kubepods/besteffort/{POD}"),
        (
            f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-{POD}.slice/cri-containerd-{CONTAINER}.scope",
            f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-{POD}.slice",
        ),
        ("system.slice/qioi.service", "system.slice/qioi.service"),
        ("docker/" + CONTAINER, "docker/" + CONTAINER),
        ("machine.slice/libpod-1.scope/container", "machine.slice/libpod-1.scope/container"),
        ("qioi", "qioi"),
    ],
)
def test_a_pods_daemon_competes_as_its_pod(group: str, expected: str) -> None:
    assert competing(group) == expected


#: A loop that does not pause, for 20 s of CPU at most, with a bound that is shorter than the daemon's.
ENDLESS = """
import os, time
from qioi.daemon import own
own.RT_MICROSECONDS = 50_000
assert own.protect_loop(None, realtime=True) is None
assert os.sched_getscheduler(0) == os.SCHED_RR
while os.sched_getscheduler(0) == os.SCHED_RR and time.process_time() < 20:
    pass
print("scheduler", os.sched_getscheduler(0))
"""


def test_a_loop_that_does_not_pause_gives_realtime_up_and_goes_on() -> None:
    with realtime():
        pass  # skipped where it is refused
    done = subprocess.run([sys.executable, "-c", ENDLESS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"scheduler {os.SCHED_OTHER}\n"), done.stderr
