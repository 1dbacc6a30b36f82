"""network.json is read strictly, and the binary is found or its lack is explained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qioi.lab import network as module
from qioi.lab.network import find_binary, load_network, make_network
from qioi.model import Role
from qioi.processes.errors import LabError

NODE = {
    "name": "p",
    "role": "peer",
    "address": "127.0.0.1:1",
    "operations": "127.0.0.1:2",
    "args": ["peer"],
    "log": "log/p.log",
}
DOCUMENT = {"channels": ["c"], "mode": "stream", "consenter": "raft", "nodes": [NODE]}


def test_paths_are_taken_relative_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "network.json"
    path.write_text(json.dumps(DOCUMENT))
    network = load_network(path)
    assert network.nodes[0].log == tmp_path / "log" / "p.log"
    assert (network.nodes[0].name, network.nodes[0].role) == ("p", Role.PEER)


def test_what_the_ledger_says_of_a_network_that_it_does_not_make_is_one_line(tmp_path: Path) -> None:
    """Whoever has one made: a lab, and the Secrets for Kubernetes."""
    binary = tmp_path / "qioi-ledger"
    binary.write_text('#!/bin/sh\necho usage >&2; echo "Error: no $1 into $3" >&2; exit 2\n')
    binary.chmod(0o755)
    with pytest.raises(LabError, match=rf"^`qioi-ledger init` failed \(status 2\): no init into {tmp_path}/new$"):
        make_network(binary, tmp_path / "new", [])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "network.json"),
        (json.dumps({**DOCUMENT, "nodes": [{**NODE, "role": "king"}]}), "king"),
        (json.dumps({key: value for key, value in DOCUMENT.items() if key != "mode"}), "mode"),
        (json.dumps({**DOCUMENT, "nodes": 3}), "int"),
    ],
)
def test_a_malformed_file_is_refused_with_its_name(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "network.json"
    path.write_text(text)
    with pytest.raises(LabError, match=reason) as caught:
        load_network(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_names_its_maker(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="qioi-ledger init"):
        load_network(tmp_path / "network.json")


def test_the_environment_names_the_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QIOI_LEDGER", "/bin/true")
    assert find_binary() == Path("/bin/true").resolve()
    monkeypatch.setenv("QIOI_LEDGER", "/nowhere/qioi-ledger")
    with pytest.raises(LabError, match="/nowhere/qioi-ledger"):
        find_binary()


def test_without_a_binary_the_way_to_build_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("QIOI_LEDGER", raising=False)
    monkeypatch.setattr(module.qioi, "__file__", str(tmp_path / "qioi" / "__init__.py"))
    with pytest.raises(LabError, match="make -C ledger build"):
        find_binary()
