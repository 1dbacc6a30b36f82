#!/usr/bin/env python3
"""Where shares end: what else a daemon without privileges in the kernel could do for latencies, side by side.

Blocks of 10 transactions or 2 s, an open loop, and 16 sysbench, on real Hyperledger Fabric (--fabric) or on the bundled
ledger as Fabric's own processes run. Every way of keeping a ledger's latency runs once in each repeat, every other
repeat in the opposite order, and ratios are taken within one.

    python benchmarks/bench_ends.py [--fabric DIR] [--way slices ...] [--repeats 2] [--output DIR]

Utilisation clamping and core scheduling are not among them: the one chooses a processor's frequency, and the other who
shares a core's threads; neither says who waits for a busy CPU.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import click
import yaml
from bench_laws import Laws
from fixed_load import kept_load
from lab_bench import Place, by_hand, in_turn, placed
from laws_asked import Sent, system_of
from laws_figures import ALONE, Row, row_of, spread

from qioi.lab.arms import Arm, Runner
from qioi.lab.daemon import daemon_config
from qioi.lab.lab import Lab
from qioi.lab.result_table import milliseconds
from qioi.model import DEFAULT_SHARES, MAX_SHARES

SYSBENCH = 16


class Way(NamedTuple):
    """A way to keep latencies: ``shares`` by hand, or a daemon with these keys; ``confined``: sysbench has one CPU."""

    title: str
    shares: int | None = None
    daemon: Mapping[str, Any] | None = None
    confined: bool = False


WAYS = {
    "nothing": Way("nothing"),
    "fixed-most": Way("all components at 16,384 by hand", shares=16 * DEFAULT_SHARES),
    "highest": Way(f"all components at {MAX_SHARES:,} by hand", shares=MAX_SHARES),
    "adaptive": Way("adaptive", daemon={}),
    "slices": Way("adaptive, slices required", daemon={"slices": "required"}),
    "best-effort": Way("adaptive, sysbench best-effort", daemon={"best_effort": ["*/sysbench*"]}),
    "confined": Way("adaptive, sysbench on one CPU by hand", daemon={}, confined=True),
}


class Ends(Laws):
    """One network, and what was measured on it."""

    def ways(self, number: int, names: tuple[str, ...], maximum: float) -> None:
        """Run a repeat, unless it is finished."""
        if self.finished(number, (self._row_of(number, name) for name in (ALONE, *names)), maximum):
            return
        alone = self._run(number, ALONE, Way(ALONE), None, maximum)
        for name in in_turn(names, number):
            self._run(number, name, WAYS[name], alone, maximum)

    def _row_of(self, repeat: int, name: str) -> Path:
        """Name the file of a way's figures."""
        return self._directory / f"repeat{repeat}" / name / "row.json"

    def _run(self, repeat: int, name: str, way: Way, alone: Row | None, maximum: float) -> Row:
        file = self._row_of(repeat, name)
        plan, count = self._plan("fixed", repeat, maximum), SYSBENCH if alone else 0
        config = None
        if alone is not None and way.daemon is not None:
            owed = round(min(alone.tps, plan.rate or alone.tps), 1)
            usual = yaml.safe_load(daemon_config(self._lab, self._network, law="adaptive", threshold=owed))
            config = yaml.safe_dump({**usual, **way.daemon}, sort_keys=False)
        with by_hand(self._lab, self._network, way.shares), confined(self._lab, way.confined):
            arm = Arm(name, way.title, plan, count, config, may_stall=alone is not None)
            figures = Runner(self._lab, self._network, file.parent.parent).run(arm)
        row = row_of("fixed", count, repeat, name, figures, file.parent, self._undisturbed(count, repeat))
        file.write_text(json.dumps(asdict(row), indent=2) + "\n", encoding="utf-8")
        click.echo(f"{way.title}: {row.tps:.0f} tps, p95 {spread([row.p95], milliseconds)}, {row.events:.0f} events/s")
        return row


@contextmanager
def confined(lab: Lab, really: bool) -> Iterator[None]:
    """Keep sysbench on the last CPU, as a cpuset of its owner's would."""
    stop = threading.Event()
    last = {max(os.sched_getaffinity(0))}

    def confine() -> None:
        while not stop.wait(0.2):
            for number in range(SYSBENCH):
                for pid in lab.tree.group(f"sysbench{number + 1}").pids():
                    with suppress(FileNotFoundError, ProcessLookupError):  # it ends with its window
                        for thread in Path(f"/proc/{pid}/task").iterdir():
                            os.sched_setaffinity(int(thread.name), last)

    thread = threading.Thread(target=confine)
    if really:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        if really:
            thread.join()


@click.command()
@placed("ends")
@click.option(
    "--fabric",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Run real Hyperledger Fabric from this folder of its binaries.",
)
@click.option("--way", "names", type=click.Choice(list(WAYS)), multiple=True, default=tuple(WAYS), show_default=True)
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True)
@click.option("--duration", type=float, default=18.0, show_default=True, help="Seconds measured of each.")
@click.option(
    "--busy", type=click.IntRange(1, 99), default=60, show_default=True,
    help="What the load takes of the CPUs when it is alone, in per cent.",
)  # fmt: skip
def main(place: Place, fabric: Path | None, names: tuple[str, ...], repeats: int, duration: float, busy: int) -> None:
    """Measure what is missing, and write ends.json and ends.md."""
    numbers = range(1, repeats + 1)
    sent = Sent(duration, None, None, 0, busy / 100)
    options: dict[str, Any] = {
        "system": "fabric" if fabric else "ledger",
        "binaries": fabric,
        "like_fabric": not fabric,
        "extra": ("--max-message-count", "10"),
    }
    with place.network(**options) as (lab, network):
        ends = Ends(lab, network, place.results, sent, system_of(None, options))
        most = ends.maximum(None)
        for number in numbers:
            ends.ways(number, names, most)
    rows = [
        Row(**json.loads(file.read_text(encoding="utf-8"))) for file in sorted(place.results.glob("repeat*/*/row.json"))
    ]
    loads = {number: kept_load(place.results, number) for number in numbers}
    titles = {ALONE: ALONE, **{name: WAYS[name].title for name in names}}
    document = {
        "rows": [asdict(row) for row in rows],
        "offered": {number: load.tps for number, load in loads.items() if load is not None},
        "titles": titles,
    }
    lines = ["| | p95 | sysbench events/s |", "| --- | --- | --- |"]
    for name, title in titles.items():
        its = [row for row in rows if row.condition == name]
        p95 = spread([row.p95 for row in its], milliseconds)
        lines.append(f"| {title} | {p95} | {spread([row.events for row in its], '{:.0f}'.format)} |")
    place.write(document, "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
