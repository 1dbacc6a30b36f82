"""What the code of an experiment was when its kept run was made, and whether it is still that.

`make figures` looks the commit of a run up in Git's history and keeps the digest of what the experiment depends on in
docs/figures/runs.json. From then on no history is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from published import code
from published.rooms import BESIDE_FABRIC, DAEMON, NO_PERF, ledger, site
from qioi.experiment.plan import Plan
from qioi.experiment.summary import Summary
from qioi.experiment.system import BENCHED

#: What measures, without what keeps, judges and draws.
RUNNER = (
    *("qioi/experiment", "qioi/processes", "interference"),
    ":(exclude)qioi/experiment/catalogue",
    *(f":(exclude)qioi/experiment/{name}.j2" for name in ("index.html", "report.html", "style.css")),
    *(
        f":(exclude)qioi/experiment/{name}.py"
        for name in (
            *("catalogue", "charts", "errors", "excerpt", "index", "method", "page", "run_files"),
            *("standard", "store", "summary", "tables", "verdicts"),
        )
    ),
    # What samples groups and threads, and the kernel's files below that.
    *("monitor/scheduler", "qioi/kernel", "qioi/model"),
)
#: Replicas without a ledger, and their simulation.
REPLICAS = tuple(
    f"ledger/internal/{part}" for part in ("bftbench", "framed", "orderer/consensus/bft", "wire", "durable")
)


class Kept(Struct, frozen=True, forbid_unknown_fields=True):
    """What a run depended on: its commit, Git's path specifications, and the digest of what they name there."""

    commit: str
    paths: tuple[str, ...]
    digest: str


class RunCode:
    """Knows what the runs that ``file`` has were made by."""

    def __init__(self, root: Path, file: Path) -> None:
        self._root = root
        self.file = file
        self._kept: dict[str, Kept] = (
            msgspec.json.decode(file.read_bytes(), type=dict[str, Kept]) if file.exists() else {}
        )

    def has_changed(self, summary: Summary) -> bool:
        """Whether a run's code has changed since; ValueError: it is not known what it was (`make figures`)."""
        known = self._find(summary)
        if known is None:
            name, commit = summary.spec.name, commit_of(summary)
            raise ValueError(f"{self.file.name}: the code of {name} at {commit} is not known yet: make figures")
        return code.digest(self._root, known.paths) != known.digest

    def learn(self, summaries: Iterable[Summary]) -> bool:
        """Look up what is not known in Git's history, and keep it; ``True``: there was such a run."""
        kept = {one.spec.name: self._find(one) or self._look_up(one) for one in summaries}
        if kept == self._kept:
            return False
        self._kept = kept
        self.file.write_bytes(msgspec.json.format(msgspec.json.encode(dict(sorted(kept.items()))), indent=1) + b"\n")
        return True

    def _find(self, summary: Summary) -> Kept | None:
        """Give what is known of a run; what is of an earlier one, or of other paths, is not."""
        known = self._kept.get(summary.spec.name)
        return known if known and (known.commit, known.paths) == (commit_of(summary), depends(summary.plan)) else None

    def _look_up(self, summary: Summary) -> Kept:
        commit, paths = commit_of(summary), depends(summary.plan)
        return Kept(commit, paths, code.digest_at(self._root, commit, paths))


def commit_of(summary: Summary) -> str:
    """Name the commit that a run was made of."""
    return summary.document.host.versions["commit"]


def depends(plan: Plan) -> tuple[str, ...]:
    """Give the path specifications of what a plan's figures depend on."""
    systems: set[str] = {cell.network.system for cell in plan.cells}
    benched = set(BENCHED)
    ways = {cell.network.consenter for cell in plan.cells if cell.network.system == "ledger"}
    found = [*RUNNER, *site(systems | ways)]
    if any(cell.arm.protection and cell.arm.protection.law for cell in plan.cells):
        found += (path for path in DAEMON if path not in found)
    if any(cell.timing.profile for cell in plan.cells):
        found = [path for path in found if path != NO_PERF]
        found += ["monitor/profile"] if "monitor" not in found else []
    if systems & benched:
        found += REPLICAS
    if "ledger" in systems:
        found += ledger(ways)
    elif systems - benched:
        found += BESIDE_FABRIC
    if any(cell.load.driver == "caliper" for cell in plan.cells):
        found += ["caliper-configs"]
    return tuple(found)
