"""The configuration's section `kubernetes`, and a start that cannot succeed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from qioi.kubernetes.client import in_cluster
from qioi.kubernetes.service import NoClusterError, reach
from qioi.settings.config import load_config
from qioi.settings.documents import ConfigError
from qioi.settings.kubernetes import KubernetesConfig


def problems(folder: Path, document: object) -> tuple[str, ...]:
    (folder / "qioi.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError) as refused:
        load_config(folder / "qioi.yaml")
    return refused.value.problems


def test_nothing_has_to_be_said_in_a_pod(tmp_path: Path) -> None:
    (tmp_path / "qioi.yaml").write_text("kubernetes: {}\n")
    config = load_config(tmp_path / "qioi.yaml")
    assert config.kubernetes == KubernetesConfig()
    assert config.discovers


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"nodes": "a"}, "kubernetes.nodes: unknown key: accepted are node, server, ca, token, cgroup_root, logs"),
        ({"server": "10.0.0.1"}, "accepted is a URL such as https://10.96.0.1:443"),
        ({"server": "https://a:1/k8s?cluster=b"}, "accepted is a URL such as https://10.96.0.1:443"),
        ({"server": "https://a:1/#k8s"}, "accepted is a URL such as https://10.96.0.1:443"),
        ({"node": ""}, "kubernetes.node"),
        ({"logs": "pods"}, 'kubernetes.logs: "pods": accepted is an absolute path'),
        ({"cgroup_root": "../.."}, 'kubernetes.cgroup_root: "../..": accepted is a path below the CPU controller'),
        ({"cgroup_root": "/kubelet/../a"}, "accepted is a path below the CPU controller's mount"),
    ],
)
def test_a_wrong_key_is_named(tmp_path: Path, section: dict[str, str], words: str) -> None:
    (problem,) = problems(tmp_path, {"kubernetes": section})
    assert words in problem


@pytest.mark.parametrize("root", ["", "/", "kubelet", "/kubelet", "/kubelet/pods/"])
def test_the_kubelets_root_may_begin_with_a_slash(root: str) -> None:
    assert KubernetesConfig(cgroup_root=root).cgroup_root == root


def test_a_cluster_is_the_only_source_of_components(tmp_path: Path) -> None:
    found = problems(tmp_path, {"kubernetes": {}, "channels": {"red": {"threshold": 5}}})
    assert any("there, components are pods" in problem for problem in found)


@pytest.mark.parametrize("key", [{"defaults": {"threshold": 400}}, {"mine": ["system.slice/caliper.service"]}])
def test_what_a_cluster_says_by_policies_is_refused_in_the_file(tmp_path: Path, key: dict[str, object]) -> None:
    (problem,) = problems(tmp_path, {"kubernetes": {}, **key})
    assert problem == (
        f"{tmp_path / 'qioi.yaml'}: kubernetes: components, lab, docker, podman, containerd, systemd, channels, "
        "defaults and mine: accepted without a cluster only: there, components are pods, clients too, and channels "
        "IsolationPolicy objects"
    )


def test_relative_files_are_beside_the_configuration(tmp_path: Path) -> None:
    """Not in the folder that the daemon is started from: of a service that is the root folder."""
    (tmp_path / "qioi.yaml").write_text("kubernetes: {node: a, server: 'https://h:1', ca: ca.crt, token: /run/token}\n")
    section = load_config(tmp_path / "qioi.yaml").kubernetes
    assert section is not None
    assert (section.ca, section.token) == (str(tmp_path / "ca.crt"), "/run/token")


def test_a_server_may_stand_below_a_path() -> None:
    assert KubernetesConfig(server="https://a/k8s/clusters/b/").server == "https://a/k8s/clusters/b"


def test_who_this_node_is_must_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NODE_NAME", raising=False)
    with pytest.raises(NoClusterError, match=r"kubernetes\.node: missing"):
        reach(KubernetesConfig())
    monkeypatch.setenv("NODE_NAME", "n1")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(NoClusterError, match=r"kubernetes\.server: missing"):
        reach(KubernetesConfig())
    assert reach(KubernetesConfig(server="https://a:1"))[1] == "n1"


def test_a_pod_knows_its_server(tmp_path: Path) -> None:
    assert in_cluster({}, tmp_path) is None
    (tmp_path / "token").touch()
    access = in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, tmp_path)
    assert access is not None
    assert access.server == "https://[fd00::1]:6443"
