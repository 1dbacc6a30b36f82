#!/usr/bin/env python3
"""The laws side by side: nothing, shares by hand, proportional, adaptive, adaptive with slices, on one lab.

A condition is who acts, under one load (fixed: an open loop that takes --busy of the CPUs when it is alone, which each
repeat looks for anew; saturating: closed-loop clients) beside one number of sysbench. All conditions of a load run one
after the other on the same lab, and every ratio is taken within the repeat, to the "alone" of that load. The whole
table takes 27 minutes. A window beside sysbench in which nothing was committed is a row without latencies. A repeat
whose figures are all there is not run again: name the same --output to go on, or to add repeats. One that was
interrupted is begun anew, since its conditions are compared on one network.

    python benchmarks/bench_laws.py [--load fixed --load saturating] [--sysbench 4 --sysbench 8 --sysbench 16]
        [--condition adaptive ...] [--repeats 2] [--output DIR]

--up names the folder of a network that is up already: one of `qioi lab up`, or another one, real Hyperledger Fabric
among them, that is described by the same two files there (docs/laws.md).
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from fixed_load import (
    LOOK,
    LOOK_WARMUP,
    OWN_SETTLE,
    OWN_SPEED,
    Lengths,
    estimate,
    file_of,
    keep_load,
    kept_load,
    look_for_load,
    spell_load,
)
from lab_bench import ArmInTime, Place, by_hand, in_turn, placed, stay
from laws_asked import Asked, Sent, asked, hold_to, system_of
from laws_figures import ALONE, Condition, Row, accounts, load_rows, row_of, spread, table

from qioi.interference import Sysbench, rates
from qioi.lab.arms import Arm, Runner
from qioi.lab.daemon import daemon_config
from qioi.lab.demo import LOAD_PART
from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan
from qioi.lab.machine import machine
from qioi.lab.network import Network
from qioi.lab.result_table import milliseconds, percent

#: Seconds after each measured window in which the load goes on, so that its last blocks fill as the others did.
COOLDOWN = 1.0
#: Seconds that a condition takes beyond these: processes that start, and what is under way at the end.
EDGE = 1.5
#: Where a folder keeps what the lab commits at most.
MAXIMUM = "maximum.json"


class Laws:
    """One lab, the folder of the figures, and what is sent to which system."""

    def __init__(self, lab: Lab, network: Network, directory: Path, sent: Sent, system: Mapping[str, Any]) -> None:
        self._lab = lab
        self._system = system
        self._network = network
        self._directory = directory
        self._sent = sent

    def maximum(self, given: float | None) -> float:
        """What the lab commits at most: known from before, given, or looked for now.

        UsageError: another one is given than is known. Some conditions take it as T, and those of both would be pooled.
        """
        file = self._directory / MAXIMUM
        if file.exists():
            known = float(json.loads(file.read_text(encoding="utf-8"))["tps"])
            if given is not None and given != known:
                raise click.UsageError(f"{self._directory} has a maximum of {known:g} tps: name another --output")
            return known
        if given is not None:
            return given
        return Runner(self._lab, self._network, self._directory).maximum()

    def finished(self, repeat: int, files: Iterable[Path], maximum: float) -> bool:
        """Whether these figures of a repeat are all there; otherwise what there is of it is removed.

        It is of a network that is gone, and with windows of another one its ratios would not be of one repeat. A folder
        takes the same figures, of the same load and system, in every repeat: UsageError. It keeps the ``maximum``.
        """
        files = list(files)
        known = kept_load(self._directory, repeat)
        if known is not None and known.busy != self._sent.busy:
            raise click.UsageError(f"{self._directory} has a load of {percent(known.busy)}: name another --output")
        figures = [str(file.relative_to(self._directory)).replace(f"repeat{repeat}", "repeat") for file in files]
        hold_to(self._directory, figures, self._sent, self._system)
        (self._directory / MAXIMUM).write_text(json.dumps({"tps": maximum}) + "\n", encoding="utf-8")
        if all(file.exists() for file in files):
            return True
        left = list(self._directory.glob(f"*repeat{repeat}"))
        if left:
            click.echo(f"repeat {repeat} was not finished, and is begun anew")
        for folder in left:
            shutil.rmtree(folder)
        file_of(self._directory, repeat).unlink(missing_ok=True)
        return False

    def rate(self, repeat: int, maximum: float) -> float:
        """A repeat's fixed load in tps: known, or looked for now, from the last repeat's load on."""
        known = kept_load(self._directory, repeat)
        if known is not None:
            return known.tps

        def took(rate: float) -> float:
            plan = LoadPlan(LOOK, LOOK_WARMUP, rate=rate, seed=repeat, cooldown=COOLDOWN)
            arm = Arm(f"look-{rate:.0f}", "a look for the load", plan)
            folder = self._directory / f"looks-repeat{repeat}"
            figures = Runner(self._lab, self._network, folder).run(arm)
            return figures.ledger_cores + figures.client_cores

        last = kept_load(self._directory, repeat - 1)
        cores = machine().cores
        found = look_for_load(took, last.tps if last else LOAD_PART * maximum, cores, self._sent.busy)
        keep_load(found, self._directory, repeat)
        click.echo(spell_load(found, repeat, cores))
        return found.tps

    def repeat(
        self, repeat: int, loads: Sequence[str], counts: Sequence[int], wanted: Sequence[Condition], maximum: float
    ) -> None:
        """Run a repeat, unless it is finished."""
        alone = [(load, 0, ALONE) for load in loads]
        beside = [(load, count, one.name) for load in loads for count in counts for one in wanted]
        if self.finished(repeat, (self._file(repeat, *one) for one in (*alone, *beside)), maximum):
            return
        for load in loads:
            self._load(load, counts, repeat, wanted, maximum)

    def _file(self, repeat: int, load: str, count: int, name: str) -> Path:
        """Name the file of a condition's figures."""
        return self._directory / f"{load}-{count}-repeat{repeat}" / name / "row.json"

    def _load(self, load: str, counts: Sequence[int], repeat: int, wanted: Sequence[Condition], maximum: float) -> None:
        """Run one load; every other repeat in the opposite order."""
        alone = self._row(load, 0, repeat, None, None, maximum)
        pairs = [(count, condition) for count in counts for condition in wanted]
        for count, condition in in_turn(pairs, repeat):
            self._row(load, count, repeat, condition, alone, maximum)

    def _row(
        self, load: str, count: int, repeat: int, condition: Condition | None, alone: Row | None, maximum: float
    ) -> Row:
        name = condition.name if condition else ALONE
        file = self._file(repeat, load, count, name)
        plan = self._plan(load, repeat, maximum)
        config = None
        if condition is not None and condition.law is not None:
            assert alone is not None
            owed = round(maximum if condition.most else min(alone.tps, plan.rate or alone.tps), 1)
            config = daemon_config(self._lab, self._network, law=condition.law, threshold=owed, slices=condition.slices)
        arm = ArmInTime(name, name, plan, count if condition else 0, config, condition is not None, self._sent.come)
        runner = Runner(self._lab, self._network, file.parent.parent)
        with by_hand(self._lab, self._network, condition.shares if condition else None):
            figures = runner.run(arm)
        row = row_of(load, count, repeat, name, figures, file.parent, self._undisturbed(count, repeat))
        file.write_text(json.dumps(asdict(row), indent=2) + "\n", encoding="utf-8")
        click.echo(
            f"{load}, {count} sysbench, {name}: {row.tps:.0f} tps, p95 {spread([row.p95], milliseconds)}, sysbench "
            f"{row.events:.0f}/s, shares move {percent(row.movement)} in {row.looked_at:.0f} s"
        )
        return row

    def _plan(self, load: str, repeat: int, maximum: float) -> LoadPlan:
        duration, warmup = self._sent.duration, self._sent.before(load)
        if load == "fixed":
            return LoadPlan(duration, warmup, rate=self.rate(repeat, maximum), seed=repeat, cooldown=COOLDOWN)
        return LoadPlan(duration, warmup, clients=self._sent.clients, seed=repeat, cooldown=COOLDOWN)

    def _undisturbed(self, count: int, repeat: int) -> float | None:
        """Events per core-second of so many sysbench that have the machine to themselves; once a repeat."""
        if not count:
            return None
        file = self._directory / f"undisturbed-{count}-repeat{repeat}" / "speed.json"
        if file.exists():
            return float(json.loads(file.read_text(encoding="utf-8"))["events_per_core"])
        file.parent.mkdir(parents=True, exist_ok=True)
        with Sysbench(self._lab.tree, count, file.parent) as sysbench:
            stay(OWN_SETTLE, sysbench.check)
            began, used = time.time(), sysbench.cpu_seconds()
            stay(OWN_SPEED, sysbench.check)
            ended, used = time.time(), sysbench.cpu_seconds() - used
            events = sum(rates(sysbench.reports(), began, ended).values()) * (ended - began)
        file.write_text(json.dumps({"events_per_core": events / used}) + "\n", encoding="utf-8")
        return events / used


def measure(place: Place, asked: Asked, up: Path | None = None, **options: Any) -> None:
    """Measure what is missing on a network, write laws.json and laws.md, and print the table.

    It is the network that is ``up`` in a folder, or one with these ``options`` of ``LabOptions``.
    """
    sent, conditions = asked.sent, asked.conditions
    lengths = Lengths(
        {load: sent.before(load) + sent.duration + COOLDOWN + EDGE for load in asked.loads},
        LOOK_WARMUP + LOOK + COOLDOWN + EDGE,
    )
    counts, repeats = len(asked.counts), asked.repeats
    seconds = estimate(lengths, len(conditions), counts, repeats, probe=asked.maximum is None)
    number = repeats * len(asked.loads) * (counts * len(conditions) + 1)
    click.echo(f"{number} measurements, about {seconds / 60:.0f} minutes in all, with what they need beforehand")
    try:
        with place.network(up, **options) as (lab, network):
            laws = Laws(lab, network, place.results, sent, system_of(up, options))
            most = laws.maximum(asked.maximum)
            click.echo(f"maximum {most:.0f} tps")
            for repeat in range(asked.first, asked.first + repeats):
                laws.repeat(repeat, asked.loads, asked.counts, conditions, most)
    finally:
        cores, rows = machine().cores, load_rows(place.results)
        text = f"{table(rows, cores)}\n{accounts(rows, cores)}"
        found = {repeat: kept_load(place.results, repeat) for repeat in sorted({row.repeat for row in rows})}
        looked = {repeat: one for repeat, one in found.items() if one is not None}
        said = "".join(f"- {spell_load(one, repeat, cores)}\n" for repeat, one in looked.items())
        document = {
            "rows": [asdict(row) for row in rows],
            "fixed_loads": {repeat: asdict(one) for repeat, one in looked.items()},
        }
        place.write(document, f"{text}\nThe fixed load:\n\n{said}" if said else text)


@click.command()
@placed("laws")
@asked
@click.option("--up", type=click.Path(file_okay=False, exists=True, path_type=Path), help="A network that is up.")
@click.option("--like-fabric", is_flag=True, help="Run the ledger as Fabric's own processes do (docs/ledger.md).")
@click.option(
    "--fabric",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Run real Hyperledger Fabric from this folder of its binaries.",
)
def main(place: Place, asked: Asked, up: Path | None, like_fabric: bool, fabric: Path | None) -> None:
    """Measure what is missing, write laws.json and laws.md, and print the table."""
    if up and (like_fabric or fabric):
        raise click.UsageError("--up: accepted without --fabric and --like-fabric: the network runs already")
    if fabric and like_fabric:
        raise click.UsageError("--fabric: accepted without --like-fabric, which is a way to run this ledger")
    measure(place, asked, up, system="fabric" if fabric else "ledger", binaries=fabric, like_fabric=like_fabric)


if __name__ == "__main__":
    main()
