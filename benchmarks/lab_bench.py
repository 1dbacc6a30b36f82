"""The frame of a benchmark on a lab: its options, a network while it is needed, shares by hand, and its results."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from qioi.lab.arms import Arm
from qioi.lab.demo import demo_directory
from qioi.lab.lab import Lab
from qioi.lab.machine import machine
from qioi.lab.network import Network
from qioi.lab.options import LabOptions
from qioi.lab.signals import ending_signals_interrupt, uninterrupted
from qioi.processes.errors import LabError
from qioi.processes.tree import Tree

T = TypeVar("T")
#: Seconds between two looks at what takes part in a benchmark.
LOOK = 0.1
#: The option of a benchmark that runs once each time, and so has to be told which of several runs it is.
repeat_option = click.option(
    "--repeat", type=click.IntRange(1), default=1, show_default=True, help="An even one goes in the opposite order."
)


def in_turn(conditions: Sequence[T], repeat: int) -> Sequence[T]:
    """Give the conditions of a repeat (from 1): every other one has the opposite order."""
    return conditions if repeat % 2 else conditions[::-1]


def stay(seconds: float, *checks: Callable[[], None]) -> None:
    """Wait so long, and have what takes part looked at meanwhile; a check raises if it has ended."""
    end = time.monotonic() + seconds
    while True:
        for check in checks:
            check()
        rest = end - time.monotonic()
        if rest <= 0:
            return
        time.sleep(min(LOOK, rest))


@dataclass(frozen=True)
class ArmInTime(Arm):
    """An arm that says when its interferers come: ``come`` s after the window's beginning, early if ``None``."""

    come: float | None = None

    @property
    def arrival(self) -> float:
        """The time of the interferers' start, in seconds since the load began to send."""
        return super().arrival if self.come is None else self.load.warmup + self.come


@dataclass(frozen=True)
class Place:
    """Where a benchmark runs: its first port, the folder of the ledgers, and the folder of its results."""

    name: str
    base_port: int
    ledgers: Path | None
    results: Path

    @contextmanager
    def network(self, up: Path | None = None, **options: Any) -> Iterator[tuple[Lab, Network]]:
        """Bring a network in block mode up for as long as it is needed, or give the one that is ``up`` in a folder.

        ``options`` are further ones of ``LabOptions``.
        """
        if up is not None:
            lab = Lab(up)
            with lab.locked():
                lab.tree = Tree(str(lab.state()["cgroup_root"]))
                network = lab.network()
                # A group that is missing would count as no CPU.
                missing = [node.name for node in network.nodes if not lab.tree.group(node.name).exists]
                if missing:
                    accepted = f"accepted is a network whose components have the groups {lab.tree.name}/NAME"
                    raise LabError(f"no group {lab.tree.name}/{missing[0]} of the network in {up}: {accepted}")
                lab.client_group()  # the daemon may come before the first load
                yield lab, network
            return
        lab = Lab(self.ledgers or demo_directory())
        asked = LabOptions(mode="block", base_port=self.base_port, **options)
        network = lab.up(asked, die_with_parent=True, say=click.echo)
        try:
            yield lab, network
        finally:
            with uninterrupted():
                lab.down()

    def write(self, document: Mapping[str, Any], text: str) -> None:
        """Write NAME.json, with the machine, and NAME.md, and print what that says."""
        whole = {"machine": asdict(machine()), **document}
        (self.results / f"{self.name}.json").write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
        (self.results / f"{self.name}.md").write_text(text, encoding="utf-8")
        click.echo(text)
        click.echo(f"written to {self.results}")


def placed(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a place, and the place as its first argument; a lab's error is the command's."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @click.option("--base-port", type=int, default=17_000, show_default=True)
        @click.option(
            "--dir", "ledgers", type=click.Path(file_okay=False, path_type=Path), help="Where the ledgers stand."
        )
        @click.option("--output", type=click.Path(file_okay=False, path_type=Path))
        @functools.wraps(command)
        def run(base_port: int, ledgers: Path | None, output: Path | None, **options: Any) -> None:
            given = click.get_current_context().get_parameter_source("base_port")
            if options.get("up") and (ledgers or given is not ParameterSource.DEFAULT):
                raise click.UsageError("--up: accepted without --dir and --base-port: the network runs already")
            results = (output or Path("results") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}").resolve()
            results.mkdir(parents=True, exist_ok=True)
            try:
                with ending_signals_interrupt():
                    command(Place(name, base_port, ledgers, results), **options)
            except LabError as error:
                raise click.ClickException(str(error)) from error

        return run

    return decorate


@contextmanager
def by_hand(lab: Lab, network: Network, shares: int | None) -> Iterator[None]:
    """Hold all components at a share, as an operator would, and put back what was found; ``None`` leaves them alone."""
    if shares is None:
        yield
        return
    found = [(group, group.shares()) for group in (lab.tree.group(one.name) for one in network.nodes)]
    try:
        for group, _ in found:
            group.set_shares(shares)
        yield
    finally:
        with uninterrupted(), ExitStack() as restored:  # a group that is gone keeps nothing from the others
            for group, before in found:
                restored.callback(group.set_shares, before)
