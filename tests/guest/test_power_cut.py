"""A machine that loses its power while shares are raised: the next boot finds everything as it was."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest
from guest_machine import REPOSITORY, Guest, UnavailableError, command_disk
from systemd_machine import UnavailableError as NoRootError
from systemd_machine import root_file_system

pytestmark = [pytest.mark.slow, pytest.mark.host, pytest.mark.timeout(1800)]

#: Seconds for one step in an emulated machine on a busy host; it only says that the machine hangs.
PATIENCE = 400.0
COMMAND = """#!/bin/sh
exec >/dev/ttyS0 2>&1 </dev/ttyS0
stty -F /dev/ttyS0 -echo
export PYTHONPATH=/opt/source:/opt/site PYTHONDONTWRITEBYTECODE=1 HOME=/root
systemctl start dbus.socket
exec python3 /opt/source/tests/guest/inside/power_cut.py {state}
"""


def wait(guest: Guest, what: str) -> dict[str, Any]:
    """Wait until the machine says something, and give it."""
    deadline = time.monotonic() + PATIENCE
    while (match := re.search(rf"^guest: {what} (\{{.*\}})$", guest.text(), re.MULTILINE)) is None:
        assert time.monotonic() < deadline, f"{what}: never said:\n{guest.text()[-6000:]}"
        time.sleep(0.1)
    said: dict[str, Any] = json.loads(match[1])
    return said


def test_after_a_power_cut_everything_is_as_found(tmp_path: Path) -> None:
    """The state in memory, as it comes, and then on the disk, where the journal of another boot is found again.

    In the end, since the machine is up: a daemon that the kernel kills for want of memory, and one that is stopped.
    """
    try:
        guest = Guest(root_file_system(), tmp_path)
    except (UnavailableError, NoRootError) as error:
        pytest.skip(f"no guest here: {error}")
    unit = {"qioi.service": REPOSITORY / "deploy" / "systemd" / "qioi.service"}
    disks = {}
    for state in ("/run/qioi", "/var/lib/qioi"):
        folder = tmp_path / state.split("/")[1]
        folder.mkdir()
        disks[state] = command_disk(folder, COMMAND.format(state=state), unit, 160)
    root = guest.own_root()
    first: dict[str, Any] = {}
    for state in disks:
        with guest.booted(disks[state], root=root):
            found = wait(guest, "found")
            first = first or found
            assert (found["values"], found["drop_ins"]) == (first["values"], first["drop_ins"])
            assert re.match(r"\d+: ", found["check"]) is None, found
            assert wait(guest, "raised")["problem"] == ""
            time.sleep(random.uniform(0.0, 4.0))
    assert first["drop_ins"] == ["/etc/systemd/system.control/batch.service.d/50-CPUWeight.conf"]
    with guest.booted(disks["/var/lib/qioi"], root=root) as process:
        found = wait(guest, "found")
        assert (found["values"], found["drop_ins"]) == (first["values"], first["drop_ins"])
        assert "journal" in found["state"], "the cut came while shares were raised"
        assert wait(guest, "raised")["problem"] == ""
        assert process.stdin is not None
        process.stdin.write(b"stop\n")
        process.stdin.flush()
        starved = wait(guest, "starved")
        stopped = wait(guest, "stopped")
    assert "oom-kill" in starved["said"]
    assert "its original" in starved["said"]
    assert (stopped["values"], stopped["drop_ins"]) == (first["values"], first["drop_ins"])
    assert stopped["result"] == "success", stopped["said"]
    assert not {"journal", "idle", "journal.damaged", "idle.damaged"} & set(stopped["state"])
    assert "Traceback" not in stopped["said"]
