"""Ordering by replicas of which some may lie, as `qioi lab` shows it."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner
from node_names import named
from waiting import until

from qioi.commands.lab import command
from qioi.lab.lab import Lab
from qioi.lab.options import LabOptions
from qioi.lab.replica import Replica, replicas
from qioi.model import Role

PAGE = """\
# TYPE consensus_BFT_view gauge
consensus_BFT_view{channel="one"} 3
consensus_BFT_active{channel="one"} 1
consensus_BFT_applied{channel="one"} 1.234567e+06
consensus_BFT_stable{channel="one"} 1234560
consensus_BFT_window{channel="one"} 7
consensus_BFT_suspicions{channel="one"} 2
consensus_BFT_view{channel="two"} 0
consensus_BFT_news{channel="two"} 9
consensus_etcdraft_is_leader{channel="one"} 1
"""


def test_replicas_are_read_by_channel() -> None:
    one = Replica(view=3, active=1, applied=1_234_567, stable=1_234_560, window=7, suspicions=2)
    assert replicas(PAGE) == {"one": one, "two": Replica()}
    assert str(one) == "view 3, applied 1234567, stable 1234560, window 7, pending 0, suspicions 2"
    assert str(Replica()).startswith("view 0 (not begun), ")
    assert replicas("") == {}


def shown_replicas(lab: Lab) -> dict[str, dict[str, dict[str, int]]]:
    asked = CliRunner().invoke(command, ["status", "--dir", str(lab.directory), "--output", "json"])
    return {entry["name"]: entry["replicas"] for entry in json.loads(asked.output)}


@pytest.mark.slow
def test_status_says_where_replicas_stand(lab: Lab, base_port: int) -> None:
    options = LabOptions(peers_per_org=1, orderers=4, consenter="bft", base_port=base_port, volatile_votes=True)
    network = lab.up(options, say=lambda line: None)
    assert "VOTES ARE NOT DURABLE" in (lab.directory / "log" / "orderer1.log").read_text()
    shown = CliRunner().invoke(command, ["status", "--dir", str(lab.directory)])
    assert shown.exit_code == 0, shown.output
    for orderer in named(network, Role.ORDERER):
        # A busy host may have had them change the view.
        assert re.search(rf"{orderer} mychannel: view \d+( \(not begun\))?, applied ", shown.output), shown.output
    found: dict[str, dict[str, dict[str, int]]] = {}

    def active() -> int:
        found.update(shown_replicas(lab))
        return found["orderer1"].get("mychannel", {}).get("active", 0)

    until(active, what="a view has begun")
    assert found["peer0-org1"] == {}
    assert lab.down()
