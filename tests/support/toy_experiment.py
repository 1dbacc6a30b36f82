"""A small experiment, and results as a run of it would have left them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from qioi.experiment import catalogue
from qioi.experiment.condense import CellFigures
from qioi.experiment.plan import Plan
from qioi.experiment.spec import ExperimentSpec
from qioi.experiment.store import Store

DOCUMENT: dict[str, Any] = {
    "name": "toy",
    "title": "A toy",
    "paper": "none",
    "question": "Does it work?",
    "networks": {"tiny": {"orgs": 1, "peers_per_org": 1, "orderers": 1, "consenter": "solo"}},
    "loads": {"slow": {"rate": 30.0}},
    "arms": [
        {"name": "alone", "title": "alone"},
        {"name": "s1", "title": "{n} sysbench", "neighbours": {"sysbench": 12}, "against": "alone"},
        {
            "name": "qioi",
            "title": "{n} sysbench, QiOi",
            "neighbours": {"sysbench": 12},
            "protection": {"law": "adaptive"},
            "against": "s1",
        },
    ],
    "timing": {"warmup": 0.5, "duration": 2.0, "sample": 0.2},
    "figures": [
        {"kind": "table", "title": "In figures", "metrics": ["throughput", "p95", "neighbours.due"]},
        {"kind": "bars", "title": "Bars", "metrics": ["throughput", "neighbours.work"]},
        {"kind": "lines", "title": "Lines", "metrics": ["throughput", "p95"], "log": True},
        {"kind": "time", "title": "Over time", "metrics": ["throughput", "shares"]},
        {"kind": "stack", "title": "Stages", "metrics": ["stage.endorse", "stage.commit"]},
    ],
    "papers": [{"what": "+20 %", "metric": "throughput", "arm": "qioi", "value": 1.2}],
}


def load(document: dict[str, Any], folder: Path) -> ExperimentSpec:
    path = folder / "toy.yaml"
    path.write_text(yaml.safe_dump(document))
    return catalogue.load(path)


#: The media of networks that stand nowhere.
NOWHERE: Mapping[str, str] = {}
HOST: dict[str, Any] = {
    "cpu": "a <CPU>",
    "cores": 2,
    "memory_gib": 1.0,
    "kernel": "6.18",
    "cgroup_version": 1,
    "cgroup_hierarchies": "v1",
    "cgroup_mode": "-",
    "hypervisor": True,
    "load_average": [0.0, 0.0, 0.0],
    "pressure": {"cpu": "some avg10=0.00"},
    "versions": {"qioi": "0"},
    "seed": 1,
    "at": "now",
}


def figures(key: str, throughput: float, **more: float) -> CellFigures:
    metrics = {"throughput": throughput, "p95": 10.0, "ledger.cores": 1.0, "client.cores": 0.2, **more}
    metrics |= {"stage.endorse": 1.0, "stage.commit": 2.0}
    series = {"throughput": {"ledger": ((0.0, throughput), (1.0, throughput))}, "shares": {"peer": ((0.0, 1024.0),)}}
    return CellFigures(key, metrics, series, "events/s" if "neighbours.work" in more else "", 0.0)


def filled(store: Store, plan: Plan, rows: list[dict[str, CellFigures]], media: Mapping[str, str] = NOWHERE) -> None:
    """Write a run as a session would, with these figures for its repeats."""
    store.begin(plan, media, HOST)
    for number, cells in enumerate(rows, 1):
        store.folder(number).mkdir(parents=True)
        store.finish(number, cells, judged=True)


def row(alone: float, beside: float, qioi: float, steal: float = 0.0) -> dict[str, CellFigures]:
    disturbed = {"neighbours.work": 100.0, "neighbours.cores": 0.4}
    cells = (
        figures("tiny.slow.alone", alone, steal=steal),
        figures("tiny.slow.s1", beside, **disturbed),
        figures("tiny.slow.qioi", qioi, **disturbed),
    )
    return {cell.key: cell for cell in cells}
