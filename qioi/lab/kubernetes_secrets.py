"""What the pods of deploy/k8s/ledger need of a network: Secrets with keys and configurations, one ConfigMap.

A Secret's files lie in one folder, without slashes in their names. So each file is renamed, and the configurations
that name it are rewritten. A StatefulSet's Secret holds what its own pods need; no other keys are in it.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from qioi.lab.network import find_binary, make_network
from qioi.lab.options import LabOptions
from qioi.lab.systems.ledger import init_flags

#: The headless Service of deploy/k8s/ledger, and where its pods see their files.
SERVICE = "ledger"
NODES = "nodes"
Document = dict[str, Any]


def network_secrets(options: LabOptions, namespace: str) -> list[Document]:
    """Make a network and give its objects; its keys are nowhere else."""
    with tempfile.TemporaryDirectory(prefix="qioi-network-") as folder:
        directory = Path(folder) / "network"
        make_network(find_binary(), directory, ["--kubernetes", SERVICE, *init_flags(options)])
        return objects_of(directory, namespace)


def objects_of(directory: Path, namespace: str) -> list[Document]:
    """Give the objects of a network that `qioi-ledger init --kubernetes` has made in ``directory``."""
    network = json.loads((directory / "network.json").read_text(encoding="utf-8"))
    sets: dict[str, dict[str, bytes]] = {}
    for node in network["nodes"]:
        if "config" in node:
            name = node["name"].rpartition("-")[0]
            sets.setdefault(name, {}).update(node_files(directory, node["name"], node["config"]))
    documents = [secret(f"ledger-{name}", namespace, files) for name, files in sets.items()]
    documents.append(secret("ledger-client", namespace, client_files(directory, network)))
    described = {"network.json": json.dumps(network, indent=1)}
    documents.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named("ledger-network", namespace),
                      "data": described})  # fmt: skip
    return documents


def node_files(directory: Path, name: str, config: str) -> dict[str, bytes]:
    """Give one node's files under their new names, and its configuration, which refers to them."""
    settings = yaml.safe_load((directory / config).read_text(encoding="utf-8"))
    files: dict[str, bytes] = {}

    def move(holder: dict[str, Any], key: str, target: str) -> None:
        if holder.get(key):
            files[target] = (directory / holder[key]).read_bytes()
            holder[key] = f"{NODES}/{target}"

    for key, end in (("cert", "crt"), ("key", "key")):
        move(settings["identity"], key, f"{name}.{end}")
        move(settings["tls"], key, f"{name}.tls.{end}")
    for channel in settings["channels"]:
        move(channel, "genesis", f"{channel['name']}.block")
    files[f"{name}.yaml"] = yaml.safe_dump(settings, sort_keys=False).encode()
    return files


def client_files(directory: Path, network: Document) -> dict[str, bytes]:
    """Give what a load client needs: its identities and its trusted authorities."""
    files: dict[str, bytes] = {}
    clients = []
    for client in network["clients"]:
        moved = {key: f"{client['msp_id']}.{end}" for key, end in (("cert", "crt"), ("key", "key"))}
        files |= {target: (directory / client[key]).read_bytes() for key, target in moved.items()}
        clients.append({**client, **moved})
    trusted = {msp: f"{msp}.tlsca.crt" for msp in network["tls_ca"]}
    files |= {target: (directory / network["tls_ca"][msp]).read_bytes() for msp, target in trusted.items()}
    files["network.json"] = json.dumps({**network, "clients": clients, "tls_ca": trusted}, indent=1).encode()
    return files


def secret(name: str, namespace: str, files: dict[str, bytes]) -> Document:
    """Make a Secret of files."""
    data = {key: base64.b64encode(content).decode() for key, content in files.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": named(name, namespace), "type": "Opaque", "data": data}


def named(name: str, namespace: str) -> Document:
    """Make an object's metadata."""
    return {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/name": "ledger"}}


def as_yaml(documents: Iterable[Document]) -> str:
    """Format objects as kubectl reads them."""
    return yaml.safe_dump_all(documents, sort_keys=False)
