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

    ``extra`` are further flags of ``qioi-ledger init``; ``binaries`` is the folder of a system
    that is not fetched; ``nodes`` is the number of a database's nodes.
    """

    orgs: int = 2
    peers_per_org: int = 2
    orderers: int = 3
    mode: str = "stream"
    consenter: str = "raft"
    base_port: int = 17_000
    channels: tuple[str, ...] = ("mychannel",)
    extra: tuple[str, ...] = ()
    runtime: Runtime = "process"
    system: str = "ledger"
    binaries: Path | None = None
    nodes: int | None = None

    def arguments(self) -> list[str]:
        """Format them as flags of ``qioi-ledger init``."""
        flags = {
            "--orgs": self.orgs,
            "--peers-per-org": self.peers_per_org,
            "--orderers": self.orderers,
            "--mode": self.mode,
            "--consenter": self.consenter,
            "--base-port": self.base_port,
        }
        spelled = [text for flag, value in flags.items() for text in (flag, str(value))]
        return [*spelled, *(text for channel in self.channels for text in ("--channel", channel)), *self.extra]
