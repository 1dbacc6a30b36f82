#!/usr/bin/env python3
"""Every figure of docs/measured.md, one after the other: `make bench`. Takes about two hours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
#: Script and arguments; each writes its own results or prints one table.
RUNS = (
    ("bench_protection.py", "--mode", "block"),
    ("bench_protection.py", "--mode", "stream"),
    ("bench_laws.py",),
    ("bench_reaction.py",),
    ("bench_ledger.py",),
    ("bench_goodput.py", "--repeats", "3"),
    ("bench_daemon.py",),
    ("bench_loop.py",),
    ("bench_parser.py",),
    ("bench_schedstat.py",),
)


def main() -> int:
    failed = []
    for script, *arguments in RUNS:
        print(f"== {script}", flush=True)
        if subprocess.run([sys.executable, str(HERE / script), *arguments], check=False).returncode != 0:
            failed.append(script)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
