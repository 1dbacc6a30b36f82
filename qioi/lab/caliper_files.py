"""The two files that a Caliper run reads, made from what the user names: network and benchmark.

Both are complete and have absolute paths, so that a run's folder documents what was measured.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import qioi
from qioi.lab import caliper_shapes
from qioi.processes.errors import LabError
from qioi.settings import documents

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line changes of the benchmark file; ``None`` leaves the file's value."""

    rounds: tuple[str, ...] = ()
    workers: int | None = None
    duration: int | None = None  # seconds of each round
    transactions: int | None = None  # of each round, in place of a duration
    rate: float | None = None  # transactions per second of fixed-rate rounds
    load: int | None = None  # transactions in flight in fixed-load rounds
    seed: int | None = None  # of the workloads' choices, their round argument of that name


def find_configs() -> Path:
    """Find caliper-configs/: in the source tree, or in the installed package."""
    package = Path(qioi.__file__).resolve().parent
    for place in (package.parent / "caliper-configs", package / "caliper-configs"):
        if (place / "package-lock.json").is_file():
            return place
    raise LabError(f"caliper-configs/ is missing beside {package}: it is part of QiOi's source tree")


def load_mapping(path: Path) -> Document:
    """Read a YAML or JSON file that must hold a mapping."""
    try:
        document = documents.read_yaml(path)
    except documents.ConfigError as error:
        raise LabError(str(error)) from error
    if not isinstance(document, dict):
        raise LabError(f"{path}: accepted is a mapping, not {type(document).__name__}")
    return document


def bundled_network(template: Path, description: Path) -> Document:
    """Fill the template from a network.json that ``qioi-ledger init`` wrote."""
    base = description.parent.resolve()
    document = load_mapping(template)
    try:
        network = documents.read_json(description)
        nodes = network["nodes"]
        contracts = list(dict.fromkeys(str(n["chaincode"]) for n in nodes if n["role"] == "chaincode"))
        channel, organization = document["channels"][0], document["organizations"][0]
        document["channels"] = [
            {**_filled(channel, {"channel": name}), "contracts": _contracts(name, contracts, first=index == 0)}
            for index, name in enumerate(network["channels"])
        ]
        document["organizations"] = [
            _organization(organization, client, nodes, network, base) for client in _first_clients(network["clients"])
        ]
        document["info"] = _filled(document["info"], {key: str(network[key]) for key in ("mode", "consenter")})
    except FileNotFoundError:
        raise LabError(f"{description} is missing: `qioi lab up` makes it") from None
    except (KeyError, IndexError, TypeError, ValueError, StopIteration) as error:
        raise LabError(f"{description} or {template}: {type(error).__name__}: {error}") from error
    return document


def _contracts(channel: str, names: Iterable[str], *, first: bool) -> list[Document]:
    # Caliper knows a contract by one name across all channels.
    return [{"id": name, "contractID": name if first else f"{channel}/{name}"} for name in names]


def _first_clients(clients: Sequence[Document]) -> list[Document]:
    return list({client["msp_id"]: client for client in reversed(clients)}.values())[::-1]


def _organization(entry: Document, client: Document, nodes: list[Document], network: Document, base: Path) -> Document:
    msp_id = client["msp_id"]
    peers = [node["address"] for node in nodes if node["role"] == "peer" and node["msp_id"] == msp_id]
    values = {
        "msp_id": msp_id,
        "client": client["name"],
        "key": str(base / client["key"]),
        "certificate": str(base / client["cert"]),
        "tls_ca": str(base / network["tls_ca"][msp_id]) if network["tls"] else "",
    }
    filled: Document = _filled({key: value for key, value in entry.items() if key != "peers"}, values)
    filled["peers"] = [_filled(entry["peers"][0], {**values, "endpoint": address}) for address in peers]
    if not network["tls"]:
        for peer in filled["peers"]:
            peer.pop("tlsCACerts", None)
    return filled


def _filled(value: Any, values: dict[str, str]) -> Any:
    """Put values in place of the words in braces, at any depth."""
    if isinstance(value, dict):
        return {key: _filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    if isinstance(value, str):
        for word, text in values.items():
            value = value.replace("{" + word + "}", text)
    return value


def user_network(path: Path, configs: Path) -> Document:
    """Read a Caliper network file of the user's own and make its paths absolute."""
    document = load_mapping(path)
    try:
        caliper_shapes.check(caliper_shapes.Network, document, path)
    except LabError as error:
        raise LabError(f"{error}; see {configs / 'networks' / 'fabric.yaml'}") from error
    _absolute_paths(document["organizations"], (path.resolve().parent, configs), f"{path}: organizations")
    return document


def _absolute_paths(value: Any, bases: Sequence[Path], where: str) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _absolute_paths(item, bases, f"{where}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "path" and isinstance(item, str):
                value[key] = str(_locate(item, bases, f"{where}.path"))
            else:
                _absolute_paths(item, bases, f"{where}.{key}")


def _locate(name: str, bases: Sequence[Path], where: str) -> Path:
    for base in bases:
        if (base / name).exists():
            return (base / name).resolve()
    raise LabError(f"{where}: {name} is not in {' nor in '.join(map(str, dict.fromkeys(bases)))}")


def msp_ids(network: Document) -> list[str]:
    """Name the organisations that have an identity in the network file."""
    return [str(organization["mspid"]) for organization in network["organizations"]]


def contract_ids(network: Document) -> set[str]:
    """Name the contracts as workloads know them."""
    contracts = [contract for channel in network["channels"] for contract in channel.get("contracts") or ()]
    return {str(contract.get("contractID") or contract["id"]) for contract in contracts}


def find_benchmark(name: str, configs: Path) -> Path:
    """Take a name from caliper-configs/benchmarks/, or a file."""
    ours = configs / "benchmarks" / f"{name}.yaml"
    if ours.is_file():
        return ours
    if Path(name).is_file():
        return Path(name)
    names = ", ".join(sorted(path.stem for path in ours.parent.glob("*.yaml")))
    raise LabError(f"benchmark {name}: {names}, or a Caliper benchmark file is accepted")


def benchmark(path: Path, configs: Path, network: Document, overrides: Overrides) -> Document:
    """Read a benchmark file, choose its rounds, apply the command line and check it against the network."""
    document = load_mapping(path)
    caliper_shapes.check(caliper_shapes.Benchmark, document, path)
    test = document["test"]
    # Rounds may share parts by YAML's anchors, so each is copied.
    rounds = [copy.deepcopy(entry) for entry in test["rounds"]]
    labels = [str(entry["label"]) for entry in rounds]
    unknown = [label for label in overrides.rounds if label not in labels]
    if unknown:
        raise LabError(f"{path}: no round {', '.join(unknown)}; {', '.join(labels)} are accepted")
    test["rounds"] = [r for r, label in zip(rounds, labels, strict=True) if label in (overrides.rounds or labels)]
    if overrides.workers is not None:
        test["workers"] = {**(test.get("workers") or {}), "number": overrides.workers}
    _apply(path, test["rounds"], overrides)
    _check_shares(path, test, overrides)
    for entry in test["rounds"]:
        _resolve_workload(entry, path, configs, network)
        if overrides.seed is not None:
            entry["workload"]["arguments"]["seed"] = overrides.seed
    return document


def digest(path: Path, configs: Path, label: str) -> str:
    """Give the SHA-256 of what is run for a round of a benchmark file.

    Those are the file itself, the workload's module, all of our modules if it is one of them (they import each other),
    and our observer.
    """
    document = load_mapping(path)
    caliper_shapes.check(caliper_shapes.Benchmark, document, path)
    files = [path, observer(configs)]
    for entry in document["test"]["rounds"]:
        if str(entry["label"]) == label:
            module = _module(entry, path, configs)
            files += sorted(module.parent.glob("*.js")) if _is_ours(module, configs) else [module]
    each = (hashlib.sha256(file.read_bytes()).digest() for file in files)
    return hashlib.sha256(b"".join(each)).hexdigest()


def observer(configs: Path) -> Path:
    """Find the module that takes down each transaction's times."""
    return configs / "observers" / "latency.js"


def _check_shares(path: Path, test: Document, overrides: Overrides) -> None:
    """Refuse what the command line has the workers do in unequal parts. LabError.

    Caliper divides both numbers by the workers. Each sends the whole part of its transactions, and at least 1; and each
    goes on while less than its part of the load is under way, so it rounds up. A file's own numbers are as Caliper has
    them, unless the workers are others than the file's.
    """
    workers = (test.get("workers") or {}).get("number", 1)
    if not isinstance(workers, int) or workers < 1:
        return
    asked = {"txNumber": ("--transactions", overrides.transactions), "transactionLoad": ("--load", overrides.load)}
    numbers: dict[str, int] = {}
    checked: set[str] = set()
    for entry in test["rounds"]:
        for key, number in _divided(entry).items():
            if not isinstance(number, int):
                continue
            option, given = asked[key]
            name = f"{option} {given}" if given is not None else f"{key} {number} of round {entry['label']}"
            numbers[name] = number
            if given is not None or overrides.workers is not None:
                checked.add(name)
    uneven = [name for name, number in numbers.items() if name in checked and number % workers]
    if uneven:
        fewer = max(few for few in range(1, workers) if not any(number % few for number in numbers.values()))
        raise LabError(
            f"{path}: {', '.join(uneven)}: each of {workers} workers does an equal part: accepted is a multiple of "
            f"{workers}, or --workers {fewer}"
        )


def _divided(entry: Document) -> dict[str, object]:
    """Give what the workers share of a round, where it is such a round: transactions, and those in flight."""
    control = entry["rateControl"]
    opts = (control.get("opts") or {}) if control["type"] == "fixed-load" else {}
    return {"txNumber": entry.get("txNumber"), "transactionLoad": opts.get("transactionLoad")}


def _apply(path: Path, rounds: list[Document], overrides: Overrides) -> None:
    controls = {
        "fixed-rate": ("tps", overrides.rate, "--rate"),
        "fixed-load": ("transactionLoad", overrides.load, "--load"),
    }
    used = set()
    for entry in rounds:
        if overrides.transactions is not None:
            entry.pop("txDuration", None)
            entry["txNumber"] = overrides.transactions
        elif overrides.duration is not None:
            entry.pop("txNumber", None)
            entry["txDuration"] = overrides.duration
        control = entry["rateControl"]
        kind = str(control["type"])
        key, value, _ = controls.get(kind, ("", None, ""))
        if value is not None:
            control["opts"] = {**(control.get("opts") or {}), key: value}
            used.add(kind)
    for kind, (_, value, option) in controls.items():
        if value is not None and kind not in used:
            raise LabError(f"{path}: {option} changes {kind} rounds, and none of the chosen ones is such a round")


def _module(entry: Document, path: Path, configs: Path) -> Path:
    where = f"{path}: round {entry['label']}: workload.module"
    return _locate(str(entry["workload"]["module"]), (path.resolve().parent, configs), where)


def _is_ours(module: Path, configs: Path) -> bool:
    return module.parent == configs / "workloads"


def _resolve_workload(entry: Document, path: Path, configs: Path, network: Document) -> None:
    where = f"{path}: round {entry['label']}"
    workload = entry["workload"]
    module = _module(entry, path, configs)
    workload["module"] = str(module)
    arguments = workload["arguments"] = dict(workload.get("arguments") or {})
    contract = arguments.get("contractId")
    if _is_ours(module, configs):
        # Our own: the file's name begins with the contract's, and workers take the organisations in turn.
        contract = contract or module.stem.split("-")[0]
        arguments.setdefault("invokerMspIds", msp_ids(network))
    known = contract_ids(network)
    if contract is not None and contract not in known:
        raise LabError(f"{where} calls contract {contract}; the network has {', '.join(sorted(known)) or 'none'}")
