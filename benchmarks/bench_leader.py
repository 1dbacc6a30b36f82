#!/usr/bin/env python3
"""How soon a ledger commits again whose leading orderer was killed or stands still: Raft, PBFT, Zyzzyva.

2 peers, TLS, stream mode, 3 Raft orderers or 4 replicas, and clients that send one transaction after the other. Each
outage has a network of its own, and settings take turns. It begins with the signal to the orderer that leads, and ends
when a peer has committed more transactions than the clients had under way: then at least one was sent later.

    python benchmarks/bench_leader.py [--repeats 5] [--ordered-by raft ...] [--output DIR]
"""

from __future__ import annotations

import json
import re
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import click
from bench_ordering import KV, Setting, network
from lab_bench import Place, placed, stay

from qioi.lab.lab import Lab
from qioi.lab.load import LoadPlan, LoadRun
from qioi.lab.network import Network
from qioi.lab.readiness import ask
from qioi.model import Role
from qioi.processes.errors import LabError

SETTINGS = {
    one.name: one for one in (Setting("raft", "raft", 3), Setting("pbft", "bft", 4), Setting("zyzzyva", "zyzzyva", 4))
}
OUTAGES = ("killed", "frozen")
CLIENTS = 8
#: Seconds of load before an outage, and those after it in which the ledger has to be back.
BEFORE, AFTER = 3.0, 8.0
#: Seconds between two looks at the peer: how exact the times are.
LOOK = 0.01
_LEADS = re.compile(r"^consensus_etcdraft_is_leader\{[^}]*\} 1$", re.MULTILINE)  # replicas set it too
_VALID = re.compile(r'^ledger_transaction_count\{[^}]*validation_code="VALID"[^}]*\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outage:
    """One outage: how it came, seconds until the ledger was back, and what its clients saw.

    ``longest`` is the longest a client waited until it was told what became of a transaction, whatever that was, in s;
    ``failed`` are those that it was told had not been committed, or not whether. ``back`` is ``None`` where it took
    longer than was waited for.
    """

    ordered_by: str
    how: str
    back: float | None
    longest: float
    failed: int


def leader(lab_network: Network) -> str:
    """Name the orderer that leads. LabError: none says so."""
    for node in lab_network.nodes:
        if node.role is Role.ORDERER and _LEADS.search(ask(node.operations, "/metrics") or ""):
            return node.name
    raise LabError("no orderer says that it leads")


def committed(lab_network: Network) -> int:
    """Count what the first peer has committed so far. LabError: it does not answer, and nobody has stopped it."""
    peer = next(node for node in lab_network.nodes if node.role is Role.PEER)
    page = ask(peer.operations, "/metrics")
    if page is None:
        raise LabError(f"{peer.name} does not answer at {peer.operations}")
    return sum(int(float(count)) for count in _VALID.findall(page))


def wait(lab: Lab, condition: Callable[[], bool], seconds: float) -> float | None:
    """Look for something for so long; give the seconds until it was so. LabError: a node has ended."""
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        lab.check()
        if condition():
            return passed
        time.sleep(LOOK)
    return None


@contextmanager
def without(lab: Lab, name: str, how: str) -> Iterator[None]:
    """Have a node killed, or frozen meanwhile."""
    group = lab.tree.group(name)
    if how == "killed":
        lab.kill(name)
    else:
        group.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        group.signal(signal.SIGCONT)  # who stands still can't be ended in good order


def outage(lab: Lab, setting: Setting, how: str, place: Place) -> Outage:
    """Have one outage on a network of its own."""
    plan = LoadPlan(BEFORE + AFTER, 0.0, clients=CLIENTS, extra=KV)
    with network(lab, setting, place.base_port), LoadRun(lab, plan, place.results) as load:
        up = lab.network()
        if wait(lab, lambda: committed(up) > CLIENTS, AFTER) is None:
            raise LabError(f"{setting.name}: nothing is committed")
        stay(BEFORE, lab.check)
        leads, begun = leader(up), time.monotonic()
        with without(lab, leads, how):
            before, late = committed(up), time.monotonic() - begun
            back = wait(lab, lambda: committed(up) > before + CLIENTS, AFTER)
            back = None if back is None else back + late
            found = load.wait().figures
    longest = json.loads((place.results / "load.json").read_text(encoding="utf-8"))["longest_ms"] / 1000
    one = Outage(setting.name, how, back, longest, found.failed)
    click.echo(
        f"{one.ordered_by}, {one.how}: back after {told([one.back])}, longest answer {one.longest:.2f} s, "
        f"failed {one.failed}"
    )
    return one


def told(times: Sequence[float | None]) -> str:
    """Give the median and the most; what was waited for in vain is later than all."""
    ordered = sorted(float("inf") if one is None else one for one in times)
    return f"{statistics.median(ordered):.2f} s (at most {ordered[-1]:.2f} s)"


def table(outages: Sequence[Outage]) -> str:
    """Lay the settings side by side."""
    lines = ["| | back after | longest answer | failed |", "| --- | --- | --- | --- |"]
    for name, how in dict.fromkeys((one.ordered_by, one.how) for one in outages):
        its = [one for one in outages if (one.ordered_by, one.how) == (name, how)]
        cells = (told([one.back for one in its]), told([one.longest for one in its]), sum(one.failed for one in its))
        lines.append(f"| {name}, its leader {how} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


@click.command()
@placed("leader")
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True)
@click.option(
    "--ordered-by", "names", type=click.Choice(list(SETTINGS)), multiple=True, default=list(SETTINGS), show_default=True
)
def main(place: Place, repeats: int, names: tuple[str, ...]) -> None:
    """Measure, write leader.json and leader.md, and print the table."""
    lab = Lab(place.ledgers or place.results / "lab")
    outages = [outage(lab, SETTINGS[name], how, place) for _ in range(repeats) for name in names for how in OUTAGES]
    place.write({"outages": [asdict(one) for one in outages]}, table(outages))


if __name__ == "__main__":
    main()
