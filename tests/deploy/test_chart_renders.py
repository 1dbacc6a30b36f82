"""What the chart's templates make of its values, rendered by a stand-in for helm; tests/kubernetes has helm itself."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from qioi.settings.config import load_config
from qioi.settings.kubernetes import KubernetesConfig

K8S = Path(__file__).parents[2] / "deploy/k8s"
SCHEMA = json.loads((K8S / "chart/values.schema.json").read_text())
pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("go") is None, reason="needs Go: builds the stand-in")]
Render = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def render(tmp_path_factory: pytest.TempPathFactory) -> Render:
    """Render by values beside the chart's own; give the objects by kind."""
    program = tmp_path_factory.mktemp("renderer") / "render"
    source = Path(__file__).parent / "chart_renderer/render.go"
    subprocess.run(["go", "build", "-o", str(program), str(source)], check=True, timeout=600)

    def render(**values: Any) -> dict[str, Any]:
        merged = yaml.safe_load((K8S / "chart/values.yaml").read_text()) | values
        assert Draft7Validator(SCHEMA).is_valid(merged)
        given = json.dumps({"Values": merged, "Release": {"Namespace": "qioi"}})
        templates = sorted((K8S / "chart/templates").glob("*.yaml"))
        done = subprocess.run([program, *templates], input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return {one["kind"]: one for one in yaml.safe_load_all(done.stdout) if one}

    return render


def section(made: dict[str, Any], folder: Path) -> KubernetesConfig:
    """Read the section of the configuration that is about the cluster, as the daemon does."""
    (folder / "qioi.yaml").write_text(made["ConfigMap"]["data"]["qioi.yaml"])
    config = load_config(folder / "qioi.yaml")
    assert config.kubernetes is not None
    return config.kubernetes


def volumes(made: dict[str, Any]) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Give each volume of the daemon's pod, with its mount in the daemon's container."""
    pod = made["DaemonSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {one["name"]: one for one in container["volumeMounts"]}
    return {one["name"]: (one, mounts[one["name"]]) for one in pod["volumes"]}


def test_the_charts_own_values_make_what_is_in_base(render: Render) -> None:
    made, base = render(), yaml.safe_load((K8S / "base/daemonset.yaml").read_text())
    del made["DaemonSet"]["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
    assert made["DaemonSet"] == base
    said = yaml.safe_load(made["ConfigMap"]["data"]["qioi.yaml"])
    assert said == yaml.safe_load((K8S / "base/qioi.yaml").read_text())


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, KubernetesConfig()),
        ({"cgroupRoot": "/kubelet", "logs": "/data/pods"}, KubernetesConfig(cgroup_root="/kubelet", logs="/data/pods")),
        ({"resize": True, "cgroupRoot": "/a: b"}, KubernetesConfig(resize=True, cgroup_root="/a: b")),
    ],
)
def test_what_a_kubelet_has_of_its_own_is_told_to_the_daemon(
    render: Render, tmp_path: Path, values: dict[str, Any], expected: KubernetesConfig
) -> None:
    assert section(render(**values), tmp_path) == expected


def test_another_folder_of_logs_is_mounted_where_the_daemon_looks(render: Render) -> None:
    volume, mount = volumes(render(logs="/data/pods"))["logs"]
    assert (volume["hostPath"]["path"], mount["mountPath"], mount["readOnly"]) == ("/data/pods", "/data/pods", True)


def test_the_engines_folder_of_cri_dockerd_is_mounted_beside_the_others(render: Render) -> None:
    """As docs/kubernetes.md says, with further keys of the daemon's file at the same time."""
    page = (K8S.parents[1] / "docs/kubernetes.md").read_text()
    lines = [line.strip() for line in page.splitlines() if line.startswith("    extraVolume")]
    made = render(**yaml.safe_load("\n".join(lines)), config={"boost_cap": 0.8})
    assert volumes(made).keys() == {"cgroup", "logs", "state", "config", "docker"}
    volume, mount = volumes(made)["docker"]
    folder = "/var/lib/docker/containers"
    assert (volume["hostPath"]["path"], mount["mountPath"], mount["readOnly"]) == (folder, folder, True)
    assert yaml.safe_load(made["ConfigMap"]["data"]["qioi.yaml"])["boost_cap"] == 0.8


@pytest.mark.parametrize("resize", [False, True])
def test_the_plugins_socket_is_told_to_the_daemon(render: Render, tmp_path: Path, resize: bool) -> None:
    own = yaml.safe_load((K8S / "chart/values.yaml").read_text())["nri"]
    made = render(nri={**own, "enabled": True}, resize=resize)
    assert section(made, tmp_path) == KubernetesConfig(nri="/run/qioi-nri/qioi-nri.sock", resize=resize)
