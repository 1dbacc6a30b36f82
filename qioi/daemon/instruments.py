"""The instruments that read the host, and the levers beside shares, in one value."""

from __future__ import annotations

from dataclasses import dataclass, field

from qioi.controller.best_effort import BestEffort
from qioi.controller.levels.cap import Capper
from qioi.controller.slicing import AnySlicer
from qioi.daemon.level_watch import LevelWatch
from qioi.kernel.files import KernelFiles
from qioi.monitor.commits.sources import Channels
from qioi.monitor.scheduler.delays import Delays
from qioi.monitor.scheduler.host import HostWatch
from qioi.monitor.scheduler.stalls import StallWatch


@dataclass(frozen=True, slots=True)
class Instruments:
    """What the loop reads, once a period and in this order, and what it moves beside shares."""

    channels: Channels
    delays: Delays
    host: HostWatch
    stalls: StallWatch
    levels: LevelWatch
    capper: Capper
    slicer: AnySlicer
    best_effort: BestEffort
    files: KernelFiles = field(default_factory=KernelFiles)  # swept at the end of a period

    @property
    def clean(self) -> bool:
        """Whether every slice and every idle group was put back at the end."""
        return self.slicer.clean and self.best_effort.clean
