"""Units of all kinds: of templates, in nested slices, transient, idle; and what operators do while they are raised."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import Site, end
from test_units import KEY, UNITS, VERSION, WRITER, Level, systemctl
from waiting import until

from qioi.discovery.unit_records import FOLDERS

#: Foreign work, for most of the time.
BUSY = """
import time
while True:
    begun = time.monotonic()
    while time.monotonic() < begun + 0.05: pass
    time.sleep(0.01)
"""
#: What says in a unit's file that it is worth this much, and what its group has then; nothing said is 100.
SCALE = 1 if VERSION == 2 else 10
DEFAULT = 100 if VERSION == 2 else 1024


class Units:
    """The units of one test: files of theirs, and what they have."""

    def __init__(self, folder: Path) -> None:
        self.files: list[Path] = []
        self.levels: dict[str, Level] = {}
        (folder / "writer.py").write_text(WRITER)
        (folder / "busy.py").write_text(BUSY)
        self.peer, self.busy = (f"/usr/bin/python3 -u {folder / name}.py" for name in ("writer", "busy"))

    def write(self, name: str, *lines: str) -> Path:
        kind = "Slice" if name.endswith(".slice") else "Service"
        file = UNITS / name
        file.write_text("\n".join([f"[{kind}]", *lines, ""]))
        self.files.append(file)
        return file

    def watch(self, name: str, group: str, worth: int | None = None) -> Level:
        level = self.levels[name] = Level(name, group, DEFAULT if worth is None else worth * SCALE)
        return level

    def start(self, *names: str) -> None:
        systemctl("daemon-reload")
        systemctl("start", *names)

    def state(self) -> dict[str, tuple[int, str, str]]:
        """Give each one's share, and what systemd has on record."""
        found = self.levels.values()
        return {one.name: (one.share, one.shown("CPUWeight"), one.shown("CPUShares")) for one in found}

    def told(self) -> list[str]:
        """Name those that are raised, if systemd knows of all of them."""
        raised = [one for one in self.levels.values() if one.share > one.original]
        return [one.name for one in raised] if all(one.shown(KEY) == str(one.share) for one in raised) else []

    def are_as_found(self) -> bool:
        return all(one.share == one.original for one in self.levels.values())

    def close(self) -> None:
        services = [name for name in self.levels if name.endswith(".service")]
        subprocess.run(["systemctl", "stop", *services, "busy.service"], capture_output=True, check=False)
        subprocess.run(["systemctl", "revert", *self.levels], capture_output=True, check=False)
        for file in self.files:
            file.unlink(missing_ok=True)
        systemctl("daemon-reload")


def left() -> list[str]:
    """Name the drop-ins that keep a share for as long as the host runs."""
    return [str(file) for folder in FOLDERS if folder.exists() for file in folder.rglob("50-CPU*.conf")]


def worth(value: int) -> str:
    return f"{KEY}={value * SCALE}"


@pytest.fixture
def units(tmp_path: Path) -> Iterator[Units]:
    units = Units(tmp_path)
    yield units
    units.close()


@pytest.fixture
def watching(site: Site) -> Site:
    site.changes = {
        "systemd": {"units": [{"unit": "fabric-*.service", "role": "peer"}]},
        "components": [],
        "channels": {},
        "defaults": {"law": "proportional", "threshold": 1000},
    }
    return site


def stopped(units: Units, before: dict[str, tuple[int, str, str]], process: subprocess.Popen[str]) -> None:
    """Stop the daemon: all is as it was, also after systemd has written its own values once more."""
    code, text = end(process)
    assert code == 0, text
    assert "somebody else" not in text
    assert (units.state(), left()) == (before, [])
    systemctl("daemon-reload")
    assert units.state() == before


def test_instances_of_a_template_three_slices_deep(units: Units, watching: Site) -> None:
    slices = "ledger.slice/ledger-org1.slice/ledger-org1-peers.slice"
    peer = r"fabric-peer@org1\x2dexample.com.service"
    units.write("fabric-peer@.service", f"ExecStart={units.peer}", "Slice=ledger-org1-peers.slice", worth(200))
    units.write("ledger-org1-peers.slice", worth(150))
    units.write("busy.service", f"ExecStart={units.busy}", "Slice=ledger-org1.slice", worth(100))
    units.watch(peer, f"{slices}/{peer}", 200)
    units.watch("ledger-org1-peers.slice", slices, 150)
    units.watch("ledger-org1.slice", slices.rpartition("/")[0])
    units.watch("ledger.slice", "ledger.slice")
    units.start(peer, "busy.service")
    before = units.state()
    process = watching.start()
    until(units.told)  # on a busy host perhaps at a level further out than the busy neighbour
    (component,) = (watching.status() or {})["components"]
    assert (component["name"], component["problem"]) == (peer.removesuffix(".service"), None)
    for verb in ("daemon-reload", "daemon-reexec"):
        systemctl(verb)
        until(units.told)
    stopped(units, before, process)


def test_a_service_of_systemd_run_comes_goes_and_comes_with_another_share(units: Units, watching: Site) -> None:
    process = watching.start()
    name = "fabric-late.service"
    for value in (300, 50):
        level = units.watch(name, f"system.slice/{name}", value)
        command = ["systemd-run", "-q", "--collect", f"--unit={name}", "-p", worth(value)]
        subprocess.run([*command, *units.peer.split()], check=True)
        assert level.share == level.original
        until(lambda: bool((watching.status() or {})["components"]))
        units.watch("system.slice", "system.slice")
        until(units.told)
        if value == 300:
            systemctl("stop", name)
            until(lambda: (watching.status() or {})["components"] == [])
            del units.levels[name]
            until(units.are_as_found)
    code, text = end(process)
    assert code == 0, text
    assert units.are_as_found()
    assert units.levels[name].shown(KEY) == str(50 * SCALE)
    systemctl("stop", name)
    assert left() == []


def test_what_an_edited_unit_says_counts_whenever_nothing_is_raised(units: Units, watching: Site) -> None:
    """Then nothing of the daemon's is on systemd's record that would go before the unit's file, nor in the end."""
    name = "fabric-edited.service"
    file = units.write(name, f"ExecStart={units.peer}", worth(200))
    level = units.watch(name, f"system.slice/{name}", 200)
    units.watch("system.slice", "system.slice")
    units.start(name)

    def ceiling(shares: int) -> None:
        watching.changes["defaults"] = {"law": "proportional", "threshold": 1000, "ceiling": shares}
        watching.config()
        process.send_signal(signal.SIGHUP)

    watching.changes["defaults"] = {"law": "proportional", "threshold": 1000, "ceiling": 2}
    process = watching.start()
    until(lambda: bool((watching.status() or {})["components"]))
    for value in (300, 400):
        file.write_text(f"[Service]\nExecStart={units.peer}\n{worth(value)}\n")
        systemctl("daemon-reload")
        level.original = value * SCALE
        until(units.are_as_found)
        before = units.state()
        ceiling(16_384)
        until(units.told)
        ceiling(2)
        until(lambda: left() == [])
        assert units.state() == before
    stopped(units, before, process)


def test_a_share_that_the_operator_sets_for_good_while_it_is_raised(units: Units, watching: Site) -> None:
    """Of all levels, so that it is in any case set where the daemon acts."""
    name = "fabric-set.service"
    units.write(name, f"ExecStart={units.peer}", worth(200))
    units.watch(name, f"system.slice/{name}", 200)
    units.watch("system.slice", "system.slice")
    units.start(name)
    process = watching.start()
    until(units.told)
    for level in units.levels:
        systemctl("set-property", level, worth(77))
    until(lambda: "somebody else" in str((watching.status() or {})["components"][0]["problem"]))
    code, text = end(process)
    assert code == 0, text
    assert [one.share for one in units.levels.values()] == [77 * SCALE, 77 * SCALE]
    systemctl("daemon-reload")
    assert [one.share for one in units.levels.values()] == [77 * SCALE, 77 * SCALE]


@pytest.mark.skipif(VERSION == 1, reason="systemd makes no group of cgroup v1 idle")
def test_a_unit_that_is_idle_is_left_alone_until_it_is_not(units: Units, watching: Site) -> None:
    name = "fabric-idle.service"
    units.write(name, f"ExecStart={units.peer}", "CPUWeight=idle")
    units.write("fabric-other.service", f"ExecStart={units.peer}", worth(200))
    level, other = units.watch(name, f"system.slice/{name}"), units.watch("fabric-other.service", "", 200)
    other.group = f"system.slice/{other.name}"
    units.start(name, other.name)
    idle = Path("/sys/fs/cgroup", level.group, "cpu.idle")
    assert idle.read_text() == "1\n"
    process = watching.start()

    def problem() -> str:
        found = {one["name"]: one["problem"] for one in (watching.status() or {})["components"]}
        return str(found.get("fabric-idle"))

    until(lambda: "the group is idle (cpu.idle): nothing raises it" in problem())
    assert idle.read_text() == "1\n"
    systemctl("set-property", "--runtime", name, "CPUWeight=150")
    until(lambda: problem() == "None")
    level.original = 150
    code, text = end(process)
    assert code == 0, text
    assert (level.share, level.shown("CPUWeight"), other.share) == (150, "150", 200)
