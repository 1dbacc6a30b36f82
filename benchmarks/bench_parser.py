"""Lines per second that the commit parser reads, on the recorded peer logs and in every wrapping.

Usage: python benchmarks/bench_parser.py [--seconds 1.0] [--rounds 3]

Prints one row per file and wrapping, the median of the rounds, and exits with 1 if a plain log is read slower than the
goal of 200,000. In the recorded JSON log one line in four is a commit, in production one in fifty.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

from qioi.monitor import LineReader, LogFormat

GOAL = 200_000
LOGS = Path(__file__).resolve().parent.parent / "tests" / "data" / "fabric-logs"


def wrap(lines: bytes, log_format: LogFormat) -> bytes:
    """Put a container engine's wrapping around every line."""
    stamp = "2026-11-21T03:27:56.052000000Z"
    if log_format is LogFormat.PLAIN:
        return lines
    wrapped = []
    for line in lines.decode().splitlines(keepends=True):
        if log_format is LogFormat.DOCKER:
            wrapped.append(json.dumps({"log": line, "stream": "stderr", "time": stamp}, separators=(",", ":")) + "\n")
        else:
            wrapped.append(f"{stamp} stderr F {line}")
    return "".join(wrapped).encode()


def rate(block: bytes, log_format: LogFormat, seconds: float) -> float:
    """Read the block again and again for a while: lines per second."""
    lines, started = 0, time.perf_counter()
    while (passed := time.perf_counter() - started) < seconds:
        reader = LineReader("bench", log_format)
        reader.feed(block)
        lines += reader.counters.lines
    return lines / passed


def main() -> int:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=1.0, help="how long each round measures")
    options.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts")
    chosen = options.parse_args()
    slow = 0
    print(f"{'log':36}{'wrapping':10}{'lines/s':>12}")
    for log in sorted(LOGS.glob("*peer*.log")):
        for log_format in LogFormat:
            block = wrap(log.read_bytes(), log_format)
            found = statistics.median(rate(block, log_format, chosen.seconds) for _ in range(chosen.rounds))
            slow += log_format is LogFormat.PLAIN and found < GOAL
            print(f"{log.name:36}{log_format.value:10}{found:12,.0f}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
