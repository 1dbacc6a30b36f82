"""What bench_enough.py takes of an arm's samples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bench_enough import scheduling

HEAD = "unix,name,role,shares,cpu_s,run_s,wait_s,slices,threads"


def test_what_components_waited_before_the_window_does_not_count(tmp_path: Path) -> None:
    """A sample's waits are those since the sample before, so the window's first one has some of the warm-up's."""
    latency = dict.fromkeys(("mean", "p50", "p95", "p99", "max"), 1.0)
    load = {"started": "1970-01-01T00:01:40+00:00", "seconds": 2.0, "latency_ms": latency, "timeseries": []}
    counts = dict.fromkeys(("intended_rate", "throughput_tps", "committed", "failed", "unsent"), 1)
    (tmp_path / "load.json").write_text(json.dumps({**load, **counts}))
    rows = [
        "99.8,peer0,peer,1024,1,0,9,9,2",
        "100.3,peer0,peer,1024,1,0.5,8,5,2",
        "100.3,client,,,1,,,,",
        "100.8,peer0,peer,2048,1,0.3,0.1,50,2",
        "101.3,peer0,peer,4096,1,0.3,0.1,50,2",
        "102.3,peer0,peer,1024,1,0,9,9,2",
    ]
    (tmp_path / "samples.csv").write_text("\n".join([HEAD, *rows]) + "\n")
    assert scheduling(tmp_path) == ((4096,), pytest.approx(2.0), pytest.approx(0.25))
