"""What asks for a machine that has nothing else to do: a share goes back when the host has room again."""

from __future__ import annotations

import psutil
import pytest

#: The part of all CPUs that is idle where nothing else is done, in percent.
IDLE = 60.0
#: Looks of two seconds; what goes on for less than all of them, such as the end of another test, skips nothing.
LOOKS = 15


def need_idle_host() -> None:
    """Skip the test where the CPUs have other work for half a minute."""
    most = 0.0
    for _ in range(LOOKS):
        most = max(most, psutil.cpu_times_percent(interval=2.0).idle)
        if most >= IDLE:
            return
    pytest.skip(f"this machine has other work to do: {most:.0f} % of its CPUs are idle, {IDLE:.0f} % needed")
