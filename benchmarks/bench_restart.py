#!/usr/bin/env python3
"""How soon a peer with a long ledger serves again after it was started: from a checkpoint, and without one.

The ledger is made by the peer's own pipeline with really signed transactions (ledger/test/fill), which takes some
minutes, then by as many more as a SIGKILL can leave uncovered. Each start is that of a real process, from the fork
to the first answer of /healthz; the ledger's files are dropped from the page cache before it. `inspect` holds the
checkpoint's state against a replay of the whole chain.

    python benchmarks/bench_restart.py [--transactions 1000000] [--repeats 3] [--network DIR]
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import click
import psutil

from qioi.lab.machine import machine
from qioi.lab.network import find_binary, load_network
from qioi.lab.readiness import ask, refuse_busy_ports
from qioi.lab.signals import ending_signals_interrupt
from qioi.processes.errors import LabError

LEDGER = Path(__file__).resolve().parent.parent / "ledger"
PEER = "peer0-org1"
#: As many transactions as may lie between two checkpoints, but for one.
UNCOVERED = 49_999
POLICY = "OR('Org1MSP.peer','Org2MSP.peer')"


class Start(NamedTuple):
    """Seconds until a peer served, those of its orderly end, and the bytes that it had resident when it served."""

    served: float
    stopped: float
    memory: int


class Peer:
    """One peer of a network on disk, run by itself: it needs no orderer to serve what it has."""

    def __init__(self, network: Path, binary: Path) -> None:
        self.network = network
        self.binary = binary
        self.whole = load_network(network / "network.json")
        nodes: list[dict[str, Any]] = json.loads((network / "network.json").read_text(encoding="utf-8"))["nodes"]
        self.node = next(node for node in nodes if node["name"] == PEER)
        self.ledger = network / self.node["data"] / "channels" / "mychannel"

    def forget(self) -> None:
        """Drop the ledger's files from the page cache."""
        os.sync()
        for path in self.ledger.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def start(self) -> Start:
        """Run it until it serves, then end it. It ends with this process."""
        try:
            refuse_busy_ports(self.whole)
        except LabError as error:
            raise click.ClickException(str(error)) from error
        self.forget()
        command = ["setpriv", "--pdeathsig", "KILL", "--", str(self.binary), *self.node["args"]]
        begun = time.monotonic()
        with (self.network / "peer.log").open("ab") as log:
            process = subprocess.Popen(command, cwd=self.network, stderr=log)
        try:
            while True:
                serves = ask(self.node["operations"], "/healthz") is not None
                if process.poll() is not None:  # the answer was another's
                    raise click.ClickException(f"the peer has ended: see {self.network / 'peer.log'}")
                if serves:
                    break
                time.sleep(0.005)
            served, memory = time.monotonic(), psutil.Process(process.pid).memory_info().rss
            process.terminate()
            process.wait(timeout=120)
            return Start(served - begun, time.monotonic() - served, memory)
        finally:
            process.kill()
            process.wait()


def make(network: Path, binary: Path, base_port: int) -> None:
    """Initialise the smallest network."""
    sizes = ["--orderers", "1", "--peers-per-org", "1", "--base-port", str(base_port), "--chaincode", f"kv={POLICY}"]
    subprocess.run([binary, "init", "--dir", str(network), *sizes], check=True, stdout=subprocess.DEVNULL)


def fill(network: Path, count: int, keys: int, value_size: int, folder: Path) -> None:
    """Add transactions to the peer's ledger."""
    if count <= 0:
        return
    tool = folder / "fill"
    subprocess.run(["go", "build", "-o", str(tool), "./test/fill"], cwd=LEDGER, check=True)
    sizes = ["-transactions", str(count), "-keys", str(keys), "-value-size", str(value_size)]
    with (folder / "fill.log").open("wb") as log:
        subprocess.run([tool, "-network", str(network), *sizes], check=True, stderr=log)


def inspect(peer: Peer) -> dict[str, Any]:
    """Check the whole ledger, its checkpoints too."""
    done = subprocess.run([peer.binary, "inspect", "--json", peer.ledger], check=True, capture_output=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def middle(values: list[float]) -> str:
    """Median, least and most."""
    return f"{statistics.median(values):.1f} ({min(values):.1f} .. {max(values):.1f})"


@click.command()
@click.option("--transactions", type=click.IntRange(UNCOVERED + 1), default=1_000_000, show_default=True)
@click.option("--keys", type=click.IntRange(1), default=100_000, show_default=True)
@click.option("--value-size", type=click.IntRange(8), default=100, show_default=True)
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True)
@click.option("--base-port", type=int, default=30_100, show_default=True)
@click.option("--network", "given", type=click.Path(file_okay=False, path_type=Path), help="A ledger made before.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path))
@ending_signals_interrupt()
def main(
    transactions: int, keys: int, value_size: int, repeats: int, base_port: int, given: Path | None, output: Path | None
) -> None:
    """Measure, write restart.json, and print the medians."""
    directory = (output or Path("results") / f"restart-{time.strftime('%Y%m%d-%H%M%S')}").resolve()
    directory.mkdir(parents=True, exist_ok=True)
    binary = find_binary()
    with tempfile.TemporaryDirectory(dir=directory) as text:
        folder = Path(text)
        network = given or folder / "network"
        if given is None:
            make(network, binary, base_port)
            fill(network, transactions - UNCOVERED, keys, value_size, folder)
        peer = Peer(network.resolve(), binary)
        checkpoints = peer.ledger / "checkpoints"
        if given is None:
            covered = folder / "covered"
            shutil.copytree(checkpoints, covered)
            fill(network, UNCOVERED, keys, value_size, folder)
        after_stop = [peer.start().served for _ in range(repeats)]
        found: dict[str, list[float]] = {"after an orderly stop": after_stop}
        if given is None:
            after_kill, stops = [], []
            for _ in range(repeats):
                shutil.rmtree(checkpoints)
                shutil.copytree(covered, checkpoints)
                one = peer.start()
                after_kill.append(one.served)
                stops.append(one.stopped)
            found["with 49,999 transactions to replay"] = after_kill
            found["its orderly stop, which covers them"] = stops
        report = inspect(peer)
        shutil.rmtree(checkpoints)
        found["without a checkpoint"] = [peer.start().served]  # which makes one again when it is stopped
        size = sum(path.stat().st_size for path in peer.ledger.rglob("*.blk"))
    document = {"machine": asdict(machine()), "seconds": found, "ledger": report, "bytes": size}
    (directory / "restart.json").write_text(json.dumps(document, indent=2, default=str) + "\n", encoding="utf-8")
    click.echo(f"{report['transactions']} transactions, {report['keys']} keys, state hash {report['state_hash']}")
    click.echo(f"checkpoints that equal the replay: {[each.get('blocks') for each in report['checkpoints']]} blocks")
    for name, seconds in found.items():
        click.echo(f"{name}: {middle(seconds)} s")


if __name__ == "__main__":
    main()
