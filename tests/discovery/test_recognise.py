"""What a container is, told by its labels, rules and names."""

from __future__ import annotations

import pytest

from qioi.discovery.recognise import Recognised, Rule, organisation, recognise, repository, state_database
from qioi.model import Role

HASH = "0123456789abcdef" * 4


BUILT = {"org.hyperledger.fabric.chaincode.type": "GOLANG", "org.hyperledger.fabric.version": "2.5.16"}


@pytest.mark.parametrize(
    ("name", "image", "role"),
    [
        ("peer0.org1.example.com", "hyperledger/fabric-peer:2.5.16", Role.PEER),
        ("x1", "registry.example:5000/hyperledger/fabric-orderer@sha256:ab", Role.ORDERER),
        ("x1", "hyperledger/fabric-kafka:0.4", Role.BROKER),
        ("x1", f"dev-peer0.org1.example.com-basic_1.0-{HASH}-{HASH}:latest", Role.CHAINCODE),
        (f"dev-peer0.org1.example.com-mycc-1.0-{HASH}", "sha256:ab", Role.CHAINCODE),
        ("peer0org1_basic_ccaas", "basic_ccaas_image:latest", Role.CHAINCODE),
        ("dev-web-1", "node:20", None),
        ("fabric-peer", "somebody/fabric-peer:1", None),
        ("tools", "hyperledger/fabric-tools:2.5", None),
        ("ca", "hyperledger/fabric-ca:1.5", None),
        ("couchdb0", "hyperledger/fabric-couchdb:0.4", Role.SUPPORT),
        ("couchdb0", "couchdb:3.3", None),  # a component only where a peer names it
        ("load", "hyperledger/caliper:0.6", Role.CLIENT),
        ("succcaasful", "app:1", None),
    ],
)
def test_fabrics_own_names(name: str, image: str, role: Role | None) -> None:
    assert recognise(name, image, {}).role is role
    assert recognise(name, image, {}, fabric=False).role is None


@pytest.mark.parametrize("name", [f"prod-peer0.org1.example.com-basic_1.0-{HASH}", "renamed"])
def test_chaincode_that_a_peer_has_built_is_known_by_its_label(name: str) -> None:
    """Its name begins with the peer's `CORE_PEER_NETWORKID`, which is `dev` unless somebody sets it."""
    image = f"prod-peer0.org1.example.com-basic_1.0-{HASH}-{HASH}"
    assert recognise(name, image, BUILT) == Recognised(Role.CHAINCODE)
    assert recognise(name, image, BUILT, fabric=False) == Recognised()
    assert recognise(name, image, {**BUILT, "io.qioi.role": "client"}).role is Role.CLIENT
    assert recognise(name, image, {"org.hyperledger.fabric.version": "2.5.16"}) == Recognised()  # Fabric's other images


@pytest.mark.parametrize(
    ("text", "left_alone"), [("true", True), ("", True), ("1", True), ("false", False), ("0", False)]
)
def test_ignore_wins_over_everything(text: str, left_alone: bool) -> None:
    labels = {"io.qioi.ignore": text, "io.qioi.role": "peer"}
    assert (recognise("p0", "hyperledger/fabric-peer", labels).role is None) is left_alone


def test_best_effort_is_said_of_neighbours_alone() -> None:
    labels = {"io.qioi.best-effort": "true"}
    assert recognise("batch", "spark:3", labels) == Recognised(best_effort=True)
    assert recognise("batch", "spark:3", {"io.qioi.best-effort": "no"}) == Recognised()
    assert recognise("batch", "spark:3", {**labels, "io.qioi.ignore": ""}) == Recognised()
    component = recognise("p0", "hyperledger/fabric-peer:2.5", labels)
    assert (component.role, component.best_effort) == (Role.PEER, False)
    assert "is not made idle" in component.problems[0]


def test_a_label_wins_over_a_rule_and_a_rule_over_fabrics_names() -> None:
    rules = [Rule(Role.BROKER, image="hyperledger/*", channels=("red",)), Rule(Role.CLIENT)]
    assert recognise("p0", "hyperledger/fabric-peer:2.5", {}, rules) == Recognised(Role.BROKER, ("red",))
    labels = {"io.qioi.role": "orderer", "io.qioi.channel": "blue"}
    assert recognise("p0", "hyperledger/fabric-peer:2.5", labels, rules) == Recognised(Role.ORDERER, ("blue",))
    assert recognise("p0", "other", {}, rules).role is Role.CLIENT


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({"io.qioi.role": "king"}, "label io.qioi.role: 'king': accepted are peer, orderer"),
        ({"io.qioi.channel": "red,4 you"}, "label io.qioi.channel: '4 you': accepted are names of channels"),
        ({"io.qioi.channel": "red", "io.qioi.threshold": "-1"}, "label io.qioi.threshold: '-1': accepted is a number"),
        ({"io.qioi.channel": "red", "io.qioi.threshold": "nan"}, "label io.qioi.threshold: 'nan': accepted is"),
        ({"io.qioi.threshold": "5"}, "label io.qioi.threshold: no channel is named"),
    ],
)
def test_a_label_that_makes_no_sense_is_said_and_not_used(labels: dict[str, str], problem: str) -> None:
    found = recognise("p0", "hyperledger/fabric-peer:2.5", labels)
    assert found.role is Role.PEER
    assert found.threshold is None
    (said,) = found.problems
    assert said.startswith(problem)


def test_a_port_is_no_tag() -> None:
    assert repository("host:5000/a/b:1.2@sha256:00") == "host:5000/a/b"
    assert repository("host:5000/a/b") == "host:5000/a/b"


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({}, None),
        ({"CORE_LEDGER_STATE_STATEDATABASE": "goleveldb"}, None),
        ({"CORE_LEDGER_STATE_STATEDATABASE": "CouchDB"}, "127.0.0.1:5984"),
        (
            {"CORE_LEDGER_STATE_STATEDATABASE": "CouchDB", "CORE_LEDGER_STATE_COUCHDBCONFIG_COUCHDBADDRESS": "c0"},
            "c0:5984",
        ),
        (
            {"CORE_LEDGER_STATE_STATEDATABASE": "CouchDB", "CORE_LEDGER_STATE_COUCHDBCONFIG_COUCHDBADDRESS": "c0:7984"},
            "c0:7984",
        ),
    ],
)
def test_a_peer_names_its_state_database(environment: dict[str, str], address: str | None) -> None:
    assert state_database(environment) == address


@pytest.mark.parametrize(
    ("name", "labels", "environment", "its"),
    [
        ("peer0.org1.example.com", {}, {}, "org1.example.com"),
        ("peer0.org1.example.com", {}, {"CORE_PEER_LOCALMSPID": "Org1MSP"}, "Org1MSP"),
        ("peer0", {"io.qioi.organisation": " bank "}, {"CORE_PEER_LOCALMSPID": "Org1MSP"}, "bank"),
        ("peer0", {}, {}, ""),
    ],
)
def test_whose_a_component_is(name: str, labels: dict[str, str], environment: dict[str, str], its: str) -> None:
    assert organisation(name, labels, environment) == its
