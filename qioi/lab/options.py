"""What a lab is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

#: How a lab's programs run: as processes, or as containers of a real engine.
Runtime = Literal["process", "docker"]
RUNTIMES: tuple[Runtime, ...] = ("process", "docker")


@dataclass(frozen=True, slots=True)
class LabOptions:
    """The network's size and kind, and how it runs.

    Of the bundled ledger, with ``sequencer_memory`` a sequencer answers before its log is on disk, with
    ``volatile_votes`` votes leave before they are on disk, and with ``like_fabric`` nodes run as Fabric's own do.
    ``extra`` are further flags of ``qioi-ledger init``; ``binaries`` is the folder of a system that is not fetched;
    ``nodes`` is the number of a database's nodes.
    """

    orgs: int = 2
    peers_per_org: int = 2
    orderers: int = 3
    mode: str = "stream"
    consenter: str = "raft"
    base_port: int = 17_000
    channels: tuple[str, ...] = ("mychannel",)
    sequencer_memory: bool = False
    volatile_votes: bool = False
    like_fabric: bool = False
    extra: tuple[str, ...] = ()
    runtime: Runtime = "process"
    system: str = "ledger"
    binaries: Path | None = None
    nodes: int | None = None
