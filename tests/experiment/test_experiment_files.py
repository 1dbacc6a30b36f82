"""What an experiment's file may say, and that every problem of it is said at once."""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_experiment import load

from qioi.commands.experiment import Asked, plan_of
from qioi.experiment import catalogue
from qioi.experiment.errors import SpecError
from qioi.experiment.summary import ABSOLUTE
from qioi.experiment.system import CONTRACTS, WORKLOADS
from qioi.lab.network import find_binary

CALIPER = {"driver": "caliper", "benchmark": "simple", "round": "transfer", "clients": 2}


def refusal(document: dict[str, Any], folder: Path) -> str:
    """Give the only problem for which an experiment is refused."""
    with pytest.raises(SpecError) as caught:
        load(document, folder)
    (problem,) = caught.value.problems
    return problem


def test_every_experiment_of_the_papers_is_there_and_right() -> None:
    names = catalogue.names()
    assert len(set(names)) == len(names)
    papers = {catalogue.find(name).paper for name in names}
    for figure in (
        "Tables 2 and 3",
        "Fig. 3",
        "Fig. 4 and 7",
        "Fig. 6 and Table 4",
        "Fig. 8",
        "Fig. 9",
        "Fig. 10",
        "Fig. 11",
    ):
        assert f"QiOi, {figure}" in papers
    assert {"QiOi, Fig. 12", "QiOi, Table 5"} <= papers
    assert {f"StreamChain, Fig. {number}" for number in (*range(5, 9), 10)} <= papers
    assert {f"ResilientDB, Fig. {number}" for number in (1, *range(7, 18))} <= papers
    assert {"tenants", "comes_and_goes", "quotas", "laws", "block_stream", "protect_ordering"} <= set(names)


def test_every_arm_but_the_first_is_paired() -> None:
    for name in catalogue.names():
        spec = catalogue.find(name)
        assert spec.repeats >= 3
        assert all(arm.against for arm in spec.arms[1:])


@pytest.mark.parametrize("name", catalogue.names())
def test_what_a_paper_says_is_not_about_a_law_of_our_own(name: str) -> None:
    """None of the papers has the law adaptive: what it is to reach are goals."""
    spec = catalogue.find(name)
    protections = [arm.protection for one in spec.papers for arm in spec.arms if arm.name == one.arm]
    assert "adaptive" not in [one.law for one in protections if one is not None]


@pytest.mark.parametrize("name", catalogue.names())
def test_throughput_in_blocks_is_judged_with_more_than_one_block_under_way(name: str) -> None:
    spec = catalogue.find(name)
    for one in (one for one in spec.papers if one.metric == "throughput"):
        clients = spec.loads[one.load or next(iter(spec.loads))].clients
        for network in (spec.networks[title] for title in (one.network, one.of_network) if title):
            if clients is not None and network.mode == "block" and network.messages is not None:
                assert clients >= 2 * network.messages, one.what


def test_negligible_failures_are_a_bound_of_goodput_itself() -> None:
    """A ratio of two goodputs says that both are alike, not that both are good."""
    spec = catalogue.find("sc_fig_7")
    assert [one.metric for one in spec.papers if "negligible" in one.what] == []
    assert {one.metric for one in spec.goals} == {"goodput"} <= ABSOLUTE


def test_every_problem_is_said_at_once(document: dict[str, Any], tmp_path: Path) -> None:
    document["repeats"] = 2
    document["arms"][1]["against"] = "nobody"
    document["loads"]["slow"]["chaincode"] = "kv"
    document["figures"][0]["metrics"] = ["throughputt"]
    document["figures"][3]["metrics"] = ["p50"]
    document["papers"][0]["arm"] = "none"
    with pytest.raises(SpecError) as caught:
        load(document, tmp_path)
    text = str(caught.value)
    assert len(caught.value.problems) == 6
    for part in ("repeats", "nobody", "kv", "throughputt", "no series 'p50'", "papers.0.arm"):
        assert part in text
    assert all(problem.startswith(str(tmp_path / "toy.yaml")) for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("loads", "slow"), {"rate": 1.0, "clients": 3}, "exactly one of"),
        (("loads", "slow"), {}, "exactly one of"),
        (("loads", "slow"), {"driver": "caliper", "clients": 3}, "benchmark"),
        (("networks", "tiny"), {"messages": 3}, "mode block"),
        (("networks", "tiny"), {"mode": "blocks"}, "block"),
        (("networks", "tiny"), {"nodes": 3}, "nodes are of a database: cassandra, mysql, mariadb"),
        (("networks", "tiny"), {"system": "mysql"}, "system mysql has the chaincodes kv, scm only"),
        (("arms", 1, "neighbours"), {"sysbench": 1, "spark": 1}, "one kind"),
        (("arms", 1, "neighbours"), {"sysbench": 1, "come": 3.0}, "given together"),
        (("arms", 1, "neighbours"), {"sysbench": 1, "come": 1.0, "go": 30.0}, "go: 30: accepted is at most"),
        (("arms", 1, "neighbours"), {"quota": 0.5}, "need a neighbour"),
        (("arms", 1, "neighbours"), {"beside": "follower"}, "need a neighbour"),
        (("arms", 1, "neighbours"), {"bouts": 3.0}, "need a neighbour"),
        (("arms", 1, "neighbours"), {"programs": 3}, "programs and command are given together"),
        (("arms", 1, "neighbours"), {"sysbench": 1, "command": "sleep 9"}, "programs and command are given together"),
        (("arms", 1, "neighbours"), {"sysbench": 257}, "neighbours.sysbench: 257: accepted is at most 256"),
        (("arms", 1, "neighbours"), {"programs": 3, "command": "  "}, "accepted is a program and its arguments"),
        (("arms", 1, "neighbours"), {"programs": 3, "command": "sh -c 'x"}, "and its arguments: No closing quotation"),
        (("arms", 1, "neighbours"), {"spark": 1, "bouts": 3.0}, "not of spark"),
        (("arms", 1, "neighbours"), {"sysbench": 1, "records": 3}, "records are of spark"),
        (("networks", "tiny"), {"system": "fabric", "mode": "block", "like_fabric": True}, "of the system ledger"),
        (("arms", 2, "protection"), {"law": "adaptive", "shares": 5}, "exactly one of law and shares"),
        (("arms", 2, "protection"), {"shares": 5, "k": 4.0}, "of a law"),
        (("arms", 2, "nmae"), "x", "arms.2.nmae: unknown key: accepted are name, title, neighbours"),
        (("arms", 2, "name"), "../x", "small letters"),
        (("arms", 2, "name"), "s1", "there twice"),
        (("arms", 2, "against"), "s2", "arms.2.against: s2: accepted are those before: alone, s1"),
        (("arms", 2, "against"), None, "arms.2.against: missing: accepted are those before: alone, s1"),
        (("arms", 0, "against"), "s1", "arms.0.against: s1: accepted is none: the first arm"),
        (("timing", "duration"), 0.5, "at least one second"),
        (("timing", "profile"), 5.0, "up to the duration"),
        (("networks", "tiny", "channels"), ["a", "a"], "distinct names"),
        (("networks", "tiny", "channels"), ["My Channel"], "distinct names"),
        (("networks", "tiny", "chaincodes"), ["smalbank"], "accepted are fabcoin, kv, marbles, scm, simple, smallbank"),
        (("loads", "slow", "chaincode"), "marbles", "the driver load drives fabcoin, kv, scm, smallbank"),
        (("loads", "slow", "chaincode"), "kv", "chaincode: kv: accepted are those of network tiny: smallbank"),
        (
            ("loads", "slow"),
            {"tenants": {"other": {"part": 0.5, "threshold": 0.5}}},
            "tenants: other: accepted are the channels of network tiny: mychannel",
        ),
        (("networks", "tiny", "system"), "replicas", "a replicas: accepted is bench"),
        (("loads", "slow", "workload"), "put", "accepted for smallbank are create, mix"),
        (("loads", "slow"), {**CALIPER, "benchmark": "tpcc"}, "loads.slow: benchmark tpcc: marbles, simple, smallbank"),
        (("loads", "slow"), {**CALIPER, "chaincode": "simple", "workload": "put"}, "workload is of the driver load"),
        (("loads", "slow"), {**CALIPER, "round": "x"}, "no round x; open, query, transfer are accepted"),
        (("loads", "slow"), {**CALIPER, "round": "open"}, "loads.slow: .*: --load changes fixed-load rounds, and none"),
        (("loads", "slow"), CALIPER, "calls contract simple; the network has smallbank"),
        (("arms", 2, "protection", "k"), 4.0, "k is of the law proportional"),
        (("arms", 2, "protection", "daemon"), {"slice": "auto"}, "arms.2.protection.daemon.slice: unknown key"),
        (("arms", 2, "protection", "daemon"), {"slices": "may"}, 'daemon.slices: "may": accepted is'),
        (("figures", 0, "metrics"), ["stage.nosuch"], "no metric 'stage.nosuch': accepted are .*, stage.endorse"),
        (("figures", 3, "metrics"), ["p50"], "no series 'p50': accepted are throughput, p95, shares"),
        (("figures", 2, "x"), "p96", "figures.2.x: there is no metric 'p96': accepted are .*, axis"),
        (("figures", 0, "metrics"), ["kind.get.p33"], "no metric 'kind.get.p33'"),
        (("loads", "fast"), {"rate": 60.0}, "figures.3.kind: time: 6 panels: at most 4"),
        (("figures", 0, "load"), "fast", "accepted are slow"),
        *((("figures", number, "log"), True, "log is of lines and boxes") for number in (0, 1, 3, 4)),
        (("goals",), [{"what": "x", "metric": "p95", "arm": "qioi"}], "exactly one of least and most"),
        (("goals",), [{"what": "x", "metric": "p95", "arm": "qio", "most": 1.0}], "goals.0.arm: qio: accepted are"),
        (("goals",), [{"what": "x", "metric": "p96", "arm": "qioi", "most": 1.0}], "metric 'p96': accepted are"),
        (("papers", 0, "of"), "qioi", "papers.0.arm: qioi: it is compared with itself: accepted is another arm"),
        (("papers", 0, "of_network"), "tiny", "papers.0.arm: qioi: it is compared with itself"),
    ],
)
def test_what_is_not_accepted_is_said(
    document: dict[str, Any], tmp_path: Path, path: tuple[Any, ...], value: object, said: str
) -> None:
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(SpecError, match=said) as caught:
        load(document, tmp_path)
    assert all("\n" not in problem for problem in caught.value.problems)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize(
    ("part", "key"),
    [
        (("timing",), "duration"),
        (("timing",), "cooldown"),
        (("standard",), "cooldown"),
        (("arms", 1), "axis"),
        (("arms", 1, "neighbours"), "come"),
        (("arms", 2, "protection"), "period"),
        (("papers", 0), "value"),
        (("goals", 0), "least"),
        (("loads", "slow"), "varied"),
        (("loads", "slow"), "hot_share"),
    ],
)
def test_numbers_are_finite(
    document: dict[str, Any], tmp_path: Path, part: tuple[str | int, ...], key: str, value: float
) -> None:
    document["standard"] = {"warmup": 0.5, "duration": 2.0}
    document["goals"] = [{"what": "more", "metric": "throughput", "arm": "qioi", "least": 1.0}]
    inner: Any = document
    for one in part:
        inner = inner[one]
    inner[key] = value
    place = ".".join(map(str, (*part, key)))
    shown = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}[str(value)]
    assert refusal(document, tmp_path) == f"{tmp_path / 'toy.yaml'}: {place}: {shown}: accepted is a finite number"


@pytest.mark.parametrize(
    ("protection", "accepted"),
    [
        ({"law": "adaptive"}, False),
        ({"law": "proportional", "threshold": "maximum"}, False),
        ({"law": "adaptive", "threshold": "offered"}, False),
        ({"law": "adaptive", "threshold": 400}, True),
        ({"law": "adaptive", "daemon": {"slices": "auto"}}, False),
        ({"law": "adaptive", "daemon": {"channels": {"mychannel": {"threshold": "auto"}}}}, True),
        ({"law": "adaptive", "daemon": {"channels": {"mychannel": {"beyond": "ledger"}}}}, False),
        ({"law": "adaptive", "daemon": {"channels": {"other": {"threshold": "auto"}}}}, False),
        ({"shares": 4096}, True),
    ],
)
def test_beside_caliper_a_law_needs_a_number_for_t(
    document: dict[str, Any], tmp_path: Path, protection: dict[str, Any], accepted: bool
) -> None:
    document["networks"]["tiny"]["chaincodes"] = ["smallbank", "simple"]
    document["loads"] = {"slow": {"rate": 30.0}, "caliper": CALIPER}
    document["timing"]["duration"] = 4.0
    del document["figures"][3]  # it would have too many panels
    document["arms"][2]["protection"] = protection
    if accepted:
        threshold = load(document, tmp_path).arms[2].protection.threshold  # type: ignore[union-attr]
        assert threshold is None or isinstance(threshold, float)
        return
    assert refusal(document, tmp_path) == (
        f"{tmp_path / 'toy.yaml'}: arms.2.protection.threshold: accepted is a number (tps) beside load caliper: "
        "no maximum is looked for with the driver caliper"
    )


@pytest.fixture
def beside_caliper(document: dict[str, Any]) -> dict[str, Any]:
    """One arm, with a load of Caliper's beside another."""
    document["networks"]["tiny"]["chaincodes"] = ["smallbank", "simple"]
    document["loads"] = {"slow": {"rate": 30.0}, "caliper": CALIPER}
    document["arms"], document["figures"] = document["arms"][:1], document["figures"][:1]
    document["papers"], document["goals"] = [], []
    document["timing"]["duration"] = 4.0
    return document


def test_nothing_happens_at_a_time_of_calipers_window(beside_caliper: dict[str, Any], tmp_path: Path) -> None:
    beside_caliper["timing"]["profile"] = 1.0
    why = "not with the driver caliper, whose window begins at a time that is known later"
    assert refusal(beside_caliper, tmp_path) == f"{tmp_path / 'toy.yaml'}: timing.profile: {why}"
    beside_caliper["timing"]["profile"] = 0.0
    beside_caliper["arms"][0]["neighbours"] = {"sysbench": 4, "come": 1.0, "go": 2.0}
    assert refusal(beside_caliper, tmp_path) == f"{tmp_path / 'toy.yaml'}: arms.0.neighbours.come: {why}"


@pytest.mark.parametrize("key", ["timing", "standard"])
def test_a_window_of_caliper_has_room_for_what_it_tells(
    beside_caliper: dict[str, Any], tmp_path: Path, key: str
) -> None:
    beside_caliper["standard"] = {"warmup": 1.0, "duration": 4.0}
    load(beside_caliper, tmp_path)
    beside_caliper[key]["duration"] = 3.9
    problem = refusal(beside_caliper, tmp_path)
    words = "3.9: accepted is from 4 on: load caliper tells its progress every 2 s"
    assert problem == f"{tmp_path / 'toy.yaml'}: {key}.duration: {words}"


def test_a_window_that_is_asked_for_has_room_for_what_caliper_tells(
    beside_caliper: dict[str, Any], tmp_path: Path
) -> None:
    spec, asked = load(beside_caliper, tmp_path), Asked(duration=3.9)
    with pytest.raises(SpecError, match=r"^toy: timing.duration: 3\.9: accepted is from 4 on: load caliper tells"):
        plan_of(spec, asked)
    assert plan_of(spec, replace(asked, duration=4.0)).cells
    assert plan_of(spec, replace(asked, loads=("slow",))).cells
    assert plan_of(spec, replace(asked, smoke=True)).cells  # its round is longer than its window


@pytest.mark.parametrize(
    ("network", "accepted"),
    [
        ({"orderers": 2}, True),
        ({"orderers": 4, "consenter": "zyzzyva"}, True),
        ({"orderers": 4, "consenter": "bft"}, True),
        ({"orderers": 3, "system": "fabric", "mode": "block"}, True),
        ({"orderers": 1}, False),
        ({"orderers": 1, "consenter": "solo"}, False),
        ({"orderers": 3, "consenter": "kafka"}, False),
        ({"orderers": 3, "consenter": "sequencer"}, False),
        ({"orderers": 3, "system": "mysql", "chaincodes": ["kv"]}, False),
    ],
)
def test_neighbours_are_beside_a_follower_where_there_is_one(
    document: dict[str, Any], tmp_path: Path, network: dict[str, Any], accepted: bool
) -> None:
    document["networks"] = {"tiny": {"chaincodes": ["smallbank"], **network}}
    document["loads"]["slow"]["chaincode"] = document["networks"]["tiny"]["chaincodes"][0]
    document["arms"][1]["neighbours"]["beside"] = "follower"
    if accepted:
        assert load(document, tmp_path).arms[1].neighbours.beside == "follower"
        return
    assert refusal(document, tmp_path) == (
        f"{tmp_path / 'toy.yaml'}: arms.1.neighbours.beside: follower: there is none in network tiny: "
        "accepted are ledgers of two orderers or more by raft, bft, zyzzyva"
    )


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="No such file"):
        catalogue.load(tmp_path / "x.yaml")
    (tmp_path / "x.yaml").write_text("a: [")
    with pytest.raises(SpecError, match=r"line 1: .*: accepted is YAML"):
        catalogue.load(tmp_path / "x.yaml")
    (tmp_path / "x.yaml").write_text("name: a\nname: b\n")
    with pytest.raises(SpecError, match="'name' stands twice"):
        catalogue.load(tmp_path / "x.yaml")
    with pytest.raises(SpecError, match="no experiment 'fig_99': accepted are"):
        catalogue.find("fig_99")


def test_a_run_of_a_file_notes_the_path_that_it_was_given(document: dict[str, Any], tmp_path: Path) -> None:
    """By its name nobody finds it."""
    (tmp_path / "my own").mkdir()
    spec = load(document, tmp_path / "my own")
    files = catalogue.files(["fig_3", str(tmp_path / "my own" / "toy.yaml"), "all"])
    asked = Asked(files=files)
    assert asked.command(spec) == f"qioi experiment run '{tmp_path}/my own/toy.yaml'"
    assert asked.command(catalogue.find("fig_3")) == "qioi experiment run fig_3"


@pytest.mark.parametrize(("command", "words"), [(["chaincode", "--help"], CONTRACTS), (["load", "--help"], WORKLOADS)])
def test_contracts_and_workloads_are_those_that_the_ledger_has(command: list[str], words: Collection[str]) -> None:
    said = subprocess.run([find_binary(), *command], capture_output=True, text=True, check=True).stdout
    assert ", ".join(words) in said or " or ".join(words) in said
    for workloads in WORKLOADS.values() if words is WORKLOADS else ():
        assert ", ".join(workloads) in said
