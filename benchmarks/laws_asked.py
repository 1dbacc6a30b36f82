"""What a run of bench_laws.py is asked for, and whether the repeats that a folder has were asked for the same."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import click
from fixed_load import BUSY
from laws_figures import CONDITIONS, Condition

from qioi.lab.arms import BLOCK_PROBE
from qioi.lab.network import load_network

#: Seconds before each measured window. Neighbours come 3 s after the load's beginning. What their coming leaves is gone
#: sooner in a closed loop, which has no backlog.
WARMUP = {"fixed": 13.0, "saturating": 8.0}
#: What is compared unless others are named. Slices need a longer warm-up: they are not tried in the first 15 s.
USUAL = ("nothing", "fixed", "fixed-most", "proportional", "adaptive")
#: Where a folder keeps what its repeats were asked for.
KEPT = "figures.json"


class Sent(NamedTuple):
    """What is sent: for how many seconds, and before that, and how much.

    ``warmup`` is the usual one if ``None``; ``clients`` saturate; ``busy`` is what the fixed load takes of the CPUs.
    ``come`` is when the neighbours come, in seconds since the window's beginning, or ``None`` for early in the warm-up.
    """

    duration: float
    warmup: float | None
    come: float | None
    clients: int
    busy: float

    def before(self, load: str) -> float:
        """Give the seconds of a load before its window."""
        return WARMUP[load] if self.warmup is None else self.warmup


@dataclass(frozen=True)
class Asked:
    """The measurements: ``repeats`` from the number ``first`` on, and how each is made.

    ``counts`` are numbers of sysbench. ``maximum`` is what the lab commits at most, in tps; ``None``: look for it.
    """

    loads: tuple[str, ...]
    counts: tuple[int, ...]
    conditions: tuple[Condition, ...]
    repeats: int
    first: int
    maximum: float | None
    sent: Sent


def asked(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of what is measured, and :class:`Asked` as its argument ``asked``."""

    @click.option("--load", "loads", type=click.Choice(list(WARMUP)), multiple=True)
    @click.option(
        "--sysbench", "counts", type=click.IntRange(1, 256), multiple=True, default=(4, 8, 16), show_default=True
    )
    @click.option(
        "--condition", "names", type=click.Choice(list(CONDITIONS)), multiple=True, default=USUAL, show_default=True
    )
    @click.option("--repeats", type=click.IntRange(1), default=2, show_default=True)
    @click.option(
        "--first-repeat", "first", type=click.IntRange(1), default=1, show_default=True,
        help="Its number: even ones go in the opposite order.",
    )  # fmt: skip
    @click.option(
        "--maximum",
        type=click.FloatRange(0, min_open=True),
        help="What the lab commits at most, in tps [default: look for it].",
    )
    @click.option("--duration", type=float, default=10.0, show_default=True, help="Seconds measured per condition.")
    @click.option(
        "--warmup",
        type=float,
        help=f"Seconds before them [default: {', '.join(f'{k} {v:g}' for k, v in WARMUP.items())}].",
    )
    @click.option(
        "--come", type=float, help="When neighbours come, in seconds since the window's beginning [default: before it]."
    )
    @click.option(
        "--busy",
        type=click.IntRange(1, 99),
        default=round(100 * BUSY),
        show_default=True,
        help="What the fixed load takes of the CPUs when it is alone, in per cent.",
    )
    @click.option(
        "--clients", type=click.IntRange(1), default=BLOCK_PROBE.clients, show_default=True, help="If saturating."
    )
    @functools.wraps(command)
    def run(*arguments: Any, loads: tuple[str, ...], names: tuple[str, ...], busy: int, **options: Any) -> None:
        sent = Sent(busy=busy / 100, **{name: options.pop(name) for name in Sent._fields if name != "busy"})
        measured = {name: options.pop(name) for name in ("counts", "repeats", "first", "maximum")}
        conditions = tuple(CONDITIONS[name] for name in names)
        its = Asked(loads=loads or tuple(WARMUP), conditions=conditions, sent=sent, **measured)
        earliest = 0 - min(sent.before(load) for load in its.loads)
        if sent.come is not None and not earliest <= sent.come < sent.duration:
            raise click.UsageError(
                f"--come {sent.come:g}: accepted is a time within the load, from {earliest:g} to before "
                f"{sent.duration:g}"
            )
        command(*arguments, asked=its, **options)

    return run


def system_of(up: Path | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Say what is measured: a network that is ``up`` in a folder, or one that is brought up by these ``LabOptions``.

    Of real Fabric its peer is told by a digest, not by where it is.
    """
    if up is not None:
        network = load_network(up / "network.json")
        nodes = [node.name for node in network.nodes]
        return {"up": str(up.resolve()), "network": [network.mode, network.consenter, *network.channels, *nodes]}
    binaries: Path | None = options.get("binaries")
    peer = binaries and hashlib.sha256((binaries / "bin" / "peer").read_bytes()).hexdigest()
    return {**options, "binaries": peer}


def hold_to(directory: Path, figures: Sequence[str], sent: Sent, system: Mapping[str, Any]) -> None:
    """Keep what a folder's repeats are: their figures, what is sent, and to which system.

    UsageError: it has repeats of others, and figures of both would be pooled.
    """
    kept = directory / KEPT
    now = json.loads(json.dumps({"loads or conditions": sorted(figures), **sent._asdict(), **system}))
    if not kept.exists():
        kept.write_text(json.dumps(now) + "\n", encoding="utf-8")
        return
    known = json.loads(kept.read_text(encoding="utf-8"))
    if not isinstance(known, dict):  # an earlier version kept the figures alone
        raise click.UsageError(f"{directory} does not say of what its repeats are: name another --output")
    others = [name for name in {**known, **now} if known.get(name) != now.get(name)]
    if others:
        raise click.UsageError(f"{directory} has repeats of other {', '.join(others)}: name another --output")
