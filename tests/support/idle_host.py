"""What asks for a machine that has nothing else to do: a share goes back when the host has room again."""

from __future__ import annotations

import psutil
import pytest

#: The part of all CPUs that is idle where nothing else is done, in percent.
IDLE = 60.0


def need_idle_host() -> None:
    """Skip the test where the CPUs have other work."""
    idle = psutil.cpu_times_percent(interval=2.0).idle
    if idle < IDLE:
        pytest.skip(f"this machine has other work to do: {idle:.0f} % of its CPUs are idle, {IDLE:.0f} % needed")
