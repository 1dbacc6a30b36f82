"""What the daemon costs: 12 components of real processes in real control groups, period 1 s.

Run it as root from the top of the repository: ``python benchmarks/bench_daemon.py [--seconds 30] [--json FILE]``.
Each component has 15 threads that wake up all the time, peers write the log of a gateway peer (52 lines a
commit, see docs), and the daemon is a real `qioi run` with the law `adaptive` and metrics on.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil
import yaml

from qioi.api import UnreachableError, get_json
from qioi.controller.hierarchy import find_hierarchy

#: 15 threads that sleep and wake, as a Go process has them.
WORKER = """
import threading, time
def work():
    while True:
        time.sleep(0.05)
for _ in range(14):
    threading.Thread(target=work, daemon=True).start()
work()
"""
ROLES = ["peer"] * 4 + ["orderer"] * 3 + ["chaincode"] * 5


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=30)
    arguments.add_argument("--components", type=int, default=12)
    arguments.add_argument("--json", type=Path)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder), options.components, options.seconds)
    print(
        f"{result['components']} components, {result['threads']} threads, {result['seconds']:.0f} s: "
        f"{result['cpu_percent']:.2f} % of one core, {result['rss_mb']:.1f} MB RSS, loop {result['loop_ms']:.2f} ms"
    )
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def measure(folder: Path, count: int, seconds: float) -> dict[str, float]:
    hierarchy = find_hierarchy()
    parent = hierarchy.folder(f"qioi-bench-{os.getpid()}")
    parent.mkdir()
    if hierarchy.version == 2:
        (parent / "cgroup.subtree_control").write_text("+cpu")
    processes: list[subprocess.Popen[bytes]] = []
    components = []
    try:
        for number in range(count):
            role = ROLES[number % len(ROLES)]
            group = parent / f"c{number}"
            group.mkdir()
            processes.append(subprocess.Popen([sys.executable, "-c", WORKER]))
            (group / "cgroup.procs").write_text(str(processes[-1].pid))
            component = {"name": f"c{number}", "role": role, "cgroup": f"{parent.name}/c{number}", "channels": ["ch"]}
            if role == "peer":
                log = folder / f"c{number}.log"
                log.touch()
                component["log"] = str(log)
            components.append(component)
        config = folder / "qioi.yaml"
        config.write_text(
            yaml.safe_dump(
                {
                    "components": components,
                    "channels": {"ch": {"threshold": 50, "law": "adaptive"}},
                    "state_dir": str(folder / "state"),
                    "metrics": {"port": 0},
                }
            )
        )
        daemon = subprocess.Popen([sys.executable, "-m", "qioi.cli", "run", "-c", str(config)])
        processes.append(daemon)
        return watch(daemon, folder, [Path(str(c["log"])) for c in components if "log" in c], count, seconds)
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
            process.wait()
        for group in parent.iterdir():
            if group.is_dir():
                remove(group)
        remove(parent)


def watch(
    daemon: subprocess.Popen[bytes], folder: Path, logs: list[Path], count: int, seconds: float
) -> dict[str, float]:
    """Write logs as peers do, 10 blocks a second, and account for the daemon once it has settled."""
    process = psutil.Process(daemon.pid)
    start: float | None = None
    began = time.monotonic()
    loops: list[float] = []
    used = 0.0
    block = 0
    while start is None or time.monotonic() - start < seconds:
        block += 1
        write_block(logs, block)
        time.sleep(0.1)
        if daemon.poll() is not None:
            raise SystemExit("the daemon has ended; see its message above")
        if start is None and time.monotonic() - began > 8:
            start, used = time.monotonic(), cpu_seconds(process)
        if start is not None and block % 10 == 0:
            loops.append(loop_seconds(folder / "state" / "qioi.sock"))
    elapsed = time.monotonic() - start
    status = get_json(folder / "state" / "qioi.sock", "/status")
    assert sum(source["commits"] for source in status["sources"]) > 0, "the daemon has read no commit"
    return {
        "components": count,
        "threads": 15 * count,
        "seconds": elapsed,
        "cpu_percent": 100 * (cpu_seconds(process) - used) / elapsed,
        "rss_mb": process.memory_info().rss / 1e6,
        "loop_ms": 1000 * sorted(loops)[len(loops) // 2],
    }


def write_block(logs: list[Path], block: int) -> None:
    stamp = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    noise = f"{stamp} UTC 0001 INFO [comm.grpc.server] 1 -> unary call completed grpc.service=gateway.Gateway\n" * 51
    line = (
        f"{stamp} UTC 002b INFO [kvledger] commit -> [ch] Committed block [{block}] with 10 transaction(s) in 1ms "
        "(state_validation=0ms block_and_pvtdata_commit=0ms state_commit=0ms) commitHash=[ab]\n"
    )
    for log in logs:
        with log.open("a") as file:
            file.write(noise + line)


def loop_seconds(socket: Path) -> float:
    try:
        return float(get_json(socket, "/status")["loop"])
    except UnreachableError:
        return 0.0


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def remove(group: Path) -> None:
    """A group can be removed once the kernel has let go of its last process."""
    for _ in range(100):
        try:
            group.rmdir()
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"{group} could not be removed")


if __name__ == "__main__":
    main()
