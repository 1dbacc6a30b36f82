"""What ``qioi-ledger init`` made: the nodes of network.json, and where the ledger's binary is."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import qioi
from qioi.model import Role
from qioi.processes.errors import LabError
from qioi.settings.documents import read_json

BINARY_NAME = "qioi-ledger"


@dataclass(frozen=True, slots=True)
class Node:
    """One process of the network. ``log`` is absolute; ``operations`` is empty for a chaincode.

    A broker of Kafka, which is not the ledger's own, has no ``arguments``, and a second address, ``controller``.
    ``metrics`` is the URL of the page on which a database counts what it does, if it has one.
    """

    name: str
    role: Role
    address: str
    operations: str
    arguments: tuple[str, ...]
    log: Path
    controller: str = ""
    metrics: str = ""


@dataclass(frozen=True, slots=True)
class Network:
    """The network as a whole."""

    path: Path
    channels: tuple[str, ...]
    mode: str
    consenter: str
    nodes: tuple[Node, ...]


def make_network(binary: Path, directory: Path, arguments: Sequence[str]) -> None:
    """Have the ledger make a network in a new folder: identities, channels, configurations. LabError."""
    command = [str(binary), "init", "--dir", str(directory), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1].removeprefix("Error: ")
        raise LabError(f"`{BINARY_NAME} init` failed (status {done.returncode}): {reason}")


def load_network(path: Path) -> Network:
    """Read network.json; LabError names the file and the key of what is missing or malformed."""
    try:
        document = read_json(path)
        return Network(
            path=path,
            channels=tuple(str(channel) for channel in document["channels"]),
            mode=str(document["mode"]),
            consenter=str(document["consenter"]),
            nodes=tuple(parse_node(node, path.parent) for node in document["nodes"]),
        )
    except FileNotFoundError:
        raise LabError(f"{path} is missing: `{BINARY_NAME} init` writes it") from None
    except (KeyError, TypeError, ValueError) as error:
        raise LabError(f"{path}: {type(error).__name__}: {error}; the file is `{BINARY_NAME} init`'s") from error


def parse_node(node: dict[str, Any], directory: Path) -> Node:
    """Take over one entry of ``nodes``."""
    return Node(
        name=str(node["name"]),
        role=Role(node["role"]),
        address=str(node["address"]),
        operations=str(node.get("operations") or ""),
        arguments=tuple(str(argument) for argument in node["args"]),
        log=directory / str(node["log"]),
        controller=str(node.get("controller") or ""),
        metrics=str(node.get("metrics") or ""),
    )


def find_binary() -> Path:
    """Find the ledger: $QIOI_LEDGER, the source tree's own build, the one in the package."""
    override = os.environ.get("QIOI_LEDGER")
    if override:
        found = shutil.which(override)
        if found is None:
            raise LabError(f"QIOI_LEDGER={override} is no executable file")
        return Path(found).resolve()
    package = Path(qioi.__file__).resolve().parent
    places = (package.parent / "ledger" / "bin" / BINARY_NAME, package / "_bin" / BINARY_NAME)
    for place in places:
        if os.access(place, os.X_OK):
            return place
    raise LabError(
        f"the ledger's binary {BINARY_NAME} is missing (looked at {', '.join(map(str, places))}): "
        "install the wheel that brings it, build it in the source tree with `make -C ledger build`, which needs Go, or "
        "name it in QIOI_LEDGER"
    )
