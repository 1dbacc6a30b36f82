"""Sizes, order and seeds: all decided before anything starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from toy_experiment import filled, load

from qioi.daemon.lock import HOST_LOCK, TreeLock
from qioi.experiment import catalogue, places
from qioi.experiment.errors import SpecError
from qioi.experiment.plan import Plan, make_plan, make_smoke, of_size, only, with_binaries
from qioi.experiment.scale import scaled
from qioi.experiment.session import check_host, lab_options, probe_of
from qioi.experiment.spec import ExperimentSpec
from qioi.experiment.store import Store
from qioi.experiment.system import NetworkSpec
from qioi.lab.systems.ledger import init_flags
from qioi.processes.errors import LabError


@pytest.mark.parametrize(
    ("count", "cores", "ours"),
    [(16, 24, 16), (8, 24, 8), (16, 2, 2), (8, 2, 1), (1, 2, 1), (0, 2, 0), (16, 12, 8), (16, 48, 32), (5, 7, 2)],
)
def test_neighbours_are_scaled_by_one_rule(count: int, cores: int, ours: int) -> None:
    assert scaled(count, cores) == ours


def test_arms_that_become_the_same_are_run_once() -> None:
    plan = make_plan(catalogue.find("fig_3"), cores=2)
    assert [(cell.arm.name, cell.arm.neighbours.sysbench) for cell in plan.cells] == [
        ("alone", 0),
        ("s1", 1),
        ("s16", 2),
    ]
    assert plan.same == {"s2": "s1", "s4": "s1", "s8": "s1"}
    assert [cell.arm.title for cell in plan.cells] == ["alone", "1 sysbench", "2 sysbench"]
    assert [cell.arm.axis for cell in plan.cells] == [0, 1, 2]


def test_neighbours_of_a_large_host_are_more_than_a_file_may_have(document: dict[str, Any], tmp_path: Path) -> None:
    """The run had begun, and its run.json was refused for a number that nobody had written."""
    document["arms"][1]["neighbours"] = {"sysbench": 200}
    plan = make_plan(load(document, tmp_path), cores=32)
    store = Store(tmp_path / "run")
    filled(store, plan, [])
    assert plan.cells[1].arm.neighbours.sysbench == 267
    assert store.document.plan == plan


def test_the_papers_own_counts_stay() -> None:
    plan = make_plan(catalogue.find("fig_3"), cores=2, paper_size=True)
    assert [cell.arm.neighbours.sysbench for cell in plan.cells] == [0, 1, 2, 4, 8, 16]
    assert not plan.same


def test_cells_run_in_the_files_order_or_backward(plan: Plan) -> None:
    forward, backward = ([cell.key for group in plan.order(backward=one) for cell in group] for one in (False, True))
    assert forward == [cell.key for cell in plan.cells]
    assert backward == forward[::-1]
    assert (plan.is_forward(forward), plan.is_forward(backward)) == (True, False)


def test_each_network_is_brought_up_once_a_repeat() -> None:
    plan = make_plan(catalogue.find("block_stream"), cores=2)
    for backward in (True, False):
        groups = plan.order(backward=backward)
        assert [len({cell.network_name for cell in group}) for group in groups] == [1, 1]
        assert sorted(cell.key for group in groups for cell in group) == sorted(cell.key for cell in plan.cells)


def test_a_simulated_cell_stands_beside_the_real_one_of_its_load() -> None:
    plan = make_plan(catalogue.find("rdb_fig_13"), cores=2)
    for backward, networks in ((False, ["real", "sim4", "n16"]), (True, ["n16", "sim4", "real"])):
        groups = plan.order(backward=backward)
        assert [[cell.network_name for cell in group] for group in groups] == [networks] * len(plan.spec.loads)
        assert all(len({cell.load_name for cell in group}) == 1 for group in groups)
    assert sorted(cell.key for group in groups for cell in group) == sorted(cell.key for cell in plan.cells)


def test_all_arms_of_a_repeat_are_sent_the_same(plan: Plan) -> None:
    assert len({plan.load_seed(1, cell) for cell in plan.cells}) == 1
    assert plan.load_seed(1, plan.cells[0]) != plan.load_seed(2, plan.cells[0])
    other = make_plan(plan.spec, 2, seed=2)
    assert other.load_seed(1, other.cells[0]) != plan.load_seed(1, plan.cells[0])


def test_only_what_needs_a_maximum_is_probed(spec: ExperimentSpec) -> None:
    alone = spec.model_copy(update={"arms": spec.arms[:2]})
    assert make_plan(alone, 2).probed == ()
    assert make_plan(spec, 2).probed == ("tiny",)
    assert make_plan(catalogue.find("block_stream"), 2).probed == ("stream",)
    assert make_plan(catalogue.find("sc_fig_7"), 2).probed == ("block10", "stream")


@pytest.mark.parametrize(("contracts", "driven"), [(["kv"], "kv"), (["marbles", "smallbank=1", "kv"], "smallbank")])
def test_a_maximum_is_looked_for_by_a_contract_that_the_load_client_drives(contracts: list[str], driven: str) -> None:
    assert probe_of(NetworkSpec(chaincodes=contracts)).extra == ("--chaincode", driven)


def test_a_databases_maximum_is_that_of_unique_inserts() -> None:
    spec = NetworkSpec(system="cassandra", nodes=2, chaincodes=["kv"])
    assert probe_of(spec).extra == ("--chaincode", "kv", "--workload", "insert")
    options = lab_options(spec, 20_000)
    assert (options.system, options.nodes) == ("cassandra", 2)


def test_transactions_that_a_majority_endorses() -> None:
    spec = NetworkSpec(orgs=3, chaincodes=["kv"], endorsement="majority")
    assert lab_options(spec, 20_000).extra == (
        "--chaincode",
        "kv=OutOf(2,'Org1MSP.peer','Org2MSP.peer','Org3MSP.peer')",
    )
    with pytest.raises(ValidationError, match="endorsement is of the systems"):
        NetworkSpec(system="mysql", chaincodes=["kv"], endorsement="majority")
    with pytest.raises(ValidationError, match="without a policy of their own"):
        NetworkSpec(chaincodes=["kv=OR('Org1MSP.peer')"], endorsement="majority")


def test_networks_of_the_papers_size_take_part_where_that_is_asked_for() -> None:
    spec = catalogue.find("thesis_2_3")
    assert "cassandra20" in of_size(spec, paper_size=True).networks
    small = of_size(spec, paper_size=False)
    assert not any(network.paper_size for network in small.networks.values())
    assert small.networks.keys() >= {"ledger8", "cassandra8"}
    assert {sentence.network for sentence in small.papers} <= small.networks.keys()


def test_of_networks_of_the_papers_size_alone_nothing_is_left() -> None:
    """Not all of them, which nobody has asked for."""
    spec = catalogue.find("thesis_2_3")
    networks = {name: one for name, one in spec.networks.items() if one.paper_size}
    large = spec.model_copy(update={"networks": networks})
    with pytest.raises(SpecError, match=r"^thesis_2_3: all of its networks are of the paper's size: --paper-size"):
        of_size(large, paper_size=False)
    assert of_size(large, paper_size=True).networks == networks


def test_networks_of_fabric_take_part_where_its_binaries_are_given() -> None:
    spec = catalogue.find("kinds")
    given = with_binaries(spec, "/fabric")
    assert {name: one.binaries for name, one in given.networks.items()} == {
        "block": None,
        "like_fabric": None,
        "fabric": "/fabric",
    }
    without = with_binaries(spec, None)
    assert without.networks.keys() == {"block", "like_fabric"}
    assert {goal.network for goal in without.goals} == {"block"}
    alone = only(spec, networks=["fabric"])
    assert with_binaries(alone, None) == alone  # nothing else is left: what it lacks is said before it starts


def test_fabric_whose_maximum_the_others_loads_are_parts_of_is_not_left_out_in_silence() -> None:
    spec = catalogue.find("kinds")
    networks = dict(sorted(spec.networks.items(), key=lambda item: item[1].system != "fabric"))
    loads = {name: load.model_copy(update={"of": "first"}) for name, load in spec.loads.items()}
    first = spec.model_copy(update={"networks": networks, "loads": loads})
    with pytest.raises(SpecError, match=r"^kinds: needs --binaries: loads are parts of the maximum of fabric"):
        with_binaries(first, None)
    assert with_binaries(first, "/fabric").networks.keys() == networks.keys()


def test_a_store_has_a_folder_of_its_kind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for kind, here, there in (("tmpfs", "memory", "disk"), ("ext4", "disk", "memory")):
        monkeypatch.setattr(places, "file_system", lambda _, kind=kind: kind)
        assert places.standing(tmp_path / "not" / "yet", here) == tmp_path / "not" / "yet"
        assert places.standing(tmp_path, None) == tmp_path
        assert places.standing(tmp_path, there) == (places.DISK if there == "disk" else places.MEMORY)
        assert places.standing(tmp_path, "orderers") == (tmp_path if here == "memory" else places.MEMORY)
        own = tmp_path / "results"
        assert places.scratch_of(tmp_path, own) == (own if here == "memory" else tmp_path)


def test_where_neighbours_write_to_a_disk_the_ledgers_stand_on_one() -> None:
    specs = [catalogue.find(name) for name in catalogue.names()]
    writing = [spec for spec in specs if any(arm.neighbours.stress_io for arm in spec.arms)]
    assert writing
    assert all(spec.disk for spec in writing)


@pytest.mark.parametrize("name", catalogue.names())
def test_a_smoke_version_keeps_pairs_together(name: str) -> None:
    plan = make_smoke(catalogue.find(name), cores=2)
    keys = {cell.key for cell in plan.cells}
    assert all(cell.base is None or cell.base in keys for cell in plan.cells)
    assert plan.repeats == 1
    assert plan.probed == ()
    assert plan.cells[-1].arm.name == catalogue.find(name).arms[-1].name
    assert plan.repeat_seconds < 120
    # What is written on the page is what was sent: the load's own title speaks of the whole version.
    assert all("here " in cell.load.title for cell in plan.cells if not cell.load.tenants)


def test_a_smoke_version_of_the_papers_size_has_its_neighbours() -> None:
    few, as_many = (make_smoke(catalogue.find("fig_8"), cores=2, paper_size=size) for size in (False, True))
    assert (few.paper_size, as_many.paper_size) == (False, True)
    assert max(cell.arm.neighbours.count for cell in few.cells) < max(
        cell.arm.neighbours.count for cell in as_many.cells
    )


def test_a_smoke_version_has_as_many_orderers_as_bear_a_liar() -> None:
    spec = catalogue.find("sc_fig_10")
    some = spec.model_copy(update={"networks": {"pbft": spec.networks["pbft"], "raft": spec.networks["raft"]}})
    networks = [cell.network for cell in make_smoke(some, cores=2).cells]
    assert [(network.consenter, network.orderers) for network in networks] == [("bft", 4), ("raft", 1)]


def test_where_a_sequencer_keeps_its_log_is_told_to_it_alone() -> None:
    networks = catalogue.find("sc_fig_10").networks
    options = [lab_options(network, 17_000) for network in networks.values()]
    assert [one.sequencer_memory for one in options] == [False, False, False, True]
    assert ["--sequencer-memory" in init_flags(one) for one in options] == [False, False, False, True]
    with pytest.raises(ValidationError, match="sequencer_memory is of consenter sequencer"):
        NetworkSpec(sequencer_memory=True)


def test_a_window_that_ends_before_the_neighbours_go_is_refused() -> None:
    spec = catalogue.find("comes_and_goes")
    with pytest.raises(SpecError, match="comes_and_goes: duration 4: accepted from 25 s on"):
        make_plan(spec, 2, timing=spec.timing.model_copy(update={"duration": 4.0}))


def test_some_of_the_loads_bring_their_figures_and_sentences_alone() -> None:
    fig_8 = catalogue.find("fig_8")
    fixed = only(fig_8, ["fixed"])
    assert list(fixed.loads) == ["fixed"]
    assert {figure.load for figure in fixed.figures} == {None, "fixed"}
    assert fixed.papers == []
    assert only(fig_8, ["saturating"]).papers == fig_8.papers
    assert only(fig_8, list(fig_8.loads)) == fig_8
    goodput = only(catalogue.find("sc_fig_7"), ["k1000_p80", "k1000_p87"])
    assert [figure.loads for figure in goodput.figures] == [["k1000_p80", "k1000_p87"], []]
    bars = fig_8.model_copy(update={"figures": [figure for figure in fig_8.figures if figure.load == "saturating"]})
    assert [figure.kind for figure in only(bars, ["fixed"]).figures] == ["table"]
    with pytest.raises(SpecError, match="fig_8: there is no load 'fast': accepted are saturating, fixed"):
        only(fig_8, ["fast"])


def test_a_sentence_that_names_no_load_goes_with_the_first() -> None:
    """It is about the first, and would be judged by another if that is left out."""
    tables = catalogue.find("tables_2_3")
    first, second = tables.loads
    assert {sentence.load for sentence in tables.papers} == {None, first}
    assert only(tables, [first]).papers == [sentence for sentence in tables.papers if sentence.load is None]
    assert only(tables, [second]).papers == []


def test_some_of_the_arms_bring_those_that_they_are_held_against_and_the_first() -> None:
    fig_8 = catalogue.find("fig_8")
    adaptive = only(fig_8, ["saturating"], ["adaptive"])
    assert [arm.name for arm in adaptive.arms] == ["alone", "s16", "adaptive"]
    assert adaptive.papers == []
    assert [(goal.arm, goal.load) for goal in adaptive.goals] == [("adaptive", "saturating")] * 2
    assert [arm.name for arm in only(fig_8, arms=["s16"]).arms] == ["alone", "s16"]
    assert only(fig_8, arms=["s16"]).goals == []
    assert only(fig_8, arms=[arm.name for arm in fig_8.arms]) == fig_8
    shown = only(catalogue.find("fig_6_table_4"), arms=["k4"]).figures[-1]
    assert shown.arms == ["s8", "k4"]
    accepted = "alone, s16, proportional, adaptive"
    with pytest.raises(SpecError, match=f"fig_8: there is no arm 'k4': accepted are {accepted}"):
        only(fig_8, arms=["k4"])


def test_some_of_the_networks_bring_the_first_where_a_load_is_a_part_of_its_maximum() -> None:
    databases = catalogue.find("protect_database")
    mysql = only(databases, networks=["mysql"])
    assert list(mysql.networks) == ["mysql"]
    assert {goal.network for goal in mysql.goals} == {"mysql"}
    assert list(only(catalogue.find("block_stream"), networks=["block"]).networks) == ["stream", "block"]
    with pytest.raises(SpecError, match="protect_database: there is no network 'oracle': accepted are cassandra, "):
        only(databases, networks=["oracle"])


def test_all_that_a_host_lacks_is_said_before_anything_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    plans = [
        make_plan(catalogue.find(name), cores=2) for name in ("fig_3", "fig_10", "fig_12", "tables_2_3", "stress_io")
    ]
    with pytest.raises(LabError) as caught:
        check_host(plans)
    text = str(caught.value)
    for command in ("apt-get install sysbench", "nodejs", "make spark", "apt-get install linux-perf", "stress-ng"):
        assert command in text
    assert text.count("apt-get install sysbench") == 1


def test_caliper_is_installed_before_anything_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not in the first of its cells, hours later, in that cell's time."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "npm").write_text(f"#!/bin/sh\n[ ! -e {tmp_path}/offline ] && mkdir node_modules\n")
    (bin_ / "node").write_text("#!/bin/sh\necho v20.1.0\n")
    for program in bin_.iterdir():
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    monkeypatch.setenv("QIOI_CACHE", str(tmp_path / "cache"))
    plan = make_plan(only(catalogue.find("fig_10"), arms=["alone"]), cores=2)
    (tmp_path / "offline").touch()
    with pytest.raises(LabError, match="npm ci failed"):
        check_host([plan])
    (tmp_path / "offline").unlink()
    said: list[str] = []
    for _ in range(2):
        check_host([plan], said.append)
    assert [line.split()[0] for line in said] == ["installing"]
    assert list((tmp_path / "cache").glob("npm/*/node_modules"))


def test_a_system_replaces_the_files_where_its_networks_allow_it() -> None:
    fabric = catalogue.with_networks(catalogue.find("fig_8"), {"system": "fabric", "binaries": "/fabric"})
    assert {(one.system, one.binaries, one.messages) for one in fabric.networks.values()} == {
        ("fabric", "/fabric", 500)
    }
    with pytest.raises(SpecError) as refused:
        catalogue.with_networks(catalogue.find("laws"), {"system": "fabric"})
    assert refused.value.problems == (
        "laws: networks.stream: system fabric has mode block and consenter raft only, and no workers",
    )


def test_what_is_said_of_ledgers_changes_no_database_and_no_replica() -> None:
    """MySQL became the bundled ledger under its own name, and replicas asked for an engine that they do not use."""
    spec = catalogue.find("sc_table_1")
    before = {one.system for one in spec.networks.values()}
    assert before > {"ledger"}
    after = catalogue.with_networks(spec, {"system": "ledger", "runtime": "docker"})
    assert {one.system for one in after.networks.values()} == before
    assert {one.runtime for one in after.networks.values() if one.system != "ledger"} == {"process"}
    with pytest.raises(SpecError) as refused:
        catalogue.with_networks(catalogue.find("rdb_fig_8"), {"runtime": "docker"})
    assert refused.value.problems == ("rdb_fig_8: no network of a ledger, which runtime would be about",)


def test_a_host_without_a_systems_programs_is_refused_before_anything_starts() -> None:
    plan = make_plan(catalogue.with_networks(catalogue.find("fig_8"), {"system": "fabric"}), 2)
    with pytest.raises(LabError, match="system fabric: no binaries"):
        check_host([plan])


def test_tenants_are_refused_in_containers(document: dict[str, Any], tmp_path: Path) -> None:
    """All clients' containers have one name, by which the samples know the last one only."""
    refused = "loads.{}.tenants: they run with the runtime process only, and network {} has docker"
    with pytest.raises(SpecError) as asked:
        catalogue.with_networks(catalogue.find("tenants"), {"runtime": "docker"})
    assert asked.value.problems == (f"tenants: {refused.format('one_owed', 'raft')}",)
    document["networks"]["tiny"] |= {"channels": ["mychannel"], "runtime": "docker"}
    document["loads"] = {"two": {"tenants": {"mychannel": {"part": 0.5, "threshold": 0.5}}}}
    with pytest.raises(SpecError, match=refused.format("two", "tiny")):
        load(document, tmp_path)


def test_arms_with_a_daemon_are_refused_beside_another_before_anything_starts(
    document: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOST_LOCK, str(tmp_path))
    lock = TreeLock(tmp_path)
    with pytest.raises(LabError) as refused:
        check_host([make_plan(load(document, tmp_path), cores=2)])
    (line,) = str(refused.value).splitlines()
    assert f"a QiOi daemon is running already on this host (pid {os.getpid()})" in line
    document["arms"].pop()
    document["papers"] = []
    check_host([make_plan(load(document, tmp_path), cores=2)])
    # Its discovery would find the lab's containers, and raise them in the arms without protection.
    document["networks"]["tiny"]["runtime"] = "docker"
    with pytest.raises(LabError, match="a QiOi daemon is running already on this host"):
        check_host([make_plan(load(document, tmp_path), cores=2)])
    lock.close()
