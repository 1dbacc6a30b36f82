"""Whether the loop keeps its period beside 16 sysbench, each in a control group of its own, however it was started.

Run it as root from the top of the repository: ``python benchmarks/bench_loop.py [--seconds 12] [--json FILE]``.
The daemon runs in the root group, where it may have a real-time priority, and in a group of its own, where cgroup v1
refuses that unless the group has been given a budget; at a period of 1 s and of 0.1 s. How late a period begins
is the daemon's own account (``qioi_loop_lateness_seconds``). The goal is a fifth of a period.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from bench_daemon import remove

from qioi.interference import sysbench_binary
from qioi.kernel.hierarchy import Hierarchy, find_hierarchy
from qioi.lab.signals import ending_signals_interrupt
from qioi.processes.errors import LabError
from qioi.show.http import UnixConnection, UnreachableError, get_json

NEIGHBOURS = 16


@ending_signals_interrupt()
def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=12)
    arguments.add_argument("--json", type=Path)
    options = arguments.parse_args()
    hierarchy = find_hierarchy()
    sysbench = [sysbench_binary(), "cpu", "--threads=1", "--time=0", "run"]
    names = [f"qioi-bench-{os.getpid()}-{number}" for number in range(NEIGHBOURS + 1)]
    neighbours, results = [], []
    try:
        for name in names:
            hierarchy.folder(name).mkdir()
        for name in names[1:]:
            neighbours.append(start(sysbench, hierarchy, name))
        for period in (1.0, 0.1):
            for where, group in (("root group", ""), ("group of its own", names[0])):
                with tempfile.TemporaryDirectory() as folder:
                    result = measure(Path(folder), hierarchy, names[1], group, period, options.seconds)
                check(neighbours)
                results.append({"period": period, "where": where, **result})
                print(
                    f"period {period:g} s, {where}: {result['periods']:.0f} periods, {result['late']:.0f} late by more "
                    f"than a fifth; 99 % begin at most {1000 * result['p99']:.0f} ms late",
                    flush=True,
                )
                if result["said"]:
                    print(f"  it says: {result['said']}", flush=True)
    finally:
        for process in neighbours:
            process.kill()
            process.wait()
        for name in names:
            remove(hierarchy.folder(name))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


def start(command: list[str], hierarchy: Hierarchy, group: str, **more: Any) -> subprocess.Popen[bytes]:
    """Start a process in a group."""
    file = hierarchy.folder(group) / "cgroup.procs"
    words = ["sh", "-c", f'echo $$ >"{file}" && exec "$@"', "sh", *command]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, **more)


def check(neighbours: Sequence[subprocess.Popen[bytes]]) -> None:
    """Raise if a neighbour has ended by itself: the daemon was not beside as many as it is said to be."""
    ended = [process.returncode for process in neighbours if process.poll() is not None]
    if ended:
        raise LabError(f"{len(ended)} of {len(neighbours)} sysbench ended by themselves (status {ended[0]})")


def measure(folder: Path, hierarchy: Hierarchy, group: str, own: str, period: float, seconds: float) -> dict[str, Any]:
    """Run a daemon that watches one group; give how its periods began."""
    config = folder / "qioi.yaml"
    (folder / "log").touch()
    component = {"name": "c", "role": "client", "cgroup": group, "log": str(folder / "log"), "channels": ["ch"]}
    document = {"period": period, "components": [component], "state_dir": str(folder), "metrics": {"port": 0}}
    config.write_text(yaml.safe_dump(document), encoding="utf-8")
    socket = folder / "qioi.sock"
    with (folder / "said").open("wb") as said:
        daemon = start([sys.executable, "-m", "qioi.cli", "run", "-c", str(config)], hierarchy, own, stderr=said)
    try:
        wait_for(socket)
        time.sleep(seconds)
        page = metrics(socket)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait()
    words = re.search(r"own protection: (.*)", (folder / "said").read_text(encoding="utf-8"))
    return {
        "periods": float(page["qioi_periods_total"]),
        "late": float(page["qioi_periods_late_total"]),
        "p99": quantile(page, 0.99),
        "said": words[1] if words else "",
    }


def wait_for(socket: Path) -> None:
    """Wait for the daemon, which starts slowly here."""
    for _ in range(600):
        try:
            get_json(socket, "/status")
            return
        except UnreachableError:
            time.sleep(0.1)
    raise SystemExit("the daemon does not start")


def metrics(socket: Path) -> dict[str, str]:
    """Read the metrics page: sample -> value."""
    connection = UnixConnection(socket)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))  # type: ignore[arg-type]


def quantile(page: dict[str, str], part: float) -> float:
    """Give the upper bound of the bucket in which the quantile is."""
    name = "qioi_loop_lateness_seconds_bucket"
    buckets = [(float(key.split('"')[1]), float(value)) for key, value in page.items() if key.startswith(name)]
    total = max(count for _, count in buckets)
    return min(bound for bound, count in buckets if count >= part * total)


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        raise SystemExit(str(error)) from error
