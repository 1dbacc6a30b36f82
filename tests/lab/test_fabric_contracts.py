"""The order in which a contract of Fabric's is agreed to. What the peers print is of Fabric 2.5.16."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from qioi.lab.options import LabOptions
from qioi.lab.systems.fabric_contracts import Definition, define, unapproved
from qioi.lab.systems.fabric_shape import Peer, shape_of

SHAPE = shape_of(LabOptions(system="fabric", mode="block"))
DEFINITION = Definition(("--name", "kv"), "kv_1.0:abc")


def test_a_contract_is_committed_once_every_peer_has_heard_of_all_approvals() -> None:
    """As Fabric does, a peer hears of an approval a while after the peer that was asked to wait for it."""
    asked: Counter[str] = Counter()
    said: list[tuple[str, str]] = []

    def run(peer: Peer, arguments: Sequence[str]) -> str:
        command = arguments[2]
        asked[peer.name] += command == "checkcommitreadiness"
        heard = asked[peer.name] > peer.org + peer.number
        said.append((command, f"{peer.name} {heard}"))
        return json.dumps({"approvals": {"Org1MSP": True, "Org2MSP": heard}})

    define(run, DEFINITION, SHAPE, Path("/keys"))
    assert [where for what, where in said if what == "approveformyorg"] == ["peer0-org1 False", "peer0-org2 False"]
    assert [what for what, _ in said].index("checkcommitreadiness") == 2
    assert said[-1][0] == "commit"
    assert {f"{peer.name} True" for peer in SHAPE.peers} <= {where for what, where in said[:-1]}


def test_who_waits_for_a_block_waits_as_long_as_for_approvals() -> None:
    """Fabric's commands give up after 30 s of their own."""
    waits: dict[str, str] = {}

    def run(_peer: Peer, arguments: Sequence[str]) -> str:
        waits[arguments[2]] = dict(pairwise(arguments)).get("--waitForEventTimeout", "")
        return '{"approvals": {"Org1MSP": true, "Org2MSP": true}}'

    define(run, DEFINITION, SHAPE, Path("/keys"))
    assert waits == {"approveformyorg": "120s", "checkcommitreadiness": "", "commit": "120s"}


def test_each_peer_endorses_the_commit() -> None:
    last: list[str] = []

    def run(_peer: Peer, arguments: Sequence[str]) -> str:
        last[:] = arguments
        return '{"approvals": {"Org1MSP": true, "Org2MSP": true}}'

    define(run, DEFINITION, SHAPE, Path("/keys"))
    assert [last[i + 1] for i, word in enumerate(last) if word == "--peerAddresses"] == [
        peer.address for peer in SHAPE.peers
    ]
    assert last.count("--tlsRootCertFiles") == len(SHAPE.peers)


def test_who_has_not_approved_is_named() -> None:
    answer = '{\n\t"approvals": {\n\t\t"Org1MSP": true,\n\t\t"Org2MSP": false\n\t}\n}\n'
    assert unapproved(answer) == ["Org2MSP"]
