"""What deploy/k8s installs: accepted by a real API server, the same from kustomize and Helm, and no right too many."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import yaml
from demo_k8s.control_plane import ControlPlane
from demo_k8s.objects import policies_path, policy, policy_path
from demo_k8s.tools import HELM, KUBERNETES, missing, path

from qioi.kubernetes.client import STRATEGIC, Access, Api, ApiError
from qioi.kubernetes.cluster import PODS
from qioi.kubernetes.policies import PATH
from qioi.settings.config import load_config

K8S = Path(__file__).parents[2] / "deploy/k8s"
USER = "system:serviceaccount:qioi:qioi"
pytestmark = pytest.mark.slow
Documents = dict[tuple[str, str], dict[str, Any]]


def documents(text: str) -> Documents:
    """Give all objects by kind and name; that of the one ConfigMap, which carries a hash, without it."""
    found = [one for one in yaml.safe_load_all(text) if one]
    return {(one["kind"], "qioi" if one["kind"] == "ConfigMap" else one["metadata"]["name"]): one for one in found}


def render(plane: ControlPlane, folder: str) -> Documents:
    return documents(plane.kubectl("kustomize", K8S / folder))


def test_an_overlay_of_ones_own_names_the_registry(plane: ControlPlane, tmp_path: Path) -> None:
    """As docs/kubernetes.md says; a folder outside of the repository, by a relative path."""
    base = os.path.relpath(K8S / "base", tmp_path)
    image = {"name": "qioi", "newName": "registry.example/qioi", "newTag": "0.2.0.dev7-g1"}
    own = {"resources": [base], "images": [image]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(own))
    pod = documents(plane.kubectl("kustomize", tmp_path))["DaemonSet", "qioi"]["spec"]["template"]["spec"]
    assert [one["image"] for one in pod["containers"]] == ["registry.example/qioi:0.2.0.dev7-g1"]


def helm(*args: str | Path) -> subprocess.CompletedProcess[str]:
    if missing(["helm"]):
        pytest.skip(f"not built yet: helm {HELM} (make k8s-tools builds it once)")
    command = [str(path("helm")), *map(str, args), *(["--kube-version", KUBERNETES] if args[0] == "template" else [])]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def installed(plane: ControlPlane) -> ControlPlane:
    """Namespace and rights; no kubelet is there to run the rest."""
    plane.kubectl("apply", "-f", K8S / "base/namespace.yaml", "-f", K8S / "base/rbac.yaml")
    return plane


OVERLAYS = ["base", "overlays/dry-run", "overlays/selected-nodes", "overlays/nri", "overlays/resize"]


@pytest.mark.parametrize("folder", OVERLAYS)
def test_the_server_takes_what_kustomize_makes(installed: ControlPlane, folder: str) -> None:
    said = installed.kubectl("apply", "--dry-run=server", "--validate=strict", "-k", K8S / folder)
    assert "daemonset.apps/qioi" in said
    assert "Warning" not in said


@pytest.mark.host
@pytest.mark.parametrize(
    ("folder", "values"),
    [("base", "dryRun=false"), ("overlays/nri", "nri.enabled=true"), ("overlays/resize", "resize=true")],
)
def test_helm_makes_the_same(plane: ControlPlane, folder: str, values: str) -> None:
    done = helm("template", "qioi", K8S / "chart", "--namespace", "qioi", "--include-crds", "--set", values)
    assert done.returncode == 0, done.stderr
    expected, made = render(plane, folder), documents(done.stdout)
    del expected["Namespace", "qioi"]  # helm's own --create-namespace
    assert sets(made) == sets(expected)


def sets(made: Documents) -> Documents:
    """Compare what has no order without one, the configuration for what it says, and without what rolls it out."""
    made["ConfigMap", "qioi"]["data"]["qioi.yaml"] = plain = yaml.safe_load(
        made["ConfigMap", "qioi"]["data"]["qioi.yaml"]
    )
    if plain["kubernetes"].get("resize") is False:
        del plain["kubernetes"]["resize"]
    template = made["DaemonSet", "qioi"]["spec"]["template"]
    template["metadata"]["annotations"].pop("checksum/config", None)
    pod = template["spec"]
    (named,) = (one["configMap"] for one in pod["volumes"] if "configMap" in one)
    assert named["name"] == made["ConfigMap", "qioi"]["metadata"]["name"]
    named["name"] = made["ConfigMap", "qioi"]["metadata"]["name"] = "qioi"
    for one in (pod, *pod["containers"], *pod.get("initContainers", ())):
        for key in ("volumes", "volumeMounts"):
            one[key] = sorted(one.get(key, ()), key=itemgetter("name"))
    return made


@pytest.mark.host
def test_the_server_takes_what_helm_makes_of_other_values(installed: ControlPlane) -> None:
    sets = ["--set", "dryRun=true,metricsPort=9999,image.tag=x,nodeSelector.a=b,tolerations=null",
            "--set-json", "period=0.5", "--set-json", 'imagePullSecrets=[{"name":"registry"}]']  # fmt: skip
    done = helm("template", "qioi", K8S / "chart", "--namespace", "qioi", *sets)
    assert done.returncode == 0, done.stderr
    made = documents(done.stdout)
    settings = yaml.safe_load(made["ConfigMap", "qioi"]["data"]["qioi.yaml"])
    assert (settings["dry_run"], settings["period"], settings["metrics"]["port"]) == (True, 0.5, 9999)
    assert made["DaemonSet", "qioi"]["spec"]["template"]["spec"]["nodeSelector"] == {
        "a": "b", "kubernetes.io/os": "linux",
    }  # fmt: skip
    assert made["DaemonSet", "qioi"]["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    installed.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", text=done.stdout)


@pytest.mark.host
@pytest.mark.parametrize("period", ["0.1", "0.25", "1", "1.0", "2.125", "60"])
def test_helm_leaves_the_period_as_it_is(period: str, tmp_path: Path) -> None:
    done = helm("template", "qioi", K8S / "chart", "--namespace", "qioi", "--set-json", f"period={period}")
    assert done.returncode == 0, done.stderr
    (tmp_path / "qioi.yaml").write_text(documents(done.stdout)["ConfigMap", "qioi"]["data"]["qioi.yaml"])
    assert load_config(tmp_path / "qioi.yaml").period == float(period)


@pytest.mark.host
def test_helm_takes_further_keys_of_the_daemons_file(tmp_path: Path) -> None:
    keys = {"boost_cap": 0.8, "on_exit": "keep", "own": {"nice": 0, "shares": 2048}, "best_effort": ["batch/*"]}
    done = helm("template", "qioi", K8S / "chart", "--namespace", "qioi", "--set-json", f"config={json.dumps(keys)}")
    assert done.returncode == 0, done.stderr
    (tmp_path / "qioi.yaml").write_text(documents(done.stdout)["ConfigMap", "qioi"]["data"]["qioi.yaml"])
    config = load_config(tmp_path / "qioi.yaml")
    assert (config.boost_cap, config.on_exit, config.best_effort) == (0.8, "keep", ("batch/*",))
    assert (config.own.nice, config.own.shares, config.period) == (0, 2048, 1.0)


@pytest.mark.host
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("rollingUpdate.maxUnavailable=10%", {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}),
        ("rollingUpdate.maxUnavailable=3", {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 3}}),
        ("type=OnDelete", {"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 1}}),
    ],
)
def test_helm_updates_as_many_nodes_at_once_as_is_said(
    installed: ControlPlane, values: str, expected: dict[str, Any]
) -> None:
    done = helm("template", "qioi", K8S / "chart", "--namespace", "qioi", "--set", f"updateStrategy.{values}")
    assert done.returncode == 0, done.stderr
    assert documents(done.stdout)["DaemonSet", "qioi"]["spec"]["updateStrategy"] == expected
    installed.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", text=done.stdout)


@pytest.mark.host
def test_helm_has_nothing_to_complain_about() -> None:
    done = helm("lint", "--strict", K8S / "chart")
    assert done.returncode == 0, done.stdout


@pytest.mark.host
def test_helm_installs_upgrades_and_uninstalls(installed: ControlPlane) -> None:
    """No kubelet is there: what counts is what stands in the API afterwards."""

    def run(*args: str | Path) -> None:
        done = helm(*args, "--namespace", "by-helm", "--kubeconfig", installed.kubeconfig())
        assert done.returncode == 0, done.stderr

    def template() -> Any:
        return installed.call("GET", "/apis/apps/v1/namespaces/by-helm/daemonsets/qioi")["spec"]["template"]

    rights = ("clusterrole,clusterrolebinding", "qioi", "--ignore-not-found")
    installed.kubectl("delete", *rights)  # kubectl's own; helm takes over nobody's objects
    try:
        run("install", "qioi", K8S / "chart", "--create-namespace")
        before = template()
        run("upgrade", "qioi", K8S / "chart", "--set", "dryRun=true")
        assert template() != before  # daemons are replaced
        run("uninstall", "qioi")
        left = installed.kubectl("get", "ds,cm,sa,clusterroles,clusterrolebindings,crd", "-n", "by-helm", "-o", "name")
        assert [one for one in left.split() if "qioi" in one] == [
            "customresourcedefinition.apiextensions.k8s.io/isolationpolicies.qioi.io"  # with all policies
        ]
    finally:
        installed.kubectl("apply", "-f", K8S / "base/rbac.yaml")


@pytest.mark.host
@pytest.mark.parametrize(
    "value",
    [
        "period=0",
        "metricsPort=0",
        "image.tag=",
        "surprise=1",
        "config.period=2",
        "image.pullPolicy=Often",
        "logs=pods",
        "imagePullSecrets=registry",
        "updateStrategy.type=Recreate",
        "updateStrategy.rollingUpdate.maxUnavailable=0",
        "updateStrategy.rollingUpdate.maxSurge=1",
    ],  # a node's second daemon would be refused
)
def test_helm_refuses_wrong_values(value: str) -> None:
    done = helm("template", "qioi", K8S / "chart", "--set", value)
    assert done.returncode != 0
    assert value.partition("=")[0].rpartition(".")[2] in done.stderr


def test_a_changed_configuration_rolls_out(plane: ControlPlane) -> None:
    """A running daemon does not read a changed ConfigMap: the pods' template has to change with it."""
    before, after = (render(plane, folder)["DaemonSet", "qioi"] for folder in ("base", "overlays/resize"))
    assert before["spec"]["template"] != after["spec"]["template"]


@pytest.mark.host
def test_a_changed_configuration_rolls_out_by_helm() -> None:
    command = ("template", "qioi", K8S / "chart", "--set")
    before, after = (
        documents(helm(*command, f"dryRun={dry}").stdout)["DaemonSet", "qioi"] for dry in ("false", "true")
    )
    assert before["spec"]["template"] != after["spec"]["template"]


@pytest.mark.parametrize("folder", OVERLAYS)
def test_the_configuration_is_one_that_the_daemon_takes(plane: ControlPlane, folder: str, tmp_path: Path) -> None:
    (tmp_path / "qioi.yaml").write_text(render(plane, folder)["ConfigMap", "qioi"]["data"]["qioi.yaml"])
    config = load_config(tmp_path / "qioi.yaml")
    assert config.kubernetes is not None
    assert str(config.state_dir) == "/run/qioi"
    assert config.metrics.listen == "::"  # of IPv4 and of IPv6: a cluster may have either alone


def allowed(plane: ControlPlane, verb: str, resource: str, group: str = "", sub: str = "", namespace: str = "") -> bool:
    asked = {"verb": verb, "resource": resource, "group": group, "subresource": sub, "namespace": namespace}
    review = {"spec": {"user": USER, "groups": ["system:serviceaccounts"], "resourceAttributes": asked}}
    answer = plane.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def test_rights_are_those_that_are_needed_and_no_others(installed: ControlPlane) -> None:
    needed = {("list", "pods", "", ""), ("watch", "pods", "", ""), ("create", "events", "", ""),
              ("patch", "events", "", ""),
              ("list", "isolationpolicies", "qioi.io", ""), ("watch", "isolationpolicies", "qioi.io", ""),
              ("patch", "isolationpolicies", "qioi.io", "status")}  # fmt: skip
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
    resources = [("pods", "", ""), ("pods", "", "exec"), ("pods", "", "resize"), ("pods", "", "status"),
                 ("secrets", "", ""), ("configmaps", "", ""), ("nodes", "", ""), ("nodes", "", "proxy"),
                 ("namespaces", "", ""), ("events", "", ""), ("deployments", "apps", ""),
                 ("isolationpolicies", "qioi.io", ""), ("isolationpolicies", "qioi.io", "status"),
                 ("clusterroles", "rbac.authorization.k8s.io", "")]  # fmt: skip
    given = {(verb, *one) for verb in verbs for one in resources if allowed(installed, verb, *one, namespace="default")}
    assert given == needed


def test_tenants_see_policies_and_write_them_where_they_are_allowed_to(plane: ControlPlane) -> None:
    roles = {name: one for (kind, name), one in render(plane, "base").items() if kind == "ClusterRole"}
    view, edit = roles["qioi-policies-view"], roles["qioi-policies-edit"]
    assert view["metadata"]["labels"] == {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    assert "labels" not in edit["metadata"]
    assert {verb for rule in view["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    assert {one for rule in (*view["rules"], *edit["rules"]) for one in rule["resources"]} == {"isolationpolicies"}


def test_resizing_takes_two_rights_more(installed: ControlPlane) -> None:
    role, base = (render(installed, one)["ClusterRole", "qioi"] for one in ("overlays/resize", "base"))
    more = [one for one in role["rules"] if one not in base["rules"]]
    assert more == [
        {"apiGroups": [""], "resources": [f"pods/{sub}"], "verbs": ["patch"]} for sub in ("resize", "status")
    ]


def test_the_daemon_does_its_work_with_these_rights(installed: ControlPlane, namespace: str, tmp_path: Path) -> None:
    asked = {"spec": {"expirationSeconds": 600}}
    answer = installed.call("POST", "/api/v1/namespaces/qioi/serviceaccounts/qioi/token", asked)
    token = tmp_path / "token"
    token.write_text(answer["status"]["token"])
    one = policy("p", {"channel": "c"})
    installed.call("POST", policies_path(namespace), one)
    event = {"metadata": {"name": "e", "namespace": namespace}, "reason": "R", "message": "m", "type": "Normal",
             "source": {"component": "qioi"},
             "involvedObject": {"kind": "Pod", "namespace": namespace, "name": "x"}}  # fmt: skip
    with closing(Api(Access(installed.server, installed.ca, token))) as api:
        api.list(PODS, {"fieldSelector": "spec.nodeName=any"})
        api.list(PATH, {})
        api.watch(PATH, {"resourceVersion": "0", "timeoutSeconds": "1"}).close()
        api.apply_status(policy_path(namespace, "p"), {**one, "status": {"throughput": 1.5}}, "qioi-n")
        events = f"/api/v1/namespaces/{namespace}/events"
        api.request("post", "POST", events, {}, event, "application/json")
        api.request("patch", "PATCH", f"{events}/e", {}, {"count": 2}, STRATEGIC)
        with pytest.raises(ApiError) as refused:
            api.request("get", "GET", "/api/v1/namespaces/qioi/secrets", {})
        assert refused.value.status == 403
    assert installed.call("GET", policy_path(namespace, "p"))["status"] == {"throughput": 1.5}
    told = installed.kubectl("get", "events", "-n", namespace, "--field-selector", "source=qioi", "-o", "json")
    assert [one["reason"] for one in json.loads(told)["items"]] == ["R"]
