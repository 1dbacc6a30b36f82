#!/usr/bin/env python3
"""Two ledgers of one host and nobody else, each sent more than it can do, of which one is below its T.

    python benchmarks/bench_tenants.py [--more 1.25] [--less 0.5] [--output DIR]

Two labs of one channel each, alpha and beta, whose groups are siblings. First both without QiOi; then with it, where
alpha is owed more than it had, by a part of that, and beta less. With it the window begins a minute after the load,
since alpha is raised by steps of a tenth and less. The ledgers stand in DIR-alpha and DIR-beta, where `--dir` is DIR.
The daemon's log stays in the results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
import yaml
from lab_bench import Place, placed

from qioi.lab.arms import BLOCK_PROBE
from qioi.lab.daemon import Daemon, daemon_config
from qioi.lab.demo import ROOM, demo_directory
from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan, LoadRun
from qioi.lab.network import Network
from qioi.processes.errors import LabError

ALPHA, BETA = CHANNELS = ("alpha", "beta")
#: Seconds of load before the window: until both run, and until alpha is raised.
WARMUP, RAISED_AFTER = 10.0, 60.0
#: Clients of each.
CLIENTS = BLOCK_PROBE.clients
#: Seconds that the two windows may be apart: for so long each load goes on behind its own.
APART = 5.0
#: Ports that one lab is apart from the next.
PORTS = 1000


@dataclass(frozen=True)
class Both:
    """One condition: the tenants' throughput and thresholds in tps, and alpha's share at the level where they meet.

    ``raised`` is in beta's shares, the last time that both were sent to.
    """

    condition: str
    tps: Mapping[str, float]
    owed: Mapping[str, float]
    raised: float


class Bench:
    """Two labs, by channel."""

    def __init__(self, labs: Mapping[str, Lab], network: Network, directory: Path) -> None:
        self._labs, self._network, self._directory = labs, network, directory

    def without(self, name: str, seconds: float) -> Both:
        """Measure both as they are."""
        return self._measure(name, LoadPlan(seconds, WARMUP, clients=CLIENTS, cooldown=APART), {}, lambda: None)

    def owed(self, owed: Mapping[str, float], seconds: float) -> Both:
        """Measure both with a daemon that has these thresholds."""
        with Daemon(self._labs[ALPHA], self.config(owed), self._directory) as daemon:
            daemon.settle()
            plan = LoadPlan(seconds, RAISED_AFTER, clients=CLIENTS, cooldown=APART)
            return self._measure("adaptive", plan, owed, daemon.check)

    def config(self, owed: Mapping[str, float]) -> str:
        """Format a configuration that lists the components of both labs: each lab has a peer0 of org1."""
        document = yaml.safe_load(daemon_config(self._labs[ALPHA], self._network, law="adaptive", threshold=1.0))
        del document["lab"]
        document["components"] = [
            {**one, "name": f"{channel}-{one['name']}"}
            for channel, lab in self._labs.items()
            for one in lab.state()["components"]
        ]
        document["channels"] = {channel: {"threshold": round(tps, 1)} for channel, tps in owed.items()}
        return yaml.safe_dump(document, sort_keys=False)

    def _measure(self, name: str, plan: LoadPlan, owed: Mapping[str, float], check: Callable[[], None]) -> Both:
        """Measure both at once. LabError: something has ended, or the windows are apart."""
        alpha, beta = (self._labs[channel] for channel in CHANNELS)
        raised = [1.0]
        with ExitStack() as stack:
            runs = {
                channel: stack.enter_context(LoadRun(lab, plan, self._folder(name, channel)))
                for channel, lab in self._labs.items()
            }

            def look() -> None:
                for each in (alpha.check, beta.check, check):
                    each()
                if all(run.running() for run in runs.values()):
                    raised.append(alpha.tree.root.shares() / beta.tree.root.shares())

            results = {channel: run.wait(look) for channel, run in runs.items()}
        refuse_apart({channel: one.start for channel, one in results.items()})
        return Both(name, {channel: one.figures.throughput for channel, one in results.items()}, owed, raised[-1])

    def _folder(self, name: str, channel: str) -> Path:
        folder = self._directory / name / channel
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def refuse_apart(starts: Mapping[str, float]) -> None:
    """Raise LabError where the channels' windows began, in s of the same clock, farther apart than loads go on."""
    apart = max(starts.values()) - min(starts.values())
    if apart > APART:
        raise LabError(f"the windows of {' and '.join(starts)} began {apart:.1f} s apart: accepted is {APART:g} s")


POSITIVE = click.FloatRange(0, min_open=True)
HEAD = "| | alpha, tps | to T | beta, tps | to T | alpha's group, to beta's |"


def line(one: Both) -> str:
    """Format one condition as a line of the table."""
    cells = [one.condition]
    for channel in CHANNELS:
        cells += [f"{one.tps[channel]:.0f}", f"{one.tps[channel] / one.owed[channel]:.2f}" if one.owed else ""]
    return f"| {' | '.join([*cells, f'{one.raised:.1f}'])} |"


@click.command()
@placed("tenants")
@click.option("--more", type=POSITIVE, default=1.25, show_default=True, help="Alpha's T, of what it had without QiOi.")
@click.option("--less", type=POSITIVE, default=0.5, show_default=True, help="Beta's.")
@click.option("--duration", type=POSITIVE, default=30.0, show_default=True, help="Seconds measured per condition.")
def main(place: Place, more: float, less: float, duration: float) -> None:
    """Measure, write tenants.json and tenants.md, and print the table."""
    ledgers = (place.ledgers or demo_directory(room=len(CHANNELS) * ROOM)).resolve()
    with ExitStack() as stack:
        labs = {}
        for number, channel in enumerate(CHANNELS):
            folder = ledgers.with_name(f"{ledgers.name}-{channel}")
            its = replace(place, base_port=place.base_port + number * PORTS, ledgers=folder)
            labs[channel], network = stack.enter_context(its.network(channels=(channel,), peers_per_org=1))
        bench = Bench(labs, network, place.results)
        done = [bench.without("nothing", duration)]
        parts = {ALPHA: more, BETA: less}
        done.append(bench.owed({channel: parts[channel] * tps for channel, tps in done[0].tps.items()}, duration))
        done.append(bench.without("again", duration))
    text = "\n".join([HEAD, "|" + " --- |" * 6, *map(line, done)]) + "\n"
    place.write({"rows": [asdict(one) for one in done]}, text)


if __name__ == "__main__":
    main()
