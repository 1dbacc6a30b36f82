"""A real daemon over logs that lie: one tenant's cannot move another's shares, and nobody's passes the bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from commit_line import commit_line
from running import Site, end
from waiting import until

pytestmark = pytest.mark.slow

CEILING = 3000


def channel(site: Site, name: str) -> dict[str, Any]:
    status = site.status()
    assert status is not None
    return next(one for one in status["channels"] if one["name"] == name)


def test_a_log_that_forges_commits_moves_nobody_elses_shares_and_its_own_within_bounds(site: Site) -> None:
    shares: dict[str, Path] = {}
    logs: dict[str, Path] = {}
    for name in ("red", "blue"):
        shares[name], logs[name] = site.component(f"{name}-peer"), site.folder / f"{name}.log"
        logs[name].touch()
        site.components[-1] |= {"channels": [name], "log": str(logs[name])}
    site.changes = {"channels": {name: {"threshold": 1000, "law": "proportional", "ceiling": CEILING} for name in logs}}
    process = site.start()
    block = 0

    def step(forged: bool) -> dict[str, int]:
        """Red commits honestly and far too little; give both shares."""
        nonlocal block
        block += 1
        with logs["red"].open("a") as log:
            log.write(commit_line("red", block, 1))
        with logs["blue"].open("a") as log:
            log.write(commit_line("blue", block, 1))
            if forged:  # it says that red has all that it is owed, and of itself whatever brings it most
                for spoilt in ((block + 1_000_000, 10**6), (block, 10**6), (1, 2**64 - 1)):
                    log.write(commit_line("red", *spoilt))
                log.write(commit_line("blue", 2 * block + 10**9, 0) + commit_line("blue", block, 0))
        return {name: int(share.read_text()) for name, share in shares.items()}

    until(lambda: set(step(forged=False).values()) == {CEILING}, pause=0.05)
    height, periods = channel(site, "red")["height"], (site.status() or {})["totals"]["periods"]

    def lied_to() -> bool:
        found = step(forged=True)
        assert found["red"] == CEILING
        assert 1024 <= found["blue"] <= CEILING
        assert channel(site, "red")["throughput"] < 1000
        return bool((site.status() or {})["totals"]["periods"] >= periods + 100)

    until(lied_to, pause=0.05)
    assert height < channel(site, "red")["height"] <= block
    sources = {one["component"]: one for one in (site.status() or {})["sources"]}
    assert sum(sources["blue-peer"]["skipped"].values()) > 0
    assert sources["red-peer"]["skipped"] == {}
    assert end(process)[0] == 0
    assert {int(share.read_text()) for share in shares.values()} == {1024}
