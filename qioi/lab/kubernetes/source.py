"""The source tree: manifests and the daemon's image are made of it, and an installed package does not hold it."""

from __future__ import annotations

from pathlib import Path

import qioi
from qioi.processes.errors import LabError


def source_tree() -> Path:
    """Give the folder that this package runs from. LabError where it was installed without one."""
    root = Path(qioi.__file__).resolve().parents[1]
    if not (root / "deploy/k8s").is_dir():
        raise LabError(
            f"the ledger's pods and images are made of QiOi's source tree, and {root} is none: "
            "run `make demo-k8s` in a clone"
        )
    return root


def manifests() -> Path:
    """Give the folder of what is installed on a cluster. LabError as above."""
    return source_tree() / "deploy/k8s"
