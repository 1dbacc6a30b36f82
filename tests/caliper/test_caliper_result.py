from __future__ import annotations

import json
from collections import Counter
from io import StringIO
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from qioi.commands.lab_caliper import as_table
from qioi.lab.caliper import Run
from qioi.lab.caliper_result import Latencies, Round, latencies, messages, parse, progress


def test_a_run_against_fabric(data: Path) -> None:
    """Recorded: Caliper 0.6.0 against Fabric 2.5.16; the figures are those of its own tables."""
    log = (data / "smallbank-on-fabric.log").read_text()
    create, mix, mix_load = parse(log, ["create", "mix", "mix-load"])
    assert (create.succeeded, create.failed, create.send_rate, create.throughput) == (302, 0, 60.4, 54.8)
    assert (create.max_latency_s, create.min_latency_s, create.avg_latency_s) == (0.51, 0.02, 0.10)
    assert create.errors == []
    assert (mix.succeeded, mix.failed) == (299, 3)
    assert mix.errors == [{"message": "committed as MVCC_READ_CONFLICT (11)", "count": 3}]
    assert (mix_load.succeeded, mix_load.failed) == (562, 5)
    assert mix_load.errors == [{"message": "committed as MVCC_READ_CONFLICT (11)", "count": 5}]
    assert [entry.problem for entry in (create, mix, mix_load)] == [None, None, None]


def test_a_run_against_a_peer_that_is_down(data: Path) -> None:
    create, mix = parse((data / "smallbank-peer-down.log").read_text(), ["create", "mix"])
    refused = (
        "create_account: EndorseError: 14 UNAVAILABLE: No connection established. "
        "Last error: connect ECONNREFUSED 127.0.0.1:7059"
    )
    assert (create.succeeded, create.failed, create.avg_latency_s) == (0, 20, None)
    assert create.errors == [{"message": refused, "count": 20}]
    assert create.problem == f"no transaction succeeded: {refused}"
    # Its preparation failed: Caliper leaves the round out of its table and still ends with status 0.
    assert mix.succeeded is None
    assert mix.problem is not None
    assert mix.problem.startswith("100 of 100 records could not be made in smallbank")
    assert mix.problem.endswith(refused)


def test_a_log_that_ends_early_is_no_success(data: Path) -> None:
    log = (data / "smallbank-on-fabric.log").read_text()
    cut = log[: log.index("Finished round 2")]
    create, mix, mix_load = parse(cut, ["create", "mix", "mix-load"])
    assert create.problem is None
    assert mix.problem is None  # its table stands already
    assert mix_load.problem == "it did not run to its end"


def test_a_message_may_span_lines() -> None:
    lines = [
        "2026.11.21-05:48:40.649 error [caliper] [a/B] \tfirst\n",
        "second\n",
        "(node:1) [DEP0123] noise of Node's own\n",
        "2026.11.21-05:48:40.650 info  [caliper] [c] \tthird\n",
    ]
    assert list(messages(lines)) == [("a/B", "first\nsecond\n(node:1) [DEP0123] noise of Node's own"), ("c", "third")]


def test_progress_says_what_a_waiting_user_wants_to_see(data: Path) -> None:
    lines = (data / "smallbank-on-fabric.log").read_text().splitlines(keepends=True)
    said = [text for text in map(progress, lines) if text]
    assert said[:2] == ["create: preparing", "create: 60 submitted, 55 succeeded, 0 failed"]
    assert [text for text in said if text.endswith("preparing")] == [
        "create: preparing",
        "mix: preparing",
        "mix-load: preparing",
    ]


def test_latencies_of_all_workers_together(data: Path, tmp_path: Path) -> None:
    log = (data / "smallbank-on-fabric.log").read_text()
    records = [
        {"round": 0, "label": "create", "first": 1000, "last": 2500, "latencies": {"2": 97, "40": 2}},
        {"round": 0, "label": "create", "first": 1100, "last": 3000, "latencies": {"400": 1}},
    ]
    files = []
    for index, record in enumerate(records):
        files.append(tmp_path / f"latency-{index}.jsonl")
        idle = {"round": 1, "label": "mix", "first": None, "last": None, "latencies": {}}
        files[-1].write_text(json.dumps(record) + "\n" + json.dumps(idle) + "\n")
    create, mix = parse(log, ["create", "mix"], files)
    assert create.latency_ms is not None
    assert (create.latency_ms.p50, create.latency_ms.p95, create.latency_ms.p99, create.latency_ms.max) == (
        2,
        2,
        40,
        400,
    )
    assert create.latency_ms.mean == 6.74
    assert create.goodput == 50.0  # 100 in the 2 s between 1000 and 3000
    assert (mix.latency_ms, mix.goodput) == (None, None)


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=300))
def test_percentiles_are_those_of_the_sorted_list(values: list[int]) -> None:
    found = latencies(Counter(values))
    ordered = sorted(values)
    for share, value in ((50, found.p50), (95, found.p95), (99, found.p99)):
        assert value == ordered[-(-share * len(ordered) // 100) - 1]
    assert found.max == ordered[-1]


def test_the_table_fits_a_terminal_of_80_columns() -> None:
    rounds = Round(
        "mix-load", 12_675, 127, 1100.3, 1096.3, goodput=1081.1, latency_ms=Latencies(1236.71, 1182, 2072, 2224, 2394)
    )
    screen = StringIO()
    Console(file=screen, width=80).print(as_table(Run(Path("results"), (rounds, Round("none")))))
    heading, line, nothing = screen.getvalue().splitlines()
    words = ["round", "succeeded", "failed", "sent/s", "goodput/s", "mean", "ms", "p50", "p95", "p99", "max"]
    assert heading.split() == words
    assert line.split() == ["mix-load", "12675", "127", "1100.3", "1081.1", "1236.71", "1182", "2072", "2224", "2394"]
    assert nothing.split() == ["none", *"-" * 9]
