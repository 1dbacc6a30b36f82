"""All that the loop reads the host with, in one value."""

from __future__ import annotations

from dataclasses import dataclass, field

from qioi.best_effort import BestEffort
from qioi.capping import Capper
from qioi.host import HostWatch
from qioi.kernel_files import KernelFiles
from qioi.slicing import AnySlicer
from qioi.sources import Channels, Delays
from qioi.stalls import StallWatch
from qioi.usage import LevelWatch


@dataclass(frozen=True, slots=True)
class Instruments:
    """Each is read once a period, in this order. ``kept`` are groups that a daemon before this one has left raised."""

    channels: Channels
    delays: Delays
    host: HostWatch
    stalls: StallWatch
    levels: LevelWatch
    capper: Capper
    slicer: AnySlicer
    best_effort: BestEffort
    files: KernelFiles = field(default_factory=KernelFiles)  # swept after all of them
    kept: tuple[str, ...] = ()
