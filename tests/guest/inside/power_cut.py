"""One boot of a machine that may lose its power at any moment (test_power_cut.py). Says as JSON what it finds.

A peer and a best-effort neighbour are units; the first boot installs them. QiOi runs by its own unit, raises the one
and makes the other idle, until the power goes or a line comes in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import yaml

ETC = Path("/etc/systemd/system")
GROUPS = Path("/sys/fs/cgroup")
UNITS = {"fabric-peer.service": 200, "batch.service": 150, "system.slice": 0}
PEER = """
import sys, time
while True:
    begun = time.monotonic()
    while time.monotonic() < begun + 0.1: pass
    now, block = time.strftime("%Y-%m-%d %H:%M:%S.000", time.gmtime()), int(time.time() * 5)
    sys.stderr.write(f"{now} UTC 002b INFO [kvledger] commit -> [red] Committed block [{block}] with 1 transaction(s) "
        "in 1ms (state_validation=0ms block_and_pvtdata_commit=0ms state_commit=0ms) commitHash=[ab]\\n")
    time.sleep(0.1)
"""
CONFIG = {
    "period": 0.1,
    "systemd": {"units": [{"unit": "fabric-*.service", "role": "peer"}]},
    "defaults": {"law": "proportional", "threshold": 100},
    "best_effort": ["system.slice/batch.service"],
    "metrics": {"port": 0},
}
ON_DISK = """[Service]
StateDirectory=qioi
ExecStopPost=
ExecStopPost=/usr/local/bin/qioi restore --state-dir {folder} --unless-kept
"""


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip() if done.returncode == 0 else f"{done.returncode}: {done.stderr.strip()}"


def install(state: Path) -> None:
    """Do what is done once, and once more where the state folder is another one."""
    programs = {"fabric-peer": PEER, "batch": "while True: pass\n"}
    for name, program in programs.items():
        script = Path(f"/usr/local/lib/{name}.py")
        script.write_text(program)
        weight = UNITS[f"{name}.service"]
        unit = f"[Service]\nExecStart=/usr/bin/python3 -u {script}\nCPUWeight={weight}\nLogRateLimitIntervalSec=0\n"
        (ETC / f"{name}.service").write_text(unit)
    command = Path("/usr/local/bin/qioi")
    command.write_text('#!/bin/sh\nPYTHONPATH=/opt/source:/opt/site exec /usr/bin/python3 -m qioi.cli "$@"\n')
    command.chmod(0o755)
    (ETC / "qioi.service").write_text(Path("/opt/qioi.service").read_text())
    Path("/etc/qioi").mkdir(exist_ok=True)
    Path("/etc/qioi/qioi.yaml").write_text(yaml.safe_dump({**CONFIG, "state_dir": str(state)}))
    if state != Path("/run/qioi"):
        (ETC / "qioi.service.d").mkdir(exist_ok=True)
        (ETC / "qioi.service.d/state.conf").write_text(ON_DISK.format(folder=state))
    run("systemctl", "daemon-reload")


def group(unit: str) -> Path:
    return GROUPS / ("system.slice" if unit == "system.slice" else f"system.slice/{unit}")


def values() -> dict[str, list[str]]:
    """Give each unit's properties, and what its group has."""
    shown = run("systemctl", "show", "-P", "CPUWeight", *UNITS).split("\n\n")
    files = "cpu.weight", "cpu.idle"
    return {
        unit: [record, *((group(unit) / file).read_text().strip() for file in files)]
        for unit, record in zip(UNITS, shown, strict=True)
    }


def drop_ins() -> list[str]:
    folders = (
        Path(name) for name in ("/etc/systemd/system.control", "/run/systemd/system.control", "/run/systemd/transient")
    )
    return sorted(str(file) for folder in folders if folder.exists() for file in folder.rglob("*.conf"))


def say(what: str, **more: object) -> None:
    print(f"guest: {what} {json.dumps({'values': values(), 'drop_ins': drop_ins(), **more})}", flush=True)


def raised() -> bool:
    found = values()
    more = [unit for unit, (record, *_) in found.items() if record.isdigit() and int(record) > (UNITS[unit] or 100)]
    more = [unit for unit in more if unit != "batch.service"]
    return bool(more) and found["batch.service"][-1] == "1"


def wait_until_raised() -> None:
    for _ in range(600):
        if raised():
            return
        time.sleep(0.2)
    print(run("journalctl", "-u", "qioi", "-o", "cat", "--no-pager"), values())
    sys.exit(1)


def starve() -> str:
    """Leave the daemon too little memory, until the kernel has killed it; give what systemd then says of it."""
    pid = run("systemctl", "show", "qioi", "-P", "MainPID")
    limit = group("qioi.service") / "memory.max"
    most = limit.read_text()
    limit.write_text("8M")
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.05)
    if limit.exists():
        limit.write_text(most)
    while run("systemctl", "show", "qioi", "-P", "ActiveState") != "active" or run(
        "systemctl", "show", "qioi", "-P", "MainPID"
    ) in (pid, "0"):
        time.sleep(0.2)
    return run("journalctl", "-u", "qioi", "--no-pager")


def main(state: Path) -> None:
    known = (ETC / "qioi.service").exists()
    before = sorted(file.name for file in state.iterdir()) if state.exists() else []
    install(state)
    checked = run("qioi", "check", "-c", "/etc/qioi/qioi.yaml")
    run("systemctl", "start", "fabric-peer", "batch")
    # This script is emulated beside units that are busy: it would take minutes.
    own = Path("/proc/self/cgroup").read_text().strip().partition("::/")[2]
    (GROUPS / own / "cpu.weight").write_text("10000")
    if not known:
        run("systemctl", "set-property", "batch.service", "CPUWeight=300")  # by its operator, for good
    os.sync()
    say("found", state=before, check=checked)
    problem = run("systemctl", "start", "qioi")
    wait_until_raised()
    say("raised", problem=problem)
    if sys.stdin.readline():
        killed = starve()
        wait_until_raised()
        say("starved", said=killed)
        run("systemctl", "stop", "qioi")
        left = sorted(file.name for file in state.iterdir())
        said = run("journalctl", "-u", "qioi", "-o", "cat", "--no-pager")
        say("stopped", state=left, result=run("systemctl", "show", "qioi", "-P", "Result"), said=said)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
