"""What nothing would read or judge in an experiment's file is refused before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from toy_experiment import load

from qioi.experiment.errors import SpecError


def problems(document: dict[str, Any], folder: Path) -> list[str]:
    """Give what an experiment is refused for, without its file's name."""
    with pytest.raises(SpecError) as caught:
        load(document, folder)
    return [problem.removeprefix(f"{folder / 'toy.yaml'}: ") for problem in caught.value.problems]


@pytest.mark.parametrize("system", ["replicas", "simulation"])
def test_replicas_have_neither_neighbours_nor_protection(document: dict[str, Any], tmp_path: Path, system: str) -> None:
    """A page would have compared arms between which nothing differs."""
    document["networks"] = {"few": {"system": system, "flags": {"replicas": 4}}}
    document["loads"] = {"all": {"driver": "bench"}}
    assert problems(document, tmp_path) == [
        f"arms.1.neighbours: 12: accepted are none beside network few, a {system}",
        f"arms.2.neighbours: 12: accepted are none beside network few, a {system}",
        f"arms.2.protection: adaptive: accepted is none of network few, a {system}",
    ]
    document["arms"], document["papers"] = document["arms"][:1], []
    assert load(document, tmp_path).arms[0].name == "alone"


CALIPER = {"driver": "caliper", "benchmark": "simple", "round": "transfer", "clients": 2}
#: A network and a load that drives it, by what does not read most of a ledger's keys.
BESIDE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "caliper": ({"chaincodes": ["simple"]}, CALIPER),
    "mysql": ({"system": "mysql", "chaincodes": ["kv"]}, {"rate": 30.0, "chaincode": "kv"}),
    "cassandra": ({"system": "cassandra", "nodes": 2, "chaincodes": ["kv"]}, {"rate": 30.0, "chaincode": "kv"}),
    "replicas": ({"system": "replicas", "flags": {"batch": 9}}, {"driver": "bench", "varied": 9.0}),
    "simulation": ({"system": "simulation", "paper_size": True}, {"driver": "bench", "flags": {"batch": 9}}),
}


@pytest.fixture
def alone(document: dict[str, Any]) -> dict[str, Any]:
    """One arm, which any system can have."""
    document["arms"], document["papers"] = document["arms"][:1], []
    document["timing"]["duration"] = 4.0
    return document


def laid_out(document: dict[str, Any], beside: str, place: str, more: dict[str, Any]) -> dict[str, Any]:
    network, load = BESIDE[beside]
    parts: dict[str, dict[str, Any]] = {"networks": {"one": {**network}}, "loads": {"all": {**load}}}
    for part in parts[place].values():
        part |= more
    return document | parts


@pytest.mark.parametrize("beside", BESIDE)
def test_what_is_read_is_accepted_and_so_are_defaults(alone: dict[str, Any], tmp_path: Path, beside: str) -> None:
    load(laid_out(alone, beside, "networks", {"title": "one", "orgs": 2, "mode": "stream"}), tmp_path)
    load(laid_out(alone, beside, "loads", {"title": "all", "queries": False}), tmp_path)


@pytest.mark.parametrize(
    ("beside", "key", "value", "said"),
    [
        *(("caliper", *one) for one in (("accounts", 9, "9"), ("value_size", 9, "9"), ("hot_keys", 9, "9"))),
        *(("caliper", *one) for one in (("hot_share", 0.5, "0.5"), ("read_share", 0.5, "0.5"), ("zipf", 0.5, "0.5"))),
        *(("caliper", *one) for one in (("burst", 9, "9"), ("fresh", "process", '"process"'), ("of", "own", '"own"'))),
        *(("caliper", *one) for one in (("queries", True, "true"), ("breakdown", True, "true"))),
        *(("caliper", *one) for one in (("consistency", "one", '"one"'), ("chaincode", "simple", '"simple"'))),
        *(("replicas", *one) for one in (("accounts", 9, "9"), ("benchmark", "simple", '"simple"'))),
        *(("replicas", *one) for one in (("round", "transfer", '"transfer"'), ("workload", "put", '"put"'))),
        ("simulation", "breakdown", True, "true"),
    ],
)
def test_a_load_that_has_what_its_driver_does_not_read_is_refused(
    alone: dict[str, Any], tmp_path: Path, beside: str, key: str, value: object, said: str
) -> None:
    driver, accepted = "bench", "title, driver, flags, varied"
    if beside == "caliper":
        driver, accepted = "caliper", "title, driver, benchmark, round, clients"
    document = laid_out(alone, beside, "loads", {key: value})
    expected = f"loads.all.{key}: {said}: driver {driver} does not read it: accepted are {accepted}"
    assert problems(document, tmp_path) == [expected]


@pytest.mark.parametrize(
    ("beside", "key", "value", "said"),
    [
        *((system, "orderers", 4, "4") for system in ("replicas", "simulation", "mysql", "cassandra")),
        *((system, "orgs", 4, "4") for system in ("replicas", "mysql", "cassandra")),
        *((system, "peers_per_org", 4, "4") for system in ("replicas", "mysql", "cassandra")),
        *((system, "consenter", "bft", '"bft"') for system in ("replicas", "mysql", "cassandra")),
        *((system, "mode", "block", '"block"') for system in ("replicas", "mysql", "cassandra")),
        *((system, "workers", 4, "4") for system in ("replicas", "mysql", "cassandra")),
        *((system, "runtime", "docker", '"docker"') for system in ("replicas", "mysql", "cassandra")),
        ("replicas", "store", "disk", '"disk"'),
        ("simulation", "chaincodes", ["kv"], '["kv"]'),
        ("simulation", "channels", ["alpha"], '["alpha"]'),
    ],
)
def test_a_network_that_has_what_its_system_does_not_read_is_refused(
    alone: dict[str, Any], tmp_path: Path, beside: str, key: str, value: object, said: str
) -> None:
    accepted = "title, system, flags, paper_size"
    if beside in ("mysql", "cassandra"):
        accepted = "title, system, nodes, store, channels, chaincodes, paper_size"
    document = laid_out(alone, beside, "networks", {key: value})
    expected = f"networks.one.{key}: {said}: system {beside} does not read it: accepted are {accepted}"
    assert problems(document, tmp_path) == [expected]


@pytest.mark.parametrize("flag", ["seed", "json", "warmup", "duration", "costs"])
@pytest.mark.parametrize(("place", "path"), [("networks", "networks.one"), ("loads", "loads.all")])
def test_a_flag_that_the_run_decides_is_refused(
    alone: dict[str, Any], tmp_path: Path, flag: str, place: str, path: str
) -> None:
    """The run's own would replace it, and the page would show this one."""
    document = laid_out(alone, "replicas", place, {"flags": {"batch": 9, flag: "60s"}})
    (problem,) = problems(document, tmp_path)
    assert problem.startswith(f"{path}.flags: ")
    assert f"{flag}: the run decides it, by its timing, its seed and its folder" in problem


def test_a_threshold_beside_tenants_is_refused(document: dict[str, Any], tmp_path: Path) -> None:
    document["networks"]["tiny"] = {"channels": ["alpha", "beta"]}
    document["loads"]["slow"] = {"tenants": {"alpha": {"part": 0.3, "threshold": 0.3}}}
    document["arms"][2]["protection"] = {"law": "adaptive", "threshold": 500.0}
    document["papers"] = []
    owed = "accepted is none beside load slow, whose tenants have thresholds of their own"
    assert problems(document, tmp_path) == [f"arms.2.protection.threshold: 500.0: {owed}"]
    del document["arms"][2]["protection"]["threshold"]
    load(document, tmp_path)


@pytest.mark.parametrize(
    ("consenter", "orderers", "accepted"),
    [("solo", 3, "1"), ("bft", 3, "4 to 9"), ("zyzzyva", 1, "4 to 9")],
)
def test_orderers_of_which_a_consenter_makes_no_network_are_refused(
    document: dict[str, Any], tmp_path: Path, consenter: str, orderers: int, accepted: str
) -> None:
    """Before anything starts: `qioi-ledger init` refuses them when it is their turn."""
    document["networks"]["tiny"] = {"consenter": consenter, "orderers": orderers}
    (problem,) = problems(document, tmp_path)
    assert problem.startswith("networks.tiny: ")
    assert f"orderers {orderers}: consenter {consenter} has {accepted}" in problem
    document["networks"]["tiny"]["orderers"] = int(accepted.split()[0])
    load(document, tmp_path)


def test_blocks_of_a_system_without_orderers_are_refused(alone: dict[str, Any], tmp_path: Path) -> None:
    document = laid_out(alone, "mysql", "networks", {"mode": "block", "messages": 10})
    assert [problem.split(":")[0] for problem in problems(document, tmp_path)] == [
        "networks.one.mode",
        "networks.one.messages",
    ]


def test_shares_by_hand_have_no_period(document: dict[str, Any], tmp_path: Path) -> None:
    document["arms"][2]["protection"] = {"shares": 5120, "period": 0.1}
    expected = "arms.2.protection.period: 0.1: protection by shares does not read it: accepted are shares"
    assert problems(document, tmp_path) == [expected]
    document["arms"][2]["protection"] = {"shares": 5120, "period": 1.0}
    load(document, tmp_path)


@pytest.mark.parametrize(
    ("key", "claim", "accepted"),
    [
        ("papers", {"metric": "throughput", "value": 1.2}, "none"),
        ("papers", {"metric": "goodput", "value": 1.2}, "none"),
        (
            "goals",
            {"metric": "p95", "most": 1.3},
            "a goal about goodput, neighbours.due, reaction, release, signatures",
        ),
    ],
)
def test_a_sentence_about_the_first_arm_says_of_what_its_ratio_is(
    document: dict[str, Any], tmp_path: Path, key: str, claim: dict[str, Any], accepted: str
) -> None:
    """It would have been "not measured" for ever."""
    document |= {"papers": [], "goals": [], key: [{"what": "x", "arm": "alone", **claim}]}
    assert problems(document, tmp_path) == [
        f"{key}.0.arm: alone: it is compared with no arm: without of, of_network and of_load accepted is {accepted}"
    ]
    load(document | {key: [{"what": "x", "arm": "alone", **claim, "of": "s1"}]}, tmp_path)
    for itself in ({"of": "alone"}, {"of_network": "tiny"}, {"of_load": "slow"}):
        compared = document | {key: [{"what": "x", "arm": "alone", **claim, **itself}]}
        said = "it is compared with itself: accepted is another arm, network or load to compare with"
        assert problems(compared, tmp_path) == [f"{key}.0.arm: alone: {said}"]


def test_a_goal_that_bounds_a_part_may_be_about_the_first_arm(document: dict[str, Any], tmp_path: Path) -> None:
    document["goals"] = [{"what": "x", "metric": "goodput", "arm": "alone", "least": 97.0}]
    assert load(document, tmp_path).goals[0].least == 97.0
