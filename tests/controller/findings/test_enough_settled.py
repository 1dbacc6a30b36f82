"""What is enough, in a closed loop: shares settle at what outweighs the neighbours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from toy_daemon import ToySite, peer
from toy_host import ToyHost

from qioi.controller.findings.just_enough import AMPLE, RATIO


def settled(folder: Path, hogs: int) -> tuple[list[int], float]:
    """Run a ledger for two minutes beside hogs that weigh 100 each; give the last minute's weights, and what it did."""
    parts = {"peer0": 0.5, "orderer0": 0.2, "cc0": 0.3}
    site = ToySite(folder, [peer(one, f"g/{one}") for one in parts], channels={"red": {"threshold": 100}})
    host = ToyHost(demand=parts, hogs=hogs)
    site.toy.siblings = {"g": {f"g/hog{one}": 100 for one in range(hogs)}}
    weights, done = [], []
    for _ in range(120):
        shares = {name: site.weight(f"g/{name}") * 1024 // 100 for name in parts}
        delays, load, served = host.period(shares)
        site.toy.host, site.toy.tps = load, {"red": 100 * min(1.0, served)}
        site.toy.waits = {name: (one.run, one.wait) for name, one in delays.items()}
        site.run(1)
        weights.append(site.weight("g/peer0"))
        done.append(served)
    return weights[60:], sum(done[60:]) / 60


@pytest.mark.parametrize("hogs", [4, 8, 16])
def test_in_a_closed_loop_shares_settle_at_what_the_neighbours_weigh(tmp_path: Path, hogs: int) -> None:
    weights, served = settled(tmp_path, hogs)
    on_one = max(1.0, hogs / (os.cpu_count() or 1))
    (weight,) = set(weights)
    assert RATIO * on_one * 100 <= weight <= min(1600, round(AMPLE * on_one * 100))
    assert served > 0.98
