"""`qioi explain` over the socket of a real daemon."""

from __future__ import annotations

import json

import pytest
from running import Site, end
from waiting import until

pytestmark = pytest.mark.slow


def test_the_way_of_a_raise_from_input_to_level(site: Site) -> None:
    site.changes = {"channels": {"red": {"threshold": 1000, "law": "proportional", "ceiling": 2000}}}
    share = site.component("peer0")
    site.component("rival", role="client")
    process = site.start()
    site.commit_until(lambda: int(share.read_text()) == 2000)
    done = site.qioi("explain", "peer0", "--socket", str(site.socket), "--output", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["inputs"]["threshold"] == 1000
    assert 0 <= document["inputs"]["throughput"] < 1000  # zero on a host where asking takes longer than the window
    assert (document["law"], document["rule"]) == ("proportional", "raise")
    wanted = 1024 + 1024 * 4 * document["error"]
    assert document["clamp"] == {"floor": 1024, "ceiling": 2000, "wanted": pytest.approx(wanted), "bounded": True}
    assert document["step"] == pytest.approx(wanted - document["result"]["previous"])
    assert document["result"]["in_force"] == document["result"]["decided"] == 2000
    assert document["result"]["original"] == 1024
    own, parent = document["levels"]
    assert own["siblings"] == {"rival": 1024}
    assert own["part"] == pytest.approx(own["value"] / (own["value"] + 1024))
    assert parent["group"] == site.parent
    text = site.qioi("explain", "peer0", "-c", str(site.folder / "qioi.yaml")).stdout
    for word in ("channel red: A ", "T 1000.0 tps", "rule       proportional: raise", "1024..2000: bounded", "rival"):
        assert word in text
    assert end(process)[0] == 0


def test_a_component_that_nobody_raises(site: Site) -> None:
    site.component("peer0")
    site.component("rival", role="client")
    process = site.start()
    until(lambda: site.status()["totals"]["periods"] > 0)  # type: ignore[index]
    done = site.qioi("explain", "rival", "--socket", str(site.socket))
    assert done.returncode == 0, done.stderr
    assert "no law: -: no policy raises a client" in done.stdout
    assert end(process)[0] == 0


def test_an_unknown_component_is_answered_with_those_that_are_known(site: Site) -> None:
    site.component("peer0")
    process = site.start()
    done = site.qioi("explain", "peer9", "--socket", str(site.socket))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip() == "Error: component 'peer9': not watched: accepted are peer0"
    assert end(process)[0] == 0
