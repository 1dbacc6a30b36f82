"""`make demo-k8s`: the demo with the ledger as pods of a whole real node, from a clone of the repository.

The wheel does not contain it: manifests and the daemon's image are made from the source tree.
"""

from __future__ import annotations

from pathlib import Path

#: The source tree, and the folder of what is installed on a cluster.
SOURCE_TREE = Path(__file__).resolve().parents[3]
MANIFESTS = SOURCE_TREE / "deploy/k8s"
