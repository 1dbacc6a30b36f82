#!/usr/bin/env python3
"""How fast QiOi acts: neighbours come to a busy ledger, stay, and go; and come to an idle ledger.

At a period of 1 s and of 0.1 s, five times each, every time at another instant of the period: from the first
neighbour's start to the first share written (goal: 1 period + 100 ms; at 0.1 s, 300 ms), until throughput is back at
95 % of what is offered (goal: 3 s), and from the neighbours' end until every share is at its default (goal: 30 s).
Beside an idle ledger no share may move. What runs outside of the lab is interference too: how much that was from the
neighbours' end on is measured with it, since shares that are raised for it are rightly not back.

    python benchmarks/bench_reaction.py [--sysbench 16] [--rate 600] [--period 1] [--repeats 5] [--output DIR]

--up names the folder of a network that is up already, as for bench_laws.py.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import click
from lab_bench import Place, placed, stay

from qioi.interference import Sysbench
from qioi.lab.arms import Runner
from qioi.lab.daemon import Daemon, daemon_config
from qioi.lab.demo import LOAD_PART
from qioi.lab.figures import Series
from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan, LoadRun
from qioi.lab.machine import snapshot
from qioi.lab.network import Network
from qioi.model import DEFAULT_SHARES
from qioi.processes.errors import LabError
from qioi.show.http import get_json

PERIODS = (1.0, 0.1)
#: Seconds of work alone with a daemon that has just been started, beside the neighbours, and after them.
ALONE, BESIDE, AFTER = 8.0, 6.0, 36.0
#: Seconds of a repeat with all that is started and ended in it; and of the idle ledger beside neighbours.
REPEAT, IDLE = 90.0, 10.0
#: Seconds between two looks at the shares: how exact the times are.
LOOK = 0.01
BACK = 0.95


@dataclass(frozen=True)
class Reaction:
    """Times in s; ``None``: it did not happen while it was looked for. ``phase`` is 0..1 of the period.

    ``others`` is the most CPUs that were used outside of the lab in any second from the neighbours' end until all was
    back, or in the first one where that took less; ``early`` how many periods had begun before their turn until the
    neighbours came, for which there was no reason, and ``prompt`` how many did while they stayed.
    """

    period: float
    phase: float
    raised: float | None
    recovered: float | None
    back: float | None
    others: float | None
    early: int
    prompt: int


@dataclass(frozen=True)
class Visit:
    """The neighbours' stay, on the wall clock; when a share was written and when all were back, in s since its ends."""

    came: float
    raised: float | None
    back: float | None
    others: float | None
    early: int
    prompt: int


class Others:
    """What is used outside of the lab: the most CPUs in any second, as far as it is looked; ``None``: in none yet.

    ``inside`` gives the CPU seconds that the lab has used so far.
    """

    def __init__(self, inside: Callable[[], float]) -> None:
        self._inside = inside
        self._before = snapshot(), inside()
        self._due = time.monotonic() + 1.0
        self.most: float | None = None

    def look(self) -> None:
        if time.monotonic() < self._due:
            return
        now, used = snapshot(), self._inside()
        before, used_before = self._before
        cpus = (now.busy - before.busy - (used - used_before)) / (now.time - before.time)
        self.most = cpus if self.most is None else max(self.most, cpus)
        self._before, self._due = (now, used), time.monotonic() + 1.0


def shares_of(lab: Lab, network: Network) -> list[int]:
    return [lab.tree.group(node.name).shares() for node in network.nodes]


def be_prompt() -> None:
    """Have this thread never wait behind what it looks at."""
    os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def look(lab: Lab, seconds: float, condition: Callable[[], bool], others: Others | None = None) -> float | None:
    """Look for something for so long, to the end; give when it was first so, in s. Until then look for others too."""
    begun = due = time.monotonic()
    found = None
    while time.monotonic() - begun < seconds:
        if found is None and condition():
            found = time.monotonic() - begun
        if others is not None and (found is None or others.most is None):
            others.look()
        lab.check()
        due += LOOK if found is None else 0.2
        time.sleep(max(0.0, due - time.monotonic()))
    return found


def react(
    lab: Lab, network: Network, directory: Path, count: int, rate: float, period: float, repeats: int
) -> Iterator[Reaction]:
    """Have the neighbours come so often, each time to a daemon that has just been started, under one load."""
    directory.mkdir(parents=True, exist_ok=True)
    plan = LoadPlan(repeats * REPEAT, 2.0, rate=rate)
    phases = [(number + 0.5) / repeats for number in range(repeats)]
    with LoadRun(lab, plan, directory) as load:
        visits = []
        for phase in phases:
            due = time.monotonic() + REPEAT
            visits.append(visit(lab, network, directory, count, rate, period, phase))
            stay(max(0.0, due - time.monotonic()), lab.check)
        result = load.wait()
    for phase, one in zip(phases, visits, strict=True):
        after = one.came - result.start
        since = after + (one.raised or 0.0)
        recovered = None if one.raised is None else recovery(result.throughput, since, after + BESIDE, BACK * rate)
        recovered = None if recovered is None else recovered - after
        yield Reaction(period, phase, one.raised, recovered, one.back, one.others, one.early, one.prompt)


def visit(lab: Lab, network: Network, directory: Path, count: int, rate: float, period: float, phase: float) -> Visit:
    """Have the neighbours come once, so far into a period, and go."""
    config = daemon_config(lab, network, law="adaptive", threshold=rate, period=period)
    sysbench = Sysbench(lab.tree, count, directory)
    with ExitStack() as stack:
        stack.callback(sysbench.stop)
        sysbench.prepare()
        stack.enter_context(Daemon(lab, config, directory)).settle()
        look(lab, ALONE, lambda: False)
        socket = lab.directory / "daemon" / "qioi.sock"
        early = wait_for_phase(socket, period, phase)
        while is_raised(lab, network):  # raised before they come: that is no reaction
            if look(lab, AFTER, lambda: not is_raised(lab, network)) is None:
                raise LabError(f"a share stays above {DEFAULT_SHARES} beside nobody")
            early = wait_for_phase(socket, period, phase)
        with ThreadPoolExecutor(2, initializer=be_prompt) as pool:  # starting them is not to wait behind the first
            try:
                came = time.time()
                looking = pool.submit(look, lab, BESIDE, lambda: is_raised(lab, network))
                pool.submit(sysbench.start).result()
                raised = looking.result()
                sysbench.check()
                prompt = int(get_json(socket, "/status")["totals"]["early"]) - early
            finally:
                sysbench.stop()
        others = Others(lab.tree.root.cpu_seconds)
        back = look(lab, AFTER, lambda: max(shares_of(lab, network)) == DEFAULT_SHARES, others)
        return Visit(came, raised, back, others.most, early, prompt)


def is_raised(lab: Lab, network: Network) -> bool:
    """Whether any share is."""
    return max(shares_of(lab, network)) > DEFAULT_SHARES


def wait_for_phase(socket: Path, period: float, phase: float) -> int:
    """Wait until a period has begun, and for its part ``phase``; give how many began before their turn so far."""
    status = get_json(socket, "/status")
    begun = status["time"] - status["loop"]
    time.sleep((begun + phase * period - time.time()) % period)
    return int(status["totals"]["early"])


def recovery(throughput: Series, since: float, left: float, enough: float) -> float | None:
    """Give from when on, after ``since``, two seconds together bring as many tps as are enough."""
    rows = [(at, tps) for at, tps in throughput if since <= at < left]
    for (at, first), (_, second) in pairwise(rows):
        if (first + second) / 2 >= enough:
            return at
    return None


def idle(lab: Lab, network: Network, directory: Path, count: int, threshold: float) -> int:
    """Give the largest share that an idle ledger's components have had beside neighbours."""
    directory.mkdir(parents=True, exist_ok=True)
    most = [0]

    def widen() -> bool:
        most.append(max(shares_of(lab, network)))
        return False

    with Daemon(lab, daemon_config(lab, network, law="adaptive", threshold=threshold), directory) as daemon:
        daemon.settle()
        sysbench = Sysbench(lab.tree, count, directory)
        try:
            sysbench.start()
            look(lab, IDLE, widen)
            sysbench.check()
        finally:
            sysbench.stop()
    return max(most)


def told(times: list[float | None]) -> str:
    """Give the median, the least and the most; what was not seen is later than all."""
    ordered = sorted(math.inf if one is None else one for one in times)
    return f"{statistics.median(ordered):.2f} s ({ordered[0]:.2f} .. {ordered[-1]:.2f})"


def summary(period: float, rate: float, reactions: list[Reaction]) -> str:
    """Say how it went at one period."""
    others = ["-" if one.others is None else f"{one.others:.2f}" for one in reactions]
    early = [f"{one.early} before they came, {one.prompt} then" for one in reactions]
    return (
        f"period {period:g} s, {rate:.0f} tps: raised after {told([one.raised for one in reactions])}, "
        f"95 % of the throughput after {told([one.recovered for one in reactions])}, all at the default after "
        f"{told([one.back for one in reactions])}; outside of the lab up to {', '.join(others)} CPUs in a second; "
        f"periods before their turn: {', '.join(early)}"
    )


@click.command()
@placed("reaction")
@click.option("--sysbench", "count", type=click.IntRange(1, 256), default=16, show_default=True)
@click.option("--period", "periods", type=float, multiple=True, default=PERIODS, show_default=True)
@click.option("--repeats", type=click.IntRange(1, 50), default=5, show_default=True)
@click.option("--rate", type=float, help="Offered tps [default: 60 % of the maximum].")
@click.option("--up", type=click.Path(file_okay=False, exists=True, path_type=Path), help="A network that is up.")
def main(
    place: Place,
    count: int,
    periods: tuple[float, ...],
    repeats: int,
    rate: float | None,
    up: Path | None,
) -> None:
    """Measure, write reaction.json, and print what was found."""
    found: list[Reaction] = []
    told_of = []
    with place.network(up) as (lab, network):
        offered = rate or round(LOAD_PART * Runner(lab, network, place.results).maximum(), -1)
        most = idle(lab, network, place.results / "idle", count, offered)
        click.echo(f"idle beside {count} sysbench: the largest share is {most}")
        for period in periods:
            folder = place.results / f"period-{period:g}"
            reactions = list(react(lab, network, folder, count, offered, period, repeats))
            found += reactions
            told_of.append(summary(period, offered, reactions))
            click.echo(told_of[-1])
    document = {"sysbench": count, "rate": offered, "idle": most, "reactions": [asdict(one) for one in found]}
    place.write(document, "\n".join(told_of) + "\n")


if __name__ == "__main__":
    main()
