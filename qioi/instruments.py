"""All that the loop reads the host with, in one value."""

from __future__ import annotations

from dataclasses import dataclass

from qioi.best_effort import BestEffort
from qioi.capping import Capper
from qioi.host import HostWatch
from qioi.slicing import AnySlicer
from qioi.sources import Channels, Delays
from qioi.stalls import StallWatch
from qioi.usage import LevelWatch


@dataclass(frozen=True, slots=True)
class Instruments:
    """Each is read once a period, in this order."""

    channels: Channels
    delays: Delays
    host: HostWatch
    stalls: StallWatch
    levels: LevelWatch
    capper: Capper
    slicer: AnySlicer
    best_effort: BestEffort
