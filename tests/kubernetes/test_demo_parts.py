"""What the demo on Kubernetes makes without a cluster: Secrets, images, and what it reads of containers' logs."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from demo_k8s import MANIFESTS
from demo_k8s.__main__ import logs_of_a_failure
from demo_k8s.cluster import age, best_effort, on_the_nodes_network, read_log, unwrap
from demo_k8s.control_plane import Processes, run, until
from demo_k8s.host import hierarchies
from demo_k8s.images import daemon_image, ledger_image, sysbench_image
from demo_k8s.ledger import on_loopback
from rich.console import Console

from qioi.commands.lab import command
from qioi.commands.lab_errors import one_line_errors
from qioi.processes.errors import LabError

Document = dict[str, Any]


@pytest.fixture(scope="module")
def network() -> dict[str, Document]:
    said = CliRunner().invoke(command, ["secrets", "--mode", "block", "--namespace", "ledger"])
    assert said.exit_code == 0, said.output
    return {one["metadata"]["name"]: one for one in yaml.safe_load_all(said.output)}


def files(one: Document) -> dict[str, bytes]:
    return {name: base64.b64decode(content) for name, content in one["data"].items()}


def documents() -> list[Document]:
    found = sorted(MANIFESTS.glob("ledger/**/*.yaml"))
    return [one for file in found for one in yaml.safe_load_all(file.read_text())]


def test_every_set_of_pods_finds_what_it_mounts(network: dict[str, Document]) -> None:
    workloads = [one for one in documents() if one["kind"] in ("StatefulSet", "Job")]
    used = set()
    for one in workloads:
        for volume in one["spec"]["template"]["spec"]["volumes"]:
            used |= {volume.get("secret", {}).get("secretName"), volume.get("configMap", {}).get("name")}
    assert used - {None} == set(network)
    described = json.loads(network["ledger-network"]["data"]["network.json"])
    pods = {f"{one['metadata']['name']}-{n}" for one in workloads if one["kind"] == "StatefulSet"
            for n in range(one["spec"]["replicas"])}  # fmt: skip
    assert pods == {node["name"] for node in described["nodes"]}


@pytest.mark.parametrize("name", ["orderer", "peer-org1", "peer-org2"])
def test_a_secret_holds_all_that_its_configurations_name_and_no_other_key(
    network: dict[str, Document], name: str
) -> None:
    held = files(network[f"ledger-{name}"])
    named = set()
    for file in [one for one in held if one.endswith(".yaml")]:
        settings = yaml.safe_load(held[file])
        paths = [settings[part][key] for part in ("identity", "tls") for key in ("cert", "key")]
        named |= {file, *(one.removeprefix("nodes/") for one in (*paths, settings["channels"][0]["genesis"]))}
    assert named == set(held)
    assert all(b"PRIVATE KEY" in content for key, content in held.items() if key.endswith(".key"))


def test_the_client_finds_what_its_network_names(network: dict[str, Document]) -> None:
    held = files(network["ledger-client"])
    described = json.loads(held["network.json"])
    named = {one[key] for one in described["clients"] for key in ("cert", "key")} | set(described["tls_ca"].values())
    assert named | {"network.json"} == set(held)


def test_a_namespace_is_where_its_secrets_are() -> None:
    said = CliRunner().invoke(command, ["secrets", "--namespace", "other"])
    assert {one["metadata"]["namespace"] for one in yaml.safe_load_all(said.output)} == {"other"}


def unpack(archive: Path, root: Path) -> Document:
    """Unpack an image's layer; give its configuration."""
    with tarfile.open(archive) as image:
        (manifest,) = json.loads(image.extractfile("manifest.json").read())  # type: ignore[union-attr]
        config: Document = json.loads(image.extractfile(manifest["Config"]).read())["config"]  # type: ignore[union-attr]
        (layer,) = manifest["Layers"]
        with tarfile.open(fileobj=image.extractfile(layer)) as files:
            # Python 3.11.2, Debian 12's, has no filters; later ones refuse an image's links unless told otherwise.
            files.extraction_filter = getattr(tarfile, "tar_filter", lambda member, _: member)
            files.extractall(root)
    return config


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: chroot")
@pytest.mark.parametrize(
    ("make", "program", "says"),
    [(ledger_image, ["/usr/bin/qioi-ledger", "--help"], "permissioned ledger"),
     (sysbench_image, ["/usr/bin/sysbench", "--version"], "sysbench 1.")],
)  # fmt: skip
def test_an_image_holds_all_that_its_program_needs(make: Any, program: list[str], says: str, tmp_path: Path) -> None:
    config = unpack(make(tmp_path), tmp_path / "root")
    assert config["Entrypoint"] == program[:1]
    said = subprocess.run(["chroot", tmp_path / "root", *program], capture_output=True, text=True, check=True).stdout
    assert says in said


@pytest.mark.slow
@pytest.mark.host
def test_the_daemon_starts_from_compiled_modules(tmp_path: Path) -> None:
    """It could not keep what it has compiled: its container's root is read-only."""
    root = tmp_path / "root"
    config = unpack(daemon_image(tmp_path), root)
    environment = {**os.environ, **dict(one.split("=", 1) for one in config["Env"]), "PATH": os.environ["PATH"]}
    modules = "qioi.commands.run, qioi.daemon.service, qioi.kubernetes.service"
    done = subprocess.run(["chroot", root, "/usr/bin/python3", "-v", "-c", f"import {modules}"],
                          capture_output=True, text=True, check=True, env=environment)  # fmt: skip
    loaded = [line for line in done.stderr.splitlines() if line.startswith("# code object from ")]
    assert any("/qioi/kubernetes/__pycache__/service." in line for line in loaded)
    assert [line for line in loaded if line.endswith(".py'")] == []


def test_a_containers_log_is_unwrapped_by_stream() -> None:
    text = 'T1 stdout F {\nT2 stderr F progress\nT3 stdout P  "a":\nT4 stdout F  1}\nT5 stdout F\nno log line\n'
    assert unwrap(text, "stdout") == '{\n "a": 1}\n\n'
    assert unwrap(text, "stderr") == "progress\n"


def test_manifests_are_adapted_to_a_node_without_a_pod_network() -> None:
    adapted = best_effort(on_the_nodes_network(documents(), ["peer-org1-0.ledger", "orderer-0.ledger"]))
    for one in adapted:
        spec = one.get("spec", {}).get("template", {}).get("spec")
        if spec is None:
            continue
        assert spec["hostNetwork"]
        assert spec["hostAliases"] == [{"ip": "127.0.0.1", "hostnames": ["orderer-0.ledger", "peer-org1-0.ledger"]}]
        assert all(c["imagePullPolicy"] == "Never" and "resources" not in c for c in spec["containers"])
        assert all(v["emptyDir"] == {"medium": "Memory"} for v in spec.get("volumes", ()) if "emptyDir" in v)
    assert on_loopback("orderer-0.ledger:17000") == "127.0.0.1:17000"
    assert on_loopback("") == ""


@pytest.mark.parametrize(
    ("there", "roots"),
    [(["cpu/tasks", "memory/tasks", "unified/cgroup.controllers"], ["cpu", "memory"]),
     (["cgroup.controllers", "cpu.stat", "user.slice/cpu.weight"], ["."])],
    ids=["v1", "v2"],
)  # fmt: skip
def test_where_another_nodes_groups_are_made(there: list[str], roots: list[str], tmp_path: Path) -> None:
    for file in (tmp_path / one for one in there):
        file.parent.mkdir(exist_ok=True)
        file.touch()
    assert sorted(hierarchies(tmp_path)) == [tmp_path / one for one in roots]


def test_a_programs_failure_is_told_with_what_it_said() -> None:
    complains = ["sh", "-c", "echo said; echo why >&2; exit ${STATUS}"]
    with pytest.raises(LabError, match=r"^sh -c .* ended with 3: why$"):
        run(complains, STATUS="3")
    assert run(complains, STATUS="3", fails=True) == "why\n"
    assert run(complains, STATUS="0") == "said\n"
    with pytest.raises(LabError, match="ended with 0"):
        run(complains, STATUS="0", fails=True)
    with pytest.raises(LabError, match=r"^sleep 600 did not end within 0\.1 s$"):
        run(["sleep", "600"], patience=0.1)


def test_what_is_waited_for_in_vain_is_named() -> None:
    """As it is at the end of the wait."""
    with pytest.raises(LabError, match="in vain: the node is ready"):
        until(lambda: False, "the node is ready", 0)
    missing: list[str] = []
    with pytest.raises(LabError, match="in vain: peer0"):
        until(lambda: missing.append("peer0"), lambda: missing[-1], 0)


def test_the_logs_of_a_node_that_fails_are_kept(tmp_path: Path) -> None:
    folder, kept = tmp_path / "node", tmp_path / "results/node"
    folder.mkdir()
    processes, console = Processes(folder), Console(file=io.StringIO(), width=60)
    processes.start("kubelet", ["sh", "-c", "echo no such cgroup; exit 1"])
    processes.running["kubelet"].wait()
    with pytest.raises(click.ClickException, match="kubelet has ended with 1: no such cgroup"), one_line_errors(), \
            logs_of_a_failure(folder, kept, console):  # fmt: skip
        processes.check("kubelet")
    assert (kept / "kubelet.log").read_text() == "no such cgroup\n"
    assert str(kept) in console.file.getvalue()  # type: ignore[attr-defined]


def test_no_logs_are_kept_of_a_node_that_was_interrupted(tmp_path: Path) -> None:
    (tmp_path / "kubelet.log").touch()
    with pytest.raises(KeyboardInterrupt), logs_of_a_failure(tmp_path, tmp_path / "kept", Console(file=io.StringIO())):
        raise KeyboardInterrupt
    assert not (tmp_path / "kept").exists()


def test_what_the_kubelet_has_rotated_is_a_part_of_the_log(tmp_path: Path) -> None:
    parts = ["1.log", "0.log.20261129-090001", "0.log.20261129-080000.gz", "0.log"]
    for name in parts:
        file = tmp_path / name
        file.write_bytes(gzip.compress(name.encode()) if name.endswith("gz") else name.encode())
    order = ["0.log.20261129-080000.gz", "0.log.20261129-090001", "0.log", "1.log"]
    assert [read_log(one) for one in sorted(tmp_path.iterdir(), key=age)] == order
