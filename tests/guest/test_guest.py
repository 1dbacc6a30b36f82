"""cgroup v2 for real, in a virtual machine: the actuators' and the guard's own tests, and those in inside/."""

from __future__ import annotations

from pathlib import Path

import pytest
from guest_machine import Guest, UnavailableError
from systemd_machine import UnavailableError as NoRootError
from systemd_machine import root_file_system

pytestmark = [pytest.mark.slow, pytest.mark.host, pytest.mark.timeout(600)]


# A boot each, so that each has time enough on a busy host, and can be run alone: -k pods.
BOOTS = {
    "guard": (
        "tests/controller/levers/test_actuators.py",
        "tests/controller/guard/test_guard.py",
        "tests/controller/guard/test_guard_failures.py",
        "tests/controller/guard/test_guard_and_others.py",
        "tests/guest/inside/test_weights.py",
    ),
    "idle": ("tests/controller/guard/test_idle_groups.py", "tests/guest/inside/test_idle_on_v2.py"),
    "units": ("tests/guest/inside/test_units.py",),
    "kinds": ("tests/guest/inside/test_unit_kinds.py",),
    "pods": ("tests/guest/inside/test_kubepods.py",),
    "adaptive": ("tests/guest/inside/test_adaptive.py",),
}


@pytest.mark.parametrize("tests", BOOTS.values(), ids=BOOTS.keys())
def test_everything_passes_on_cgroup_v2(tmp_path: Path, tests: tuple[str, ...]) -> None:
    try:
        guest = Guest(root_file_system(), tmp_path)
    except (UnavailableError, NoRootError) as error:
        pytest.skip(f"no guest here: {error}")
    status, text = guest.pytest("-q", *tests)
    assert status == 0, text[-6000:]
    # One test asks for the real kernel, and is given the fake of v2 as well; one for cgroup v1's outermost group.
    known = ("only a kernel refuses", "no cpu.idle in the outermost group")
    skipped = [line for line in text.splitlines() if "SKIPPED" in line and not any(why in line for why in known)]
    assert skipped == []
