#!/usr/bin/env python3
"""How soon the daemon knows a container that starts, and has let go of one that ends: a peer of the lab.

A Docker engine has to run ($DOCKER_HOST names another socket than the usual one). The time is from the engine's own
record of the start, or the end, until the daemon's status has it: what the status says is what a period acted on.
Alone and beside 16 sysbench, each time at another instant of the daemon's period of 1 s.

    python benchmarks/bench_discovery.py [--repeats 10] [--output DIR]
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import docker
from bench_reaction import wait_for_phase
from lab_bench import Place, placed

from qioi.interference import Sysbench
from qioi.lab.daemon import Daemon, daemon_config
from qioi.lab.engine import engine_socket
from qioi.lab.lab import DAEMON_STATE, Lab
from qioi.lab.network import Network
from qioi.model import Role
from qioi.processes.errors import LabError
from qioi.show.http import get_json

SYSBENCH = 16
#: Seconds that are waited for the daemon, those between two looks, and the daemon's period.
PATIENCE, LOOK, PERIOD = 15.0, 0.02, 1.0


@dataclass(frozen=True, slots=True)
class Visit:
    """One start and one end beside so many sysbench; seconds until the daemon knew."""

    sysbench: int
    known: float
    gone: float


class Site:
    """The container that starts and ends, and the status of the daemon that is to know it."""

    def __init__(self, lab: Lab, network: Network) -> None:
        peer = next(node.name for node in network.nodes if node.role is Role.PEER)
        self._component = f"{lab.tree.name}-{peer}"  # the daemon knows a container by its own name
        self._socket = lab.directory / DAEMON_STATE / "qioi.sock"
        client = docker.DockerClient(base_url=f"unix://{engine_socket()}", version="auto")
        self._container: Any = client.containers.get(self._component)

    def visit(self, sysbench: int, phase: float) -> Visit:
        """Have it end, which the daemon knows, and start again, both so far into a period (0..1) of the daemon's.

        A status that was just seen would have all begin right after a period's end.
        """
        self._wait(there=True, since="StartedAt")
        wait_for_phase(self._socket, PERIOD, phase)
        self._container.kill()
        gone = self._wait(there=False, since="FinishedAt")
        wait_for_phase(self._socket, PERIOD, phase)
        self._container.start()
        return Visit(sysbench, self._wait(there=True, since="StartedAt"), gone)

    def _wait(self, *, there: bool, since: str) -> float:
        """Give the seconds from what the engine has on record until the daemon's status says so."""
        deadline = time.monotonic() + PATIENCE
        while self._is_known() is not there:
            if time.monotonic() > deadline:
                raise LabError(
                    f"the daemon still {'lacks' if there else 'has'} {self._component} after {PATIENCE:.0f} s"
                )
            time.sleep(LOOK)
        seen = time.time()
        self._container.reload()
        at = self._container.attrs["State"][since]
        return seen - datetime.fromisoformat(at).timestamp()

    def _is_known(self) -> bool:
        return self._component in {one["name"] for one in get_json(self._socket, "/status")["components"]}


def measure(lab: Lab, network: Network, results: Path, repeats: int) -> list[Visit]:
    """Have the container come and go, alone and beside neighbours."""
    found = []
    config = daemon_config(lab, network, law="adaptive", threshold=1.0, period=PERIOD)
    with Daemon(lab, config, results):
        site = Site(lab, network)
        for sysbench in (0, SYSBENCH):
            with Sysbench(lab.tree, sysbench, results) as beside:
                for number in range(repeats):
                    time.sleep(2 * PERIOD)
                    found.append(site.visit(sysbench, (number + 0.5) / repeats))
                    beside.check()
                    click.echo(
                        f"beside {sysbench}: known after {found[-1].known:.2f} s, gone after {found[-1].gone:.2f} s"
                    )
    return found


def table(visits: Sequence[Visit]) -> str:
    """Lay them side by side."""
    lines = ["| | known after | gone after |", "| --- | --- | --- |"]
    for sysbench in dict.fromkeys(one.sysbench for one in visits):
        its = [one for one in visits if one.sysbench == sysbench]
        cells = (
            f"{statistics.median(times):.2f} s (at most {max(times):.2f} s)"
            for times in ([one.known for one in its], [one.gone for one in its])
        )
        lines.append(f"| {f'{sysbench} sysbench' if sysbench else 'alone'} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


@click.command()
@placed("discovery")
@click.option("--repeats", type=click.IntRange(1), default=10, show_default=True)
def main(place: Place, repeats: int) -> None:
    """Measure, write discovery.json and discovery.md, and print the table."""
    with place.network(runtime="docker") as (lab, network):
        visits = measure(lab, network, place.results, repeats)
    place.write({"visits": [asdict(one) for one in visits]}, table(visits))


if __name__ == "__main__":
    main()
