"""What asks for a machine that has nothing else to do: a share goes back when the host has room again."""

from __future__ import annotations

import psutil
import pytest

#: The part of all CPUs that is idle where nothing else is done, in percent.
IDLE = 60.0
#: Looks of two seconds, and how many in a row have to be idle. What goes on for a part of them, such as another test's
#: end, skips nothing.
LOOKS, IN_A_ROW = 15, 2


def need_idle_host() -> None:
    """Skip the test where the CPUs have other work for half a minute."""
    looks: list[float] = []
    while len(looks) < LOOKS:
        looks.append(psutil.cpu_times_percent(interval=2.0).idle)
        if len(looks) >= IN_A_ROW and min(looks[-IN_A_ROW:]) >= IDLE:
            return
    pytest.skip(f"this machine has other work to do: {max(looks):.0f} % of its CPUs are idle, {IDLE:.0f} % needed")
