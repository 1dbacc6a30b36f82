from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

from qioi.lab.caliper_files import (
    Document,
    Overrides,
    benchmark,
    bundled_network,
    contract_ids,
    digest,
    find_benchmark,
    find_configs,
    msp_ids,
    user_network,
)
from qioi.processes.errors import LabError

BENCHMARKS = ("smallbank", "simple", "marbles")


def description(folder: Path, **changes: Any) -> Path:
    """A network.json as the ledger's init writes it: two organisations of two peers, all three contracts."""
    nodes: list[dict[str, Any]] = [
        {"name": "orderer1", "role": "orderer", "msp_id": "OrdererMSP", "address": "127.0.0.1:1"}
    ]
    clients, tls_ca = [], {"OrdererMSP": "crypto/orderer-ca.pem"}
    for org in (1, 2):
        msp = f"Org{org}MSP"
        for peer in (0, 1):
            port = 1000 * org + peer
            nodes.append(
                {"name": f"peer{peer}-org{org}", "role": "peer", "msp_id": msp, "address": f"127.0.0.1:{port}"}
            )
            nodes += [{"role": "chaincode", "msp_id": msp, "chaincode": name, "address": "x:1"} for name in BENCHMARKS]
        for user in (1, 2):
            clients.append(
                {"msp_id": msp, "name": f"User{user}", "cert": f"crypto/u{user}o{org}.pem", "key": f"crypto/k{org}"}
            )
        tls_ca[msp] = f"crypto/ca{org}.pem"
    network = {
        "channels": ["one", "two"],
        "mode": "stream",
        "consenter": "raft",
        "tls": True,
        "nodes": nodes,
        "clients": clients,
        "tls_ca": tls_ca,
    }
    file = folder / "network.json"
    file.write_text(json.dumps({**network, **changes}))
    return file


def filled(configs: Path, file: Path) -> Document:
    return bundled_network(configs / "networks" / "bundled.yaml", file)


def test_the_bundled_template_is_filled(configs: Path, tmp_path: Path) -> None:
    network = filled(configs, description(tmp_path))
    assert msp_ids(network) == ["Org1MSP", "Org2MSP"]
    second = network["organizations"][1]
    assert [peer["endpoint"] for peer in second["peers"]] == ["127.0.0.1:2000", "127.0.0.1:2001"]
    assert second["peers"][1]["tlsCACerts"]["path"] == str(tmp_path / "crypto/ca2.pem")
    identity = second["identities"]["certificates"][0]
    assert identity["name"] == "User1"
    assert identity["clientPrivateKey"]["path"] == str(tmp_path / "crypto/k2")
    assert identity["clientSignedCert"]["path"] == str(tmp_path / "crypto/u1o2.pem")
    assert [channel["channelName"] for channel in network["channels"]] == ["one", "two"]
    assert contract_ids(network) == {*BENCHMARKS, *(f"two/{name}" for name in BENCHMARKS)}
    assert "{" not in yaml.safe_dump(network, default_flow_style=False)


def test_without_tls_no_ca_is_named(configs: Path, tmp_path: Path) -> None:
    network = filled(configs, description(tmp_path, tls=False))
    assert not any("tlsCACerts" in peer for organization in network["organizations"] for peer in organization["peers"])


@pytest.mark.parametrize("key", ["channels", "nodes", "clients", "tls_ca", "mode"])
def test_a_malformed_description_is_named(configs: Path, tmp_path: Path, key: str) -> None:
    file = description(tmp_path)
    content = json.loads(file.read_text())
    del content[key]
    file.write_text(json.dumps(content))
    with pytest.raises(LabError, match=rf"network\.json.*{key}"):
        filled(configs, file)


def test_the_users_own_network(configs: Path, tmp_path: Path) -> None:
    """Its paths count from its own folder, and what is missing there is said before anything runs."""
    file = tmp_path / "mine.yaml"
    shutil.copy(configs / "networks" / "fabric.yaml", file)
    with pytest.raises(LabError, match=r"mine\.yaml: organizations\[0\].*priv_sk is not in"):
        user_network(file, configs)
    original = yaml.safe_load(file.read_text())
    named = []
    for organization in original["organizations"]:
        certificate = organization["identities"]["certificates"][0]
        named += [certificate["clientPrivateKey"]["path"], certificate["clientSignedCert"]["path"]]
        named += [peer["tlsCACerts"]["path"] for peer in organization["peers"]]
    for name in named:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    network = user_network(file, configs)
    first = network["organizations"][0]["identities"]["certificates"][0]
    assert first["clientPrivateKey"]["path"] == str((tmp_path / named[0]).resolve())
    assert contract_ids(network) == {"smallbank"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: [", "accepted is YAML"),
        ("- 1", "accepted is a mapping, not list"),
        ("version: 2", r"caliper: missing"),
        ("{version: 2, caliper: {}, channels: [], organizations: }", "organizations: null: accepted is a valid list"),
        ("{version: 2, caliper: {}, channels: [], organizations: [{mspId: A}]}", r"organizations\.0\.mspid: missing"),
        (
            "{version: 2, caliper: {}, channels: [{channelName: c, contracts: [a]}], organizations: [{mspid: A}]}",
            r"channels\.0\.contracts\.0: \"a\": accepted is a mapping",
        ),
        (
            "{version: 2, caliper: {}, channels: [{channelName: c, contracts: [{}]}], organizations: [{mspid: A}]}",
            r"channels\.0\.contracts\.0\.id: missing",
        ),
    ],
)
def test_a_bad_network_file(configs: Path, tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(LabError, match=says):
        user_network(file, configs)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_the_benchmarks_stand(configs: Path, tmp_path: Path, name: str) -> None:
    """Every workload is there, rounds have labels of their own, and both kinds of load occur."""
    network = filled(configs, description(tmp_path))
    rounds = benchmark(find_benchmark(name, configs), configs, network, Overrides())["test"]["rounds"]
    assert len({entry["label"] for entry in rounds}) == len(rounds)
    assert {entry["rateControl"]["type"] for entry in rounds} == {"fixed-rate", "fixed-load"}
    for entry in rounds:
        assert Path(entry["workload"]["module"]).is_file()
        assert entry["workload"]["arguments"]["invokerMspIds"] == ["Org1MSP", "Org2MSP"]


def test_the_command_line_wins(configs: Path, tmp_path: Path) -> None:
    network = filled(configs, description(tmp_path))
    path = find_benchmark("smallbank", configs)
    changes = Overrides(rounds=("mix-load", "create"), workers=3, transactions=72, rate=12.5, load=6, seed=1729)
    test = benchmark(path, configs, network, changes)["test"]
    assert [entry["label"] for entry in test["rounds"]] == ["create", "mix-load"]
    assert test["workers"]["number"] == 3
    create, load = test["rounds"]
    assert (create["txNumber"], create["rateControl"]["opts"]["tps"]) == (72, 12.5)
    assert "txDuration" not in create
    assert load["rateControl"]["opts"] == {"transactionLoad": 6, "startTps": 50}
    assert [entry["workload"]["arguments"]["seed"] for entry in (create, load)] == [1729, 1729]
    third = benchmark(path, configs, network, Overrides(duration=9))["test"]["rounds"][2]
    assert third["txDuration"] == 9
    assert "seed" not in third["workload"]["arguments"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (Overrides(transactions=4), None),
        (Overrides(load=2), None),
        (Overrides(workers=1, transactions=5, load=1), None),
        (Overrides(workers=5, transactions=5), None),
        (Overrides(transactions=5), "--transactions 5: each of 2 workers .* multiple of 2, or --workers 1$"),
        (Overrides(transactions=1), "--transactions 1: each of 2 workers .* multiple of 2, or --workers 1$"),
        (Overrides(load=1), "--load 1: each of 2 workers .* multiple of 2, or --workers 1$"),
        (Overrides(workers=4, transactions=6), "--transactions 6: each of 4 workers .* multiple of 4, or --workers 2$"),
        (
            Overrides(workers=4, transactions=6, rounds=("create",)),
            "--transactions 6: each of 4 workers .* multiple of 4, or --workers 3$",
        ),
        (
            Overrides(workers=4, transactions=6, load=10),
            "--transactions 6, --load 10: each of 4 workers .* multiple of 4, or --workers 2$",
        ),
        (
            Overrides(workers=4, transactions=8, load=6),
            "--load 6: each of 4 workers .* multiple of 4, or --workers 2$",
        ),
        (Overrides(workers=64, rounds=("mix-load",), load=64), None),
        (Overrides(workers=64, rounds=("create", "mix")), None),
        (
            Overrides(workers=64, rounds=("mix-load",)),
            "transactionLoad 20 of round mix-load: each of 64 workers .* multiple of 64, or --workers 20$",
        ),
        (
            Overrides(workers=12, transactions=18),
            "--transactions 18, transactionLoad 20 of round mix-load: each of 12 workers .* --workers 2$",
        ),
    ],
)
def test_what_workers_cannot_share_evenly_is_refused(
    configs: Path, tmp_path: Path, changes: Overrides, says: str | None
) -> None:
    """Caliper gives each worker the whole part of its share, and at least 1."""
    network = filled(configs, description(tmp_path))
    with nullcontext() if says is None else pytest.raises(LabError, match=says):
        benchmark(find_benchmark("smallbank", configs), configs, network, changes)


@pytest.mark.parametrize(("workers", "says"), [({}, None), ({"number": 3}, "each of 3 workers")])
def test_a_files_own_workers_share_what_the_command_line_sets(
    configs: Path, tmp_path: Path, workers: dict[str, Any], says: str | None
) -> None:
    """Without a number of them Caliper has one. What a file itself asks for is as Caliper has it."""
    network, mine = filled(configs, description(tmp_path)), tmp_path / "mine.yaml"
    (tmp_path / "load.js").touch()
    entry = {"label": "a", "txNumber": 5, "rateControl": {"type": "fixed-load"}, "workload": {"module": "load.js"}}
    mine.write_text(yaml.safe_dump({"test": {"workers": workers, "rounds": [entry]}}), encoding="utf-8")
    assert benchmark(mine, configs, network, Overrides())["test"]["rounds"][0]["txNumber"] == 5
    with nullcontext() if says is None else pytest.raises(LabError, match=says):
        benchmark(mine, configs, network, Overrides(transactions=7, load=1))
    with pytest.raises(LabError, match=r"txNumber 5 of round a: each of 2 workers .* or --workers 1$"):
        benchmark(mine, configs, network, Overrides(workers=2))
    assert benchmark(mine, configs, network, Overrides(workers=2, duration=9))["test"]["workers"]["number"] == 2


def test_the_workers_that_are_offered_can_share_the_files_own_numbers_too(configs: Path, tmp_path: Path) -> None:
    """Three could share the six transactions, and not the 20 that the file has in flight."""
    network, mine = filled(configs, description(tmp_path)), tmp_path / "mine.yaml"
    (tmp_path / "load.js").touch()
    control = {"type": "fixed-load", "opts": {"transactionLoad": 20}}
    entry = {"label": "a", "txNumber": 8, "rateControl": control, "workload": {"module": "load.js"}}
    mine.write_text(yaml.safe_dump({"test": {"workers": {"number": 4}, "rounds": [entry]}}), encoding="utf-8")
    with pytest.raises(LabError, match=r"--transactions 6: each of 4 workers .* or --workers 2$"):
        benchmark(mine, configs, network, Overrides(transactions=6))
    assert benchmark(mine, configs, network, Overrides(transactions=6, workers=2))["test"]["workers"]["number"] == 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (Overrides(rounds=("create", "nix")), "no round nix; create, mix, mix-load are accepted"),
        (Overrides(rounds=("create",), load=4), "--load changes fixed-load rounds"),
        (Overrides(rounds=("mix-load",), rate=4), "--rate changes fixed-rate rounds"),
    ],
)
def test_what_cannot_be_meant_is_refused(configs: Path, tmp_path: Path, changes: Overrides, says: str) -> None:
    network = filled(configs, description(tmp_path))
    with pytest.raises(LabError, match=says):
        benchmark(find_benchmark("smallbank", configs), configs, network, changes)


def test_a_contract_that_the_network_lacks(configs: Path, tmp_path: Path) -> None:
    file = description(tmp_path)
    content = json.loads(file.read_text())
    content["nodes"] = [node for node in content["nodes"] if node.get("chaincode") != "simple"]
    file.write_text(json.dumps(content))
    with pytest.raises(LabError, match="round open calls contract simple; the network has marbles, smallbank"):
        benchmark(find_benchmark("simple", configs), configs, filled(configs, file), Overrides())


def test_a_benchmark_of_the_users_own(configs: Path, tmp_path: Path) -> None:
    network = filled(configs, description(tmp_path))
    mine = tmp_path / "mine.yaml"
    entry = {"label": "a", "txNumber": 5, "rateControl": {"type": "fixed-rate", "opts": {"tps": 1}}}
    mine.write_text(yaml.safe_dump({"test": {"rounds": [{**entry, "workload": {"module": "load.js"}}]}}))
    with pytest.raises(LabError, match=r"round a: workload\.module: load\.js is not in"):
        benchmark(find_benchmark(str(mine), configs), configs, network, Overrides())
    (tmp_path / "load.js").touch()
    test = benchmark(find_benchmark(str(mine), configs), configs, network, Overrides())["test"]
    assert test["rounds"][0]["workload"] == {"module": str((tmp_path / "load.js").resolve()), "arguments": {}}
    with pytest.raises(LabError, match="marbles, simple, smallbank, or a Caliper benchmark file is accepted"):
        find_benchmark("nix", configs)


def test_a_digest_is_of_all_that_a_round_runs(tmp_path: Path) -> None:
    """Our modules import each other; one of the user's own needs none of ours."""
    configs = tmp_path / "caliper-configs"
    shutil.copytree(find_configs(), configs)
    mine, entry = tmp_path / "mine.yaml", {"label": "a", "rateControl": {"type": "fixed-load"}}
    mine.write_text(yaml.safe_dump({"test": {"rounds": [{**entry, "workload": {"module": "load.js"}}]}}))
    (tmp_path / "load.js").touch()
    ours = find_benchmark("marbles", configs)
    label = str(yaml.safe_load(ours.read_text())["test"]["rounds"][0]["label"])

    def changed(file: Path) -> tuple[bool, bool]:
        """Whether a change of this file changes the digest of ours, and of the user's own."""
        before = digest(ours, configs, label), digest(mine, configs, "a")
        file.write_text(file.read_text() + "\n")
        return digest(ours, configs, label) != before[0], digest(mine, configs, "a") != before[1]

    for name in ("contract-workload", "marbles-workload", "marbles-init"):
        assert changed(configs / "workloads" / f"{name}.js") == (True, False), name
    assert changed(configs / "observers" / "latency.js") == (True, True)
    assert changed(ours) == (True, False)
    assert changed(mine) == changed(tmp_path / "load.js") == (False, True)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"rounds": None}, r"test\.rounds: null: accepted is a valid list"),
        ({"rounds": []}, r"test\.rounds: \[\]"),
        ({"rounds": [{}]}, r"test\.rounds\.0\.label: missing"),
        ({"workers": 3}, r"test\.workers: 3: accepted is a "),
        ({"rateControl": "fixed-rate"}, r"test\.rounds\.0\.rateControl: \"fixed-rate\": accepted is a mapping"),
        ({"workload": {}}, r"test\.rounds\.0\.workload\.module: missing"),
        ({"twice": True}, r"test\.rounds: .*accepted are rounds with a label each: 2 are named a"),
    ],
)
def test_a_bad_benchmark_file(configs: Path, tmp_path: Path, wrong: dict[str, Any], says: str) -> None:
    """Above all two rounds of one label: Caliper's report and our observer would count them as one round."""
    control = {"rateControl": {"type": "fixed-rate"}, "workload": {"module": "load.js"}}
    entry = {"label": "a", "txNumber": 5, **{key: wrong.get(key, value) for key, value in control.items()}}
    test = {
        "rounds": [entry] * (2 if "twice" in wrong else 1),
        **{k: v for k, v in wrong.items() if k in ("rounds", "workers")},
    }
    (tmp_path / "load.js").touch()
    mine = tmp_path / "mine.yaml"
    mine.write_text(yaml.safe_dump({"test": test}))
    network = filled(configs, description(tmp_path))
    with pytest.raises(LabError, match=rf"mine\.yaml: {says}"):
        benchmark(mine, configs, network, Overrides())
