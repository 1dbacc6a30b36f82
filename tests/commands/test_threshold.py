"""`qioi threshold`: a channel's due, changed while the daemon runs."""

from __future__ import annotations

import json
import re
import signal
from typing import Any

import pytest
from running import Site, end
from waiting import until

pytestmark = pytest.mark.slow


def channel(site: Site) -> dict[str, Any]:
    document = site.status()
    assert document is not None
    found: dict[str, Any] = document["channels"][0]
    return found


def order(site: Site, name: str, tps: str) -> Any:
    return site.qioi("threshold", name, tps, "--socket", str(site.socket))


def test_a_new_threshold_is_in_force_in_the_next_period_and_survives_a_reload(site: Site) -> None:
    site.component("peer0")
    process = site.start()
    done = order(site, "red", "777.5")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "red: the threshold is 777.5 tps, from the next period on\n"
    until(lambda: (channel(site)["threshold"], channel(site)["source"]) == (777.5, "socket"))
    site.changes = {"period": 0.2}
    site.config()
    process.send_signal(signal.SIGHUP)
    until(lambda: site.status()["period"] == 0.2)  # type: ignore[index]
    assert channel(site)["threshold"] == 777.5
    site.changes = {"channels": {"red": {"threshold": 5}}}
    site.config()
    process.send_signal(signal.SIGHUP)
    until(lambda: (channel(site)["threshold"], channel(site)["source"]) == (5.0, "configuration"))
    assert end(process)[0] == 0


@pytest.mark.parametrize(
    ("name", "tps", "expected"),
    [
        ("blue", "5", "channel 'blue': not watched: accepted are red"),
        ("red", "0", "threshold '0': accepted is a number of transactions per second > 0, or auto"),
        ("red", "nan", "threshold 'nan': accepted is"),
        ("red", "1e999", "threshold '1e999': accepted is"),
    ],
)
def test_what_is_not_accepted_is_said(site: Site, name: str, tps: str, expected: str) -> None:
    site.component("peer0")
    process = site.start()
    done = order(site, name, tps)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {expected}")
    assert channel(site)["threshold"] in (None, 1000)
    assert end(process)[0] == 0


def test_a_learned_threshold_shows_its_evidence(site: Site) -> None:
    site.changes = {"channels": {"red": {"threshold": "auto"}}}
    site.component("peer0")
    process = site.start()
    site.commit_until(lambda: (channel(site)["evidence"] or {"samples": 0})["samples"] >= 2)
    assert (channel(site)["source"], channel(site)["threshold"]) == ("auto", None)
    said = site.qioi("status", "--socket", str(site.socket)).stdout
    assert re.search(r"learned from \d+ periods without waiting", said)
    explained = json.loads(
        site.qioi("explain", "peer0", "--socket", str(site.socket), "--output", "json").stdout
    )["inputs"]  # fmt: skip
    assert explained["threshold_source"] == "auto"
    assert 0 < explained["evidence"]["lowest"] <= explained["evidence"]["highest"]
    order(site, "red", "42")
    until(lambda: channel(site)["threshold"] == 42)
    order(site, "red", "auto")
    until(lambda: channel(site)["source"] == "auto")
    assert channel(site)["evidence"]["samples"] >= 2  # what was learned is not lost
    assert end(process)[0] == 0
