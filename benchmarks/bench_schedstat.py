"""CPU that reading the scheduling delay takes: 12 components of 15 threads, as a ledger network on one host has them.

Usage: python benchmarks/bench_schedstat.py [--components 12] [--threads 15] [--readings 50]     (root, cgroup v1 or v2)

Prints CPU time per reading, and what that is of one core at a period of 1 s, with the files kept open and without.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from qioi.lab.signals import ending_signals_interrupt
from qioi.monitor import SchedstatReader

SLEEPER = (
    "import threading,time\nfor _ in range({}): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
)
MOUNTS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))


def measure(groups: dict[str, Path], max_open: int, readings: int) -> float:
    """CPU seconds per reading of all groups."""
    reader = SchedstatReader(max_open)
    reader.watch(groups)
    reader.read(0.0)
    started = time.process_time()
    for number in range(readings):
        reader.read(float(number + 1))
    spent = time.process_time() - started
    reader.close()
    return spent / readings


@ending_signals_interrupt()
def main() -> int:
    """Start idle processes, measure, clean up."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--components", type=int, default=12)
    options.add_argument("--threads", type=int, default=15)
    options.add_argument("--readings", type=int, default=50)
    chosen = options.parse_args()
    mount = next(path for path in MOUNTS if (path / "cgroup.procs").exists())
    base = mount / f"qioi-bench-{os.getpid()}"
    groups = {f"c{number}": base / f"c{number}" for number in range(chosen.components)}
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for group in groups.values():
            group.mkdir(parents=True)
            process = subprocess.Popen([sys.executable, "-c", SLEEPER.format(chosen.threads - 1) + "time.sleep(600)"])
            processes.append(process)
            (group / "cgroup.procs").write_text(str(process.pid), encoding="utf-8")
        time.sleep(2)
        for label, max_open in (("files kept open", 4096), ("opened each time", 0)):
            spent = measure(groups, max_open, chosen.readings)
            print(f"{label:20}{spent * 1000:8.2f} ms per reading, {spent:.3%} of a core at 1 s")
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for group in [*groups.values(), base]:
            if group.exists():
                group.rmdir()
    return 0


if __name__ == "__main__":
    sys.exit(main())
