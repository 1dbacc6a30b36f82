"""What the daemon costs: 12, 50 and 1,000 components of real processes in real control groups, period 1 s.

Run it as root from the top of the repository: ``python benchmarks/bench_daemon.py [--shape NAME] [--json FILE]``.
``50x64`` are 50 components that serve 64 channels each, ``1000x30`` a thousand of 30 threads, ``50+8`` stand beside 8
neighbours that never sleep; in all other shapes nobody else works but who writes the logs. Every thread of a component
wakes up again and again. Every peer (a third of the components) writes the log of a gateway peer, 52 lines a block or
fewer. The daemon is a real `qioi run` with the law `adaptive`, and serves no metrics.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import yaml

from qioi.lab.signals import ending_signals_interrupt
from qioi.processes.cgroups import find_mounts
from qioi.show.http import get_json, loop_seconds

#: COUNT processes of THREADS threads, each of which wakes up every PAUSE seconds. Forked: they share their memory.
SPAWNER = """
import os, sys, threading, time
count, threads, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
def work():
    time.sleep(pause * (threading.get_native_id() % 97) / 97)
    while True:
        time.sleep(pause)
threading.stack_size(64 * 1024)
for number in range(count):
    pid = os.fork()
    if pid == 0:
        for _ in range(threads - 1):
            threading.Thread(target=work, daemon=True).start()
        work()
    print(pid, flush=True)
time.sleep(1e6)
"""
#: COUNT processes that never sleep once they have been put into their groups, which the end of their input says.
NEIGHBOURS = """
import os, sys
for _ in range(int(sys.argv[1])):
    pid = os.fork()
    if pid == 0:
        sys.stdin.read()
        while True:
            pass
    print(pid, flush=True)
sys.stdin.read()
"""
#: Components that serve one channel: tenants share a host, not a ledger.
CHANNEL = 50
#: Seconds until the daemon is taken as settled; how many of its periods are looked at once it was accounted for.
SETTLE, LOOKS = 5.0, 5
#: What the rate of blocks may be off by, as a part of it: the daemon's cost is that of the rate.
OFF = 0.1
ROLES = ["peer"] * 4 + ["orderer"] * 3 + ["chaincode"] * 5


@dataclass(frozen=True)
class Shape:
    """What there is to watch; ``pause`` in seconds between a thread's wakeups, ``blocks`` per second, peer and channel.

    ``channels`` are those that every component serves; 0: one, which it shares with the fifty components beside it.
    """

    components: int
    threads: int
    pause: float
    blocks: float
    channels: int = 0
    noise: int = 51  # lines of the log for each block
    neighbours: int = 0


#: A busy network of one host, several of them, and more than anybody is known to run.
SHAPES = {
    "12": Shape(12, 15, 0.05, 10),
    "50": Shape(50, 15, 0.05, 10),
    "50+8": Shape(50, 15, 0.05, 10, neighbours=8),
    "1000": Shape(1000, 5, 1.0, 1),
    "50x64": Shape(50, 15, 0.05, 0.5, channels=64, noise=10),
    "1000x30": Shape(1000, 30, 10.0, 1),
}


@ending_signals_interrupt()
def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=20)
    arguments.add_argument("--shape", choices=SHAPES, help="one of them only")
    arguments.add_argument("--profile", type=Path, help="run the daemon under cProfile, and leave its account there")
    arguments.add_argument("--json", type=Path)
    options = arguments.parse_args()
    results = []
    for name in [options.shape] if options.shape else SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            result = measure(Path(folder), SHAPES[name], options.seconds, options.profile)
        print(
            f"{name}: {result['components']} components, {result['threads']} threads, {result['seconds']:.0f} s: "
            f"{result['cpu_percent']:.2f} % of one core, {result['rss_mb']:.1f} MB RSS, "
            f"work of a period {result['loop_ms']:.2f} ms, {result['open_files']} open files, "
            f"{result['blocks']:.2f} blocks/s of each peer and channel",
            flush=True,
        )
        results.append({"shape": name, **result})
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


def measure(folder: Path, shape: Shape, seconds: float, profile: Path | None) -> dict[str, float]:
    mounts = find_mounts()
    # CPU time is accounted for as engines and systemd have it done: where that is a controller of its own, there too.
    parents = list(mounts.directories(f"qioi-bench-{os.getpid()}"))
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", *map(str, words)]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True))
        return started[-1]

    try:
        for parent in parents:
            parent.mkdir()
        if mounts.hierarchy.version == 2:
            (parents[0] / "cgroup.subtree_control").write_text("+cpu", encoding="utf-8")
        spawner = start(SPAWNER, shape.components, shape.threads, shape.pause)
        beside = start(NEIGHBOURS, shape.neighbours)
        assert spawner.stdout is not None
        assert beside.stdin is not None
        assert beside.stdout is not None
        components = [
            populate(parents, number, int(spawner.stdout.readline()), folder, shape)
            for number in range(shape.components)
        ]
        for number in range(shape.neighbours):
            place(parents, f"n{number}", int(beside.stdout.readline()))
        beside.stdin.close()
        config = folder / "qioi.yaml"
        document = {
            "components": components,
            # Beside neighbours whoever waits is raised; a threshold that is reached would leave them what is beyond it.
            "defaults": {"law": "adaptive", **({} if shape.neighbours else {"threshold": 50})},
            "state_dir": str(folder / "state"),
            "metrics": {"port": 0},
        }
        config.write_text(yaml.safe_dump(document), encoding="utf-8")
        account = ["-m", "cProfile", "-o", str(profile)] if profile else []
        daemon = subprocess.Popen([sys.executable, *account, "-m", "qioi.cli", "run", "-c", str(config)])
        try:
            return watch(
                daemon,
                folder,
                [(Path(str(c["log"])), channel) for c in components if "log" in c for channel in c["channels"]],
                shape,
                seconds,
            )
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()
    finally:
        for others in started:
            os.killpg(others.pid, signal.SIGKILL)
            others.wait()
        for parent in filter(Path.exists, parents):
            for group in parent.iterdir():
                if group.is_dir():
                    remove(group)
            remove(parent)


def place(parents: list[Path], name: str, pid: int) -> None:
    """Put a process into a control group of its own."""
    for parent in parents:
        group = parent / name
        group.mkdir()
        (group / "cgroup.procs").write_text(str(pid), encoding="utf-8")


def populate(parents: list[Path], number: int, pid: int, folder: Path, shape: Shape) -> dict[str, Any]:
    """Give a process a control group, and a peer a log."""
    role = ROLES[number % len(ROLES)]
    place(parents, f"c{number}", pid)
    channels = [f"ch{one}" for one in range(shape.channels)] or [f"ch{number // CHANNEL}"]
    component = {"name": f"c{number}", "role": role, "cgroup": f"{parents[0].name}/c{number}", "channels": channels}
    if role == "peer":
        log = folder / f"c{number}.log"
        log.touch()
        component["log"] = str(log)
    return component


def paced(length: float, blocks: float, write: Callable[[], None]) -> float:
    """Write ``blocks`` a second for so many seconds, one at least; give how many a second there were.

    A write that takes long is made up for by the next ones, so that larger hosts have the same rate.
    """
    began, number = time.monotonic(), 0
    while True:
        write()
        number += 1
        time.sleep(max(0.0, began + number / blocks - time.monotonic()))
        elapsed = time.monotonic() - began
        if elapsed >= length:
            return number / elapsed


def watch(
    daemon: subprocess.Popen[bytes], folder: Path, logs: list[tuple[Path, str]], shape: Shape, seconds: float
) -> dict[str, float]:
    """Write logs as peers do, and account for the daemon once it has settled.

    Nobody asks it anything meanwhile: answers are no part of what it costs. How long its periods take is asked later.
    """
    process = psutil.Process(daemon.pid)
    socket = folder / "state" / "qioi.sock"
    blocks = itertools.count(1)

    def write() -> None:
        if daemon.poll() is not None:
            raise SystemExit("the daemon has ended; see its message above")
        write_block(logs, next(blocks), shape.noise)

    while not loop_seconds(socket):  # starting is no part of what it costs
        paced(0, shape.blocks, write)
    paced(SETTLE, shape.blocks, write)
    began, used = time.monotonic(), cpu_seconds(process)
    real = paced(seconds, shape.blocks, write)
    elapsed, used = time.monotonic() - began, cpu_seconds(process) - used
    if abs(real / shape.blocks - 1) > OFF:
        raise SystemExit(f"{real:.2f} blocks/s were written to each log, not {shape.blocks:g}: the host is too slow")
    loops = []
    for _ in range(LOOKS):
        paced(1.0, shape.blocks, write)
        loops.append(loop_seconds(socket))
    status = get_json(socket, "/status")
    raised = sum(one["share"] > one["original"] for one in status["components"])
    assert raised > 0 or shape.neighbours == 0, "nothing is raised beside the neighbours"
    assert sum(source["commits"] for source in status["sources"]) > 0, "the daemon has read no commit"
    return {
        "components": shape.components,
        "threads": shape.threads * shape.components,
        "seconds": elapsed,
        "blocks": real,
        "cpu_percent": 100 * used / elapsed,
        "rss_mb": process.memory_info().rss / 1e6,
        "open_files": process.num_fds(),
        "loop_ms": 1000 * statistics.median(loops),
    }


def write_block(logs: list[tuple[Path, str]], block: int, lines: int) -> None:
    stamp = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    noise = f"{stamp} UTC 0001 INFO [comm.grpc.server] 1 -> unary call completed grpc.service=gateway.Gateway\n" * lines
    line = (
        f"{stamp} UTC 002b INFO [kvledger] commit -> [CHANNEL] Committed block [{block}] with 10 transaction(s) in 1ms "
        "(state_validation=0ms block_and_pvtdata_commit=0ms state_commit=0ms) commitHash=[ab]\n"
    )
    for log, channel in logs:
        with log.open("a", encoding="utf-8") as file:
            file.write(noise + line.replace("CHANNEL", channel))


def cpu_seconds(process: psutil.Process) -> float:
    """Read a process's CPU clock (clock_getcpuclockid(3)): /proc has hundredths of a second, too coarse for seconds."""
    return time.clock_gettime(~process.pid << 3 | 2)


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
