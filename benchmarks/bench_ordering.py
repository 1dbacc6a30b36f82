#!/usr/bin/env python3
"""What each way to order costs: raft with 3 orderers, PBFT with 4, PBFT with one of the 4 killed, the sequencer.

One client alone also has raft and Zyzzyva with 4 orderers, all alive and with one that follows killed: how long until
the gateway says SUCCESS, and until the transaction is VALID.

2 peers, 1 KB writes, TLS, stream mode. Each repeat brings up a network of its own for every setting and load; settings
take turns, and ratios to raft are taken within a repeat. CPU is user+sys in the measured window, by kind of process,
for each committed transaction: on shared cores it says more than wall time. Each repeat begins with a calibration.

    python benchmarks/bench_ordering.py [--repeats 3] [--many 64] [--peak 256] [--duration 8]

Runs that are too long for one sitting are split: with the same ``--output`` later repeats are added to those before.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from qioi.experiment.calibration import Calibration, calibrate, speed
from qioi.lab.lab import CLIENT_GROUP, Lab
from qioi.lab.load import LoadPlan, LoadResult, LoadRun
from qioi.lab.machine import Snapshot, between, machine, snapshot
from qioi.lab.network import Node
from qioi.lab.options import LabOptions
from qioi.lab.readiness import follower
from qioi.lab.signals import ending_signals_interrupt
from qioi.model import Role
from qioi.processes.errors import LabError

POLICY = "OR('Org1MSP.peer','Org2MSP.peer')"
KV = ("--chaincode", "kv", "--breakdown")
WARMUP = 3.0
#: Seconds between two looks at the groups' CPU time.
LOOK = 0.1
#: The kinds of processes; a sequencer is one of the orderers' processes.
KINDS = {
    Role.ORDERER: "orderers",
    Role.BROKER: "orderers",
    Role.PEER: "peers",
    Role.CHAINCODE: "chaincodes",
}


#: The loads by name: one client, many, and as many as find the peak.
LOADS = ("one", "many", "peak")


@dataclass(frozen=True, slots=True)
class Setting:
    """A way to order. With ``kill`` an orderer that leads nothing is killed before the load starts."""

    name: str
    consenter: str
    orderers: int
    flags: tuple[str, ...] = ()
    kill: bool = False
    loads: tuple[str, ...] = LOADS


SETTINGS = (
    Setting("raft", "raft", 3),
    Setting("pbft", "bft", 4),
    Setting("pbft, one dead", "bft", 4, kill=True),
    Setting("raft of 4", "raft", 4, loads=("one",)),
    Setting("raft of 4, one dead", "raft", 4, kill=True, loads=("one",)),
    Setting("zyzzyva", "zyzzyva", 4, loads=("one",)),
    Setting("zyzzyva, one dead", "zyzzyva", 4, kill=True, loads=("one",)),
    Setting("sequencer", "sequencer", 3, loads=("one",)),
    Setting("sequencer in memory", "sequencer", 3, ("--sequencer-memory",), loads=("one",)),
)


@dataclass(frozen=True, slots=True)
class Figures:
    """Latencies in ms; ``order`` is the mean of the orderers' own stage; CPU in ms per transaction by kind.

    ``p50`` is from the proposal to VALID; ``success``, the p50 too, from submitting until the gateway says SUCCESS.
    ``cores`` are the lab's and ``others`` those of other programs. ``steal`` is the share that the hypervisor took.
    """

    throughput: float
    p50: float
    p95: float
    order: float
    cpu: Mapping[str, float]
    cores: float
    others: float
    steal: float
    success: float = math.nan

    @property
    def cpu_per_tx(self) -> float:
        """The CPU time of all processes for one transaction."""
        return sum(self.cpu.values())


@dataclass(frozen=True, slots=True)
class Look:
    """CPU seconds of each kind, and the machine, at one time."""

    machine: Snapshot
    cpu: Mapping[str, float]


def look(lab: Lab, nodes: Sequence[Node]) -> Look:
    """Read all groups."""
    cpu = {"client": lab.tree.group(CLIENT_GROUP).cpu_seconds()}
    for node in nodes:
        kind = KINDS[node.role]
        cpu[kind] = cpu.get(kind, 0.0) + lab.tree.group(node.name).cpu_seconds()
    return Look(snapshot(), cpu)


def watch(lab: Lab, run: LoadRun) -> list[Look]:
    """Look until the run ends. LabError: a node has ended."""
    nodes = lab.network().nodes
    looks = [look(lab, nodes)]
    while run.running():
        lab.check()
        time.sleep(LOOK)
        looks.append(look(lab, nodes))
    return looks


def nearest(looks: Sequence[Look], at: float) -> Look:
    """Find the look that was taken closest to a time (epoch seconds)."""
    return min(looks, key=lambda one: abs(one.machine.time - at))


@contextmanager
def network(lab: Lab, setting: Setting, base_port: int) -> Iterator[None]:
    """Bring a network up, and down again."""
    options = LabOptions(
        peers_per_org=1,
        orderers=setting.orderers,
        consenter=setting.consenter,
        base_port=base_port,
        extra=("--chaincode", f"kv={POLICY}", *setting.flags),
    )
    lab.up(options, die_with_parent=True)
    try:
        if setting.kill:
            lab.kill(follower(lab.network()))
        yield
    finally:
        lab.down()


def order_time(document: Mapping[str, object]) -> float:
    """Find the orderers' mean time in the client's JSON."""
    breakdown = document.get("breakdown")
    assert isinstance(breakdown, dict)
    return float(next((stage["mean_ms"] for stage in breakdown["stages"] if stage["stage"] == "order"), "nan"))


def measure(lab: Lab, setting: Setting, plan: LoadPlan, base_port: int, folder: Path) -> Figures:
    """Run one load on a fresh network."""
    with network(lab, setting, base_port), LoadRun(lab, plan, folder) as run:
        looks = watch(lab, run)
        result: LoadResult = run.result()
    first, last = nearest(looks, result.start), nearest(looks, result.end)
    quiet = between(first.machine, last.machine, machine().cores)
    cpu = {kind: last.cpu[kind] - first.cpu[kind] for kind in sorted(first.cpu)}
    cores = sum(cpu.values()) / quiet.seconds
    found = result.figures
    document = json.loads((folder / "load.json").read_text(encoding="utf-8"))
    return Figures(
        throughput=found.throughput,
        p50=found.p50,
        p95=found.p95,
        order=order_time(document),
        success=float(document["stages_ms"]["submit"]["p50"]),
        cpu={kind: 1000 * each / quiet.seconds / found.throughput for kind, each in cpu.items()},
        cores=cores,
        others=quiet.cores_busy - cores,
        steal=quiet.steal,
    )


@dataclass(frozen=True, slots=True)
class Repeat:
    """One repeat: the calibration, and figures by setting and load."""

    calibration: Calibration
    figures: Mapping[str, Mapping[str, Figures]]


def read_repeats(path: Path) -> list[Repeat]:
    """Read what earlier runs have left."""
    if not path.exists():
        return []
    return [
        Repeat(
            Calibration(**each["calibration"]),
            {
                name: {load: Figures(**figures) for load, figures in loads.items()}
                for name, loads in each["figures"].items()
            },
        )
        for each in json.loads(path.read_text(encoding="utf-8"))["repeats"]
    ]


def hold_to(path: Path, clients: Sequence[int], duration: float) -> None:
    """Hold a run to what the repeats before were measured with. UsageError: both would be pooled."""
    if not path.exists():
        return
    known = json.loads(path.read_text(encoding="utf-8"))
    now = {"clients": list(clients), "duration": duration}
    others = [name for name, value in now.items() if known.get(name) != value]  # an earlier version kept no duration
    if others:
        raise click.UsageError(f"{path.parent} has repeats of other {', '.join(others)}: name another --output")


def middle(values: Sequence[float], digits: int) -> str:
    """Median, least and most."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} .. {max(values):.{digits}f})"


def of_one_dead(repeat: Repeat, load: str) -> float | None:
    """Say how much of the throughput with 4 orderers is left with 3, once the CPU is shared out that the fourth used.

    Where the cores are the bound, the same work for each transaction without the fourth gives more throughput.
    """
    whole, dead = (repeat.figures.get(name, {}).get(load) for name in ("pbft", "pbft, one dead"))
    if whole is None or dead is None:
        return None
    rest = whole.cpu_per_tx - whole.cpu["orderers"] / 4
    return (dead.throughput / whole.throughput) * (rest / whole.cpu_per_tx)


def table(repeats: Sequence[Repeat]) -> str:
    """Write medians, and ratios to raft within each repeat."""
    lines = [
        "| load | ordered by | tps | to raft | SUCCESS ms | to raft | p50 ms | to raft | order ms | to raft "
        "| CPU ms/tx | to raft | orderers | peers | client |",
        "| --- " * 15 + "|",
    ]
    for load in LOADS:
        for setting in SETTINGS:
            rows = [each for each in repeats if load in each.figures.get(setting.name, {})]
            if not rows:
                continue
            own = [each.figures[setting.name][load] for each in rows]
            cells = [load, setting.name]
            for attribute, digits in (("throughput", 0), ("success", 2), ("p50", 2), ("order", 2), ("cpu_per_tx", 2)):
                cells.append(middle([getattr(one, attribute) for one in own], digits))
                ratios = [
                    getattr(each.figures[setting.name][load], attribute) / getattr(base[load], attribute)
                    for each in rows
                    if load in (base := each.figures.get("raft", {}))
                ]
                cells.append(middle(ratios, 2) if ratios else "")
            cells += [
                f"{statistics.median(one.cpu.get(kind, 0.0) for one in own):.2f}"
                for kind in ("orderers", "peers", "client")
            ]
            lines.append("| " + " | ".join(cells) + " |")
    for load in LOADS[1:]:  # one client does not use the cores up
        left = [ratio for each in repeats if (ratio := of_one_dead(each, load)) is not None]
        if left:
            lines += ["", f"{load}, one of four dead, its CPU taken out: {middle(left, 2)} of the throughput."]
    lines += ["", f"Calibration: {speed([each.calibration for each in repeats])}"]
    return "\n".join(lines) + "\n"


def one_repeat(
    lab: Lab, wanted: Sequence[Setting], plans: Mapping[str, LoadPlan], base_port: int, folder: Path
) -> Repeat:
    """Measure every setting under its loads."""
    calibration = calibrate(folder)
    click.echo(speed([calibration]))
    found: dict[str, dict[str, Figures]] = {}
    for load, plan in plans.items():
        for setting in wanted:
            if load not in setting.loads:
                continue
            figures = measure(lab, setting, plan, base_port, folder)
            found.setdefault(setting.name, {})[load] = figures
            kinds = ", ".join(f"{kind} {each:.2f}" for kind, each in figures.cpu.items())
            click.echo(
                f"{setting.name}, {plan.clients} clients: {figures.throughput:.0f} tps, "
                f"SUCCESS {figures.success:.2f} ms, p50 {figures.p50:.2f} ms, "
                f"order {figures.order:.2f} ms, CPU {figures.cpu_per_tx:.2f} ms/tx ({kinds}), "
                f"{figures.cores:.2f} cores, others {figures.others:.2f}, steal {100 * figures.steal:.0f} %"
            )
    return Repeat(calibration, found)


@click.command()
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True)
@click.option("--many", type=click.IntRange(1), default=64, show_default=True, help="Clients.")
@click.option("--peak", type=click.IntRange(1), default=256, show_default=True, help="Clients.")
@click.option("--duration", type=float, default=8.0, show_default=True, help="Seconds measured per run.")
@click.option("--base-port", type=int, default=18_500, show_default=True)
@click.option(
    "--setting", "names", multiple=True, type=click.Choice([each.name for each in SETTINGS]), help="Some only."
)
@click.option("--load", "loads", multiple=True, type=click.Choice(LOADS), help="Some only.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path))
def main(
    repeats: int,
    many: int,
    peak: int,
    duration: float,
    base_port: int,
    names: tuple[str, ...],
    loads: tuple[str, ...],
    output: Path | None,
) -> None:
    """Measure, write ordering.json and ordering.md, and print the table."""
    directory = (output or Path("results") / f"ordering-{time.strftime('%Y%m%d-%H%M%S')}").resolve()
    directory.mkdir(parents=True, exist_ok=True)
    document = directory / "ordering.json"
    clients = (1, many, peak)
    hold_to(document, clients, duration)
    done = read_repeats(document)
    wanted = [each for each in SETTINGS if not names or each.name in names]
    plans = {
        name: LoadPlan(duration, WARMUP, clients=count, extra=KV)
        for name, count in zip(LOADS, clients, strict=True)
        if not loads or name in loads
    }
    try:
        with ending_signals_interrupt(), tempfile.TemporaryDirectory(dir=directory) as folder:
            lab = Lab(Path(folder) / "lab")
            for _ in range(repeats):
                done.append(one_repeat(lab, wanted, plans, base_port, Path(folder)))
                content = {
                    "machine": asdict(machine()),
                    "clients": clients,
                    "duration": duration,
                    "repeats": [asdict(each) for each in done],
                }
                document.write_text(json.dumps(content, indent=2, default=str) + "\n", encoding="utf-8")
    except LabError as error:
        raise click.ClickException(str(error)) from error
    (directory / "ordering.md").write_text(table(done), encoding="utf-8")
    click.echo(table(done))
    click.echo(f"written to {directory}")


if __name__ == "__main__":
    main()
