"""The open loop of bench_laws.py: a load that takes a given part of the CPUs, which each repeat looks for anew.

A part of the maximum would be another load on each host and day: a transaction costs the more CPU time the fewer there
are, so that 60 % of the maximum took from 65 to 94 % of two CPUs. A load that was found once is another one an hour
later: where a host's speed changes, the same 2,170 tps took 78, 82 and 95 % (docs/notes/2026-11-23-load.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from qioi.lab.arms import PROBE_SECONDS

#: The part of the host's CPUs that ledger and client take when they are alone, unless another one is asked for.
BUSY = 0.7
#: Looks of a repeat at the most; one that takes the CPUs that are sought, to this part of them, is the last.
LOOKS, NEAR = 3, 0.05
#: Seconds of a look, before and in what is measured.
LOOK_WARMUP, LOOK = 3.0, 6.0
#: Seconds in which sysbench's own speed is measured, and those before that do not count.
OWN_SPEED, OWN_SETTLE = 6.0, 1.5


@dataclass(frozen=True)
class Found:
    """A repeat's load in tps, the looks that found it (rates in tps, and the CPUs that each took), and what was sought.

    ``busy`` is a part of the host's CPUs.
    """

    tps: float
    looks: Sequence[tuple[float, float]]
    busy: float = BUSY


def look_for_load(took: Callable[[float], float], first: float, cores: int, busy: float = BUSY) -> Found:
    """Find the rate in tps, to ten, that takes ``busy`` of ``cores`` CPUs; ``took`` says how many a rate takes.

    ``first`` is looked at first: the last repeat's load, or a guess.
    """
    rate, looks = max(10.0, round(first, -1)), []
    sought = busy * cores
    for _ in range(LOOKS):
        looks.append((rate, took(rate)))
        part = looks[-1][1] / sought
        if abs(part - 1.0) <= NEAR:
            break
        rate = max(10.0, round(rate / part, -1))
    return Found(rate, looks, busy)


def file_of(directory: Path, repeat: int) -> Path:
    """Name the file that keeps a repeat's load."""
    return directory / f"rate-repeat{repeat}.json"


def keep_load(found: Found, directory: Path, repeat: int) -> None:
    """Write a repeat's load."""
    file_of(directory, repeat).write_text(json.dumps(asdict(found)) + "\n", encoding="utf-8")


def kept_load(directory: Path, repeat: int) -> Found | None:
    """Read a repeat's load; ``None`` if it was not looked for."""
    file = file_of(directory, repeat)
    if not file.exists():
        return None
    document = json.loads(file.read_text(encoding="utf-8"))
    looks = [(float(rate), float(cpus)) for rate, cpus in document["looks"]]
    return Found(float(document["tps"]), looks, float(document["busy"]))


def spell_load(found: Found, repeat: int, cores: int) -> str:
    """Say what a repeat's load is, and what its looks took."""
    looks = ", ".join(f"{rate:.0f} tps took {100 * cpus / cores:.0f} %" for rate, cpus in found.looks)
    return f"Repeat {repeat}: {found.tps:.0f} tps; of the CPUs, {looks}."


@dataclass(frozen=True)
class Lengths:
    """Seconds of what a run consists of.

    ``cells`` are those of each condition, "alone" among them, by load; ``look`` those of one look for the fixed load.
    """

    cells: dict[str, float]
    look: float


def estimate(lengths: Lengths, conditions: int, counts: int, repeats: int, *, probe: bool) -> float:
    """Give the seconds of a run, if every repeat takes all its looks.

    ``conditions`` are compared beside each of ``counts`` numbers of sysbench, whose own speed is measured too.
    ``probe``: the maximum is looked for.
    """
    measured = (counts * conditions + 1) * sum(lengths.cells.values())
    looks = LOOKS * lengths.look if "fixed" in lengths.cells else 0.0
    return repeats * (measured + looks + counts * (OWN_SETTLE + OWN_SPEED)) + (PROBE_SECONDS if probe else 0.0)
