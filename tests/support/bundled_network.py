"""A bundled network of real processes whose chaincodes are somebody else's: a command for each."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ports import free_ports
from waiting import DIES_WITH_TEST, PATIENCE

from qioi.lab.network import find_binary, parse_node
from qioi.lab.readiness import serves
from qioi.processes.launch import last_lines

#: By which variables a chaincode is told what our own is told by options.
TLS_FILES = {
    "CHAINCODE_TLS_CERT": "--tls-cert",
    "CHAINCODE_TLS_KEY": "--tls-key",
    "CHAINCODE_CLIENT_CA_CERT": "--client-ca",
}


@dataclass(frozen=True)
class Served:
    """How a chaincode process is started: its command, and what it needs in its environment."""

    argv: Sequence[str]
    environment: Mapping[str, str]


class BundledNetwork:
    """One orderer, one peer of each of two organisations, and a chaincode process for each peer and contract."""

    def __init__(
        self, folder: Path, policies: Mapping[str, str], channels: Sequence[str], options: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        self.policies = policies
        self.channels = channels
        self.options = options
        self.description = folder / "network.json"
        self.processes: list[subprocess.Popen[bytes]] = []

    def up(self, foreign: Callable[[str], Served | None]) -> None:
        """Start everything and wait until it serves; ``foreign`` gives the command of a chaincode that is not ours."""
        binary = str(find_binary())
        chaincodes = [text for name, policy in self.policies.items() for text in ("--chaincode", f"{name}={policy}")]
        sizes = ["--orderers", "1", "--peers-per-org", "1", "--base-port", str(free_ports())]
        sizes += [text for channel in self.channels for text in ("--channel", channel)]
        subprocess.run(
            [binary, "init", "--dir", str(self.folder), *sizes, *chaincodes, *self.options],
            check=True,
            capture_output=True,
        )
        nodes: list[dict[str, Any]] = json.loads(self.description.read_text())["nodes"]
        contracts = [node for node in nodes if node["role"] == "chaincode"]
        for node in contracts:
            served = foreign(node["chaincode"])
            if served is None:
                self.start(node, [binary, *node["args"]], {})
            else:
                self.start(node, served.argv, {**served.environment, **told(node)})
        self.wait(contracts)
        others = [node for node in nodes if node["role"] != "chaincode"]
        for node in others:
            self.start(node, [binary, *node["args"]], {})
        self.wait(others)

    def wait(self, nodes: list[dict[str, Any]]) -> None:
        """Return when all of them answer."""
        deadline = time.monotonic() + PATIENCE
        waiting = [parse_node(node, self.folder) for node in nodes]
        while waiting:
            waiting = [node for node in waiting if not serves(node)]
            if time.monotonic() > deadline:
                ends = "\n".join(f"{node.name}: {last_lines(node.log, 3)}" for node in waiting)
                raise RuntimeError(f"not serving after {PATIENCE:g} s:\n{ends}")
            time.sleep(0.1)

    def start(self, node: dict[str, Any], argv: Sequence[str], environment: Mapping[str, str]) -> None:
        log = self.folder / node["log"]
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as file:
            self.processes.append(
                subprocess.Popen(
                    [*DIES_WITH_TEST, *argv],
                    cwd=self.folder,
                    env={**os.environ, **environment},
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                )
            )

    def down(self) -> None:
        """End everything."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def told(node: dict[str, Any]) -> dict[str, str]:
    """What tells a chaincode process who it is."""
    name, args = node["chaincode"], node["args"]
    environment = {"CONTRACT": name, "CHAINCODE_SERVER_ADDRESS": node["address"], "CHAINCODE_ID": f"{name}:1.0"}
    for variable, flag in TLS_FILES.items():
        if flag in args:
            environment[variable] = args[args.index(flag) + 1]
    return environment
