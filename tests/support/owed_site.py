"""A loop over two components of a channel that is far below what it is owed."""

from __future__ import annotations

from pathlib import Path

from toy_daemon import ToySite, peer

#: T is far above what is committed: `proportional` then wants 4 times its default, and a bit.
OWED = {"red": {"threshold": 100, "law": "proportional"}}


def make(folder: Path, **channels: dict[str, object]) -> ToySite:
    site = ToySite(folder, [peer("peer0", "docker/p"), peer("orderer0", "docker/o", role="orderer")],
                   channels={**OWED, **channels})  # fmt: skip
    site.toy.tps = {"red": 25.0}
    return site


OUTSIDE = {"": 2.0, "docker": 0.2, "docker/p": 0.1, "docker/o": 0.1}
