"""systemd's units as components, under a real systemd (the host's first process, or a container's)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import Site, end
from waiting import until

from qioi.discovery.systemd import Systemd, unescape
from qioi.discovery.unit_records import FOLDERS
from qioi.kernel.hierarchy import find_hierarchy
from qioi.monitor.logs.journald import JournalTail

#: Writes a peer's log as Fabric does, in colours, to the journal; blocks go on where a former process ended.
WRITER = r"""
import sys, time
while True:
    now, block = time.strftime("%Y-%m-%d %H:%M:%S.000", time.gmtime()), int(time.time() * 5)
    sys.stderr.write(f"\033[34m{now} UTC 002b INFO\033[0m [kvledger] commit -> [red] Committed block [{block}] with 1 "
        "transaction(s) in 1ms (state_validation=0ms block_and_pvtdata_commit=0ms state_commit=0ms) commitHash=[ab]\n")
    time.sleep(0.2)
"""
UNIT = """[Service]
ExecStart=/usr/bin/python3 -u {script} %i
Restart=always
RestartSec=100ms
LogRateLimitIntervalSec=0
CPUAccounting=yes
{more}
"""
UNITS = Path("/run/systemd/system")
VERSION = find_hierarchy().version
#: What a unit says of its share, and what its group then has: on v2, on v1.
ASKED = {"CPUWeight=200": (200, 2048), "CPUShares=512": (50, 512), "": (100, 1024)}
KEY = "CPUWeight" if VERSION == 2 else "CPUShares"


def systemctl(*arguments: str) -> str:
    return subprocess.run(["systemctl", *arguments], capture_output=True, text=True, check=True).stdout.strip()


class Level:
    """A unit, or the slice that it is in: it depends on where the host's other work is which of them is raised."""

    def __init__(self, name: str, group: str, original: int) -> None:
        self.name, self.group, self.original = name, group, original

    @property
    def share(self) -> int:
        hierarchy = find_hierarchy()
        try:
            return int((hierarchy.folder(self.group) / hierarchy.file).read_text())
        except FileNotFoundError:  # while it starts
            return self.original

    def shown(self, key: str) -> str:
        return systemctl("show", self.name, "-P", key)


class Peer(Level):
    """A unit that is a peer."""

    def __init__(self, script: Path, more: str) -> None:
        name = f"fabric-peer{len(more)}.service"
        super().__init__(name, f"system.slice/{name}", ASKED[more][2 - VERSION])
        (UNITS / self.name).write_text(UNIT.format(script=script, more=more))
        self.slice = Level("system.slice", "system.slice", ASKED[""][2 - VERSION])

    def start(self) -> None:
        systemctl("daemon-reload")
        systemctl("start", self.name)

    def raised(self) -> list[Level]:
        return [one for one in (self, self.slice) if one.share > one.original]

    def remove(self) -> None:
        systemctl("stop", self.name)
        subprocess.run(["systemctl", "revert", self.name, "system.slice"], capture_output=True, check=False)
        (UNITS / self.name).unlink()
        systemctl("daemon-reload")


@pytest.fixture
def peer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Peer]:
    script = tmp_path / "writer.py"
    script.write_text(WRITER)
    # On v2 a unit has a weight if one of its siblings asks for one.
    other = UNITS / "fabric-other.service"
    other.write_text("[Service]\nExecStart=/bin/sleep 1000000\nCPUWeight=100\nCPUShares=1024\n")
    peer = Peer(script, getattr(request, "param", ""))
    systemctl("daemon-reload")
    systemctl("start", other.name)
    peer.start()
    yield peer
    peer.remove()
    systemctl("stop", other.name)
    other.unlink()


@pytest.fixture
def watching(site: Site) -> Site:
    site.changes = {
        "systemd": {"units": [{"unit": "fabric-peer*.service", "role": "peer"}]},
        "components": [],
        "channels": {},
        "defaults": {"law": "proportional", "threshold": 1000},
    }
    return site


def told(peer: Peer) -> bool:
    """Raised, and systemd knows."""
    return bool(peer.raised()) and all(one.shown(KEY) == str(one.share) for one in peer.raised())


def record(peer: Peer) -> list[tuple[str, str]]:
    return [(one.shown("CPUWeight"), one.shown("CPUShares")) for one in (peer, peer.slice)]


def back(peer: Peer, before: list[tuple[str, str]]) -> bool:
    """Whether share and record are as they were, also after systemd has written its own value once more."""
    left = [str(file) for folder in FOLDERS if folder.exists() for file in folder.rglob("50-CPU*.conf")]
    assert (peer.share, peer.slice.share, record(peer), left) == (peer.original, peer.slice.original, before, [])
    systemctl("daemon-reload")
    assert (peer.share, peer.slice.share, record(peer)) == (peer.original, peer.slice.original, before)
    return True


@pytest.mark.parametrize("peer", ASKED, indirect=True)
def test_raised_kept_over_a_daemon_reload_and_put_back(peer: Peer, watching: Site) -> None:
    before = record(peer)
    assert peer.share == peer.original
    process = watching.start()
    until(lambda: told(peer))
    systemctl("daemon-reload")
    until(lambda: told(peer))
    status = watching.status()
    assert status is not None
    (component,) = status["components"]
    assert (component["name"], component["role"], component["problem"]) == (peer.name[:-8], "peer", None)
    assert component["cgroup"] == f"system.slice/{peer.name}"
    assert component["original"] == (1024 if VERSION == 2 else peer.original)
    code, text = end(process)
    assert code == 0, text
    assert "somebody else" not in text
    assert back(peer, before)


def test_a_property_that_is_set_is_in_force_in_the_group(peer: Peer) -> None:
    systemd, late = Systemd(), []
    try:
        for value in range(1000, 1200):
            systemd.set(peer.name, {KEY: value})
            late += [value] if peer.share != value else []
    finally:
        systemd.close()
    assert late == []


def test_reloads_at_any_moment_are_nobodys_change(peer: Peer, watching: Site) -> None:
    """A reload writes what systemd was told last, which may be any value of ours while shares move."""
    before = record(peer)
    process = watching.start()
    until(lambda: told(peer))
    for _ in range(40):
        systemctl("daemon-reload")
    until(lambda: told(peer))
    code, text = end(process)
    assert code == 0, text
    assert "somebody else" not in text
    assert back(peer, before)


@pytest.mark.parametrize("peer", ["CPUWeight=200", ""], indirect=True)
def test_after_a_kill_restore_puts_share_and_record_back(peer: Peer, watching: Site) -> None:
    before = record(peer)
    process = watching.start()
    until(lambda: told(peer))
    end(process, signal.SIGKILL)
    assert peer.raised()
    done = watching.qioi("restore", "--state-dir", str(watching.state))
    assert done.returncode == 0, done.stdout + done.stderr
    assert back(peer, before)


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_a_unit_that_restarts_is_raised_again(peer: Peer, watching: Site, how: str) -> None:
    before = record(peer)
    process = watching.start()
    until(lambda: told(peer))
    pid = peer.shown("MainPID")
    if how == "restart":
        systemctl("restart", peer.name)
    else:
        os.kill(int(pid), signal.SIGKILL)
    until(lambda: peer.shown("MainPID") not in (pid, "0") and peer.shown("ActiveState") == "active")
    until(lambda: told(peer))
    code, text = end(process)
    assert code == 0, text
    assert back(peer, before)


def test_a_share_that_was_kept_over_a_stop_goes_back_in_the_end(peer: Peer, watching: Site) -> None:
    before = record(peer)
    watching.changes["on_exit"] = "keep"
    process = watching.start()
    until(lambda: told(peer))
    end(process)
    assert told(peer)
    watching.changes["on_exit"] = "restore"
    process = watching.start()
    until(lambda: bool((watching.status() or {"components": []})["components"]))
    code, text = end(process)
    assert code == 0, text
    assert back(peer, before)


def test_what_somebody_else_has_set_is_left_alone(peer: Peer, watching: Site) -> None:
    process = watching.start()
    until(lambda: told(peer))
    level = peer.raised()[0]
    systemctl("set-property", "--runtime", level.name, f"{KEY}=77")
    until(lambda: "somebody else" in str((watching.status() or {"components": [{}]})["components"][0].get("problem")))
    end(process)
    assert (level.share, level.shown(KEY)) == (77, "77")


def test_units_that_start_late_and_stop(peer: Peer, watching: Site) -> None:
    systemctl("stop", peer.name)
    process = watching.start()
    assert (watching.status() or {})["components"] == []
    systemctl("start", peer.name)
    until(lambda: told(peer))
    systemctl("stop", peer.name)
    until(lambda: (watching.status() or {})["components"] == [])
    code, text = end(process)
    assert code == 0, text
    assert "systemd unit fabric-peer*.service: none is active" in text
    assert peer.shown(KEY) == "[not set]"


def test_a_unit_without_a_share_is_said_with_the_remedy(peer: Peer, watching: Site) -> None:
    bare = UNITS / "lone-bare.service"
    bare.write_text("[Service]\nExecStart=/bin/sleep 1000000\nSlice=lone.slice\n")
    watching.changes["systemd"] = {"units": [{"unit": bare.name, "role": "orderer"}]}
    systemctl("daemon-reload")
    systemctl("start", bare.name)
    try:
        process = watching.start()
        remedy = f"`systemctl set-property {bare.name} CPUWeight=100` gives it one"
        # It is said once a period has passed.
        until(lambda: ((watching.status() or {}).get("totals") or {"periods": 1})["periods"] > 2)
        assert remedy in end(process)[1]
    finally:
        systemctl("stop", bare.name)
        bare.unlink()


def logged(peer: Peer) -> list[int]:
    """Blocks of which the journal holds commits."""
    command = ["journalctl", "-o", "cat", "-q", f"_SYSTEMD_UNIT={peer.name}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [int(one) for one in re.findall(r"Committed block \[(\d+)\]", text)]


def test_no_line_is_lost_or_read_twice_when_the_journal_rotates_or_journalctl_dies(peer: Peer) -> None:
    until(lambda: len(logged(peer)) > 3)
    before = logged(peer)
    tail, blocks = JournalTail(peer.name), [0]

    def more(count: int) -> None:
        wanted = len(blocks) + count

        def enough() -> bool:
            text = b"".join(tail.poll()).decode()
            blocks.extend(int(one) for one in re.findall(r"Committed block \[(\d+)\]", text))
            return len(blocks) >= wanted

        until(enough)

    try:
        more(3)
        assert blocks[1] >= before[-1], "it begins at the end"
        subprocess.run(["journalctl", "--rotate", "-q"], check=True)
        more(3)
        subprocess.run(["journalctl", "--rotate", "--vacuum-files=1", "-q"], check=True)
        more(3)
        assert tail._process is not None
        tail._process.kill()
        more(5)
    finally:
        tail.close()
    kept = logged(peer)
    seen = blocks[1:]
    # What has been vacuumed away by now was seen before; what is kept is compared to the last.
    start = next(place for place, block in enumerate(seen) if block in kept)
    assert seen[start:] == kept[kept.index(seen[start]) :][: len(seen) - start]
    assert len(set(seen)) >= len(seen) - 1  # two processes, one on each side of a start, may write the same number


def test_names_of_units_survive_the_bus() -> None:
    systemd = Systemd()
    try:
        found = systemd.units(["*"])
        assert any("-" in unit.name for unit in found)  # a character that the bus has to escape
        for unit in found:
            assert unescape(unit.path.rpartition("/")[2]) == unit.name
    finally:
        systemd.close()
