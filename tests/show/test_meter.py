"""Metrics are asked for by another thread than the loop's, at any moment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace
from toy_daemon import ToySite, peer

from qioi.monitor.commits.sources import SourceState
from qioi.show.metrics import Meter
from qioi.show.snapshot import Snapshot


def ages(meter: Meter) -> set[str]:
    return {sample.labels["component"] for family in meter.collect() for sample in family.samples}


def test_no_scrape_sees_half_of_the_inputs(tmp_path: Path) -> None:
    meter, seen = Meter(), []

    class Sources(tuple[SourceState, ...]):
        """Has a scrape come while the loop is at the second of them."""

        def __iter__(self) -> Iterator[SourceState]:
            for one in super().__iter__():
                yield one
                seen.append(ages(meter))

    snapshot: Snapshot = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}}).run(1)
    sources = Sources(SourceState(name, name, None, 0, 0, 0) for name in ("a", "b", "c"))
    for periods in (1, 2):
        totals = replace(snapshot.totals, periods=periods)
        meter.observe(replace(snapshot, sources=sources, totals=totals))
    assert seen == [set()] * 3 + [{"a", "b", "c"}] * 3
