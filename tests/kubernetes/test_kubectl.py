"""`kubectl qioi`, through a real kubectl, in a real API server."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from demo_k8s.control_plane import ControlPlane
from demo_k8s.objects import add_policy, admit_pods, pods_path, start_pod
from demo_k8s.tools import path
from k8s_objects import pod_object
from k8s_policy_objects import write_policy_status
from rich.console import Console

from qioi.commands.kubectl import UNSERVED, KubectlError, command, lacks, put_back, show, speak, story
from qioi.kubernetes.reports import DRY_RUN, NO_RIGHT, stamp
from qioi.kubernetes.requests import ORIGINAL_ANNOTATION

pytestmark = pytest.mark.slow
STATUS = {
    "observedGeneration": 1, "throughput": 412.5, "threshold": 400, "thresholdSource": "configuration",
    "interference": 31,
    "conditions": [{"type": "Accepted", "status": "True", "reason": "InForce", "message": "in force",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    "nodes": [{"name": "n1", "observedAt": "2026-01-01T00:00:00Z", "throughput": 412.5, "actuator": "files"},
              {"name": "n2", "observedAt": "2026-01-01T00:00:00Z"}],
    "components": [{"name": "peer0", "node": "n1", "role": "peer", "qosClass": "Burstable", "level": "pod",
                    "actuator": "nri", "levelReason": "foreign work of 1.5 CPUs beside kubepods/burstable/pod1",
                    "shares": 4096, "original": 1024, "waitingPercent": 31, "reason": "waits 31%"}],
    "lastDecision": {"time": "2026-01-01T00:00:00Z", "node": "n1", "component": "peer0", "message": "shares 1 -> 2"},
}  # fmt: skip


@pytest.fixture
def policy(plane: ControlPlane, namespace: str) -> str:
    add_policy(plane, namespace, "pay", channel="payments")
    write_policy_status(plane, namespace, "pay", STATUS)
    return namespace


def run(plane: ControlPlane, *args: str) -> Result:
    environment = {"PATH": f"{path('kubectl').parent}:{os.environ['PATH']}"}
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        return CliRunner().invoke(command, ["--kubeconfig", str(plane.kubeconfig()), *args])
    finally:
        os.environ.clear()
        os.environ.update(before)


def test_status(plane: ControlPlane, policy: str) -> None:
    done = run(plane, "status", "-n", policy)
    assert done.exit_code == 0, done.output
    for word in ("payments", "412.5 tps", "400 tps", "31 %", "yes", "peer0", "4096", "1024", "Burstable"):
        assert word in done.output
    (one,) = json.loads(run(plane, "status", "-n", policy, "--output", "json").output)
    assert one["status"] == STATUS


@pytest.mark.parametrize("width", [80, 120, 160])
def test_tables_fit_the_terminal(width: int) -> None:
    """No word is cut, and a reason takes no column of single words."""
    reason = "waits 90% of its runnable time behind foreign work, 58% below its threshold, but is at its ceiling"
    (part,) = STATUS["components"]
    one = {"metadata": {"namespace": "payments", "name": "pay"}, "spec": {"channel": "payments", "law": "adaptive"},
           "status": {**STATUS, "components": [{**part, "node": "node-one", "reason": reason}]}}  # fmt: skip
    console = Console(width=width, file=StringIO())
    show([one], console)
    text = console.file.getvalue()
    assert "…" not in text
    for word in ("payments/pay", "412.5 tps", "400 tps", "yes", "peer0", "node-one", "4096", "1024", "31 %"):
        assert word in text
    assert len(text.splitlines()) <= 16


def test_a_component_whose_node_is_not_known_is_shown() -> None:
    """As one that has moved from a node that is cut off, and on from the next one."""
    one = {"metadata": {"namespace": "payments", "name": "pay"}, "spec": {"channel": "payments", "law": "adaptive"},
           "status": {**STATUS, "components": [{"name": "peer0", "role": "peer"}]}}  # fmt: skip
    console = Console(width=160, file=StringIO())
    show([one], console)
    assert "peer0" in console.file.getvalue()
    assert "  peer0 (peer, -) on -" in story(one, datetime.now(UTC))


def test_explain(plane: ControlPlane, policy: str) -> None:
    done = run(plane, "explain", "pay", "-n", policy)
    assert done.exit_code == 0, done.output
    assert f"{policy}/pay: channel payments, law adaptive, in force: yes\n" in done.output
    assert "  Accepted: True (InForce): in force\n" in done.output
    assert "threshold 400 tps (configuration), interference 31 %" in done.output
    assert "node n1: sees 412.5 tps" in done.output
    assert "node n2: reports no rate" in done.output
    assert "shares 4096, found with 1024, moved at: pod, by nri" in done.output
    assert "    foreign work of 1.5 CPUs beside kubepods/burstable/pod1\n" in done.output
    assert "last change: 2026-01-01T00:00:00Z peer0 on n1: shares 1 -> 2" in done.output


def test_a_policy_in_force_that_no_pod_serves_says_what_it_looks_for(plane: ControlPlane, namespace: str) -> None:
    add_policy(plane, namespace, "pay", channel="payments")
    for asked in (("status",), ("explain", "pay")):
        said = run(plane, *asked, "-n", namespace).output
        assert "no daemon has seen it" in said
        assert "qioi.io/role" not in said  # it is not in force yet: labels are not what is missing
    write_policy_status(plane, namespace, "pay", {"conditions": STATUS["conditions"]})
    for asked in (("status",), ("explain", "pay")):
        said = run(plane, *asked, "-n", namespace).output
        assert " ".join(said.split()).count("labels qioi.io/role and qioi.io/channel") == 1


def test_a_node_that_finds_no_groups_says_so_in_place_of_what_labels_lack(plane: ControlPlane, namespace: str) -> None:
    add_policy(plane, namespace, "pay", channel="payments")
    problem = "kubelet: no group `kubepods` below /sys/fs/cgroup: is cgroup_root right?"
    nodes = [{"name": "n1", "observedAt": stamp(time.time()), "problem": problem}]
    write_policy_status(plane, namespace, "pay", {"conditions": STATUS["conditions"], "nodes": nodes})
    for asked in (("status",), ("explain", "pay")):
        said = " ".join(run(plane, *asked, "-n", namespace).output.split())
        assert said.count(f"node n1: {problem}") == 1
        assert "qioi.io/role" not in said


@pytest.mark.parametrize(
    ("problem", "components", "lacking"),
    [
        ("pod fab/peer9: label qioi.io/role: 'boss'", [], True),
        ("pod fab/peer9: label qioi.io/role: 'boss'", STATUS["components"], False),
        ("kubelet: no group", [], False),
        (None, [], True),
    ],
)
def test_a_problem_of_another_pod_hides_nothing(problem: str | None, components: list[object], lacking: bool) -> None:
    """One pod of the namespace is wrong; labels may still be what the policy's own lack."""
    node = {"name": "n1"} if problem is None else {"name": "n1", "problem": problem}
    said = {"conditions": STATUS["conditions"], "nodes": [node], "components": components}
    found = [] if problem is None else [f"node n1: {problem}"]
    assert lacks({"status": said}) == found + [UNSERVED] * lacking


def test_what_is_not_there_is_one_line(plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    done = run(plane, "explain", "none", "-n", namespace)
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert f"policy {namespace}/none: there is none" in done.output
    lost = CliRunner().invoke(command, ["--kubeconfig", str(tmp_path / "none"), "status"])
    assert (lost.exit_code, lost.output.count("\n")) == (1, 1)


def test_a_request_is_left_where_nothing_tells_of_which_container() -> None:
    left = pod_object(containers=("a", "b"), annotations={ORIGINAL_ANNOTATION: "100m"})
    with pytest.raises(KubectlError, match="which container's request was changed: left as it is"):
        put_back([], left)


@pytest.mark.parametrize("prefix", ["", DRY_RUN, NO_RIGHT])
def test_a_daemon_that_does_not_restore_leaves_a_request_to_whoever_does(
    plane: ControlPlane, namespace: str, prefix: str
) -> None:
    admit_pods(plane, namespace)
    start_pod(plane, namespace, "peer0", "n1", labels={"qioi.io/role": "peer"}, resources={"requests": {"cpu": "2"}})
    change = {"metadata": {"annotations": {ORIGINAL_ANNOTATION: "100m"}}}
    plane.call("PATCH", f"{pods_path(namespace)}/peer0", change, kind="application/merge-patch+json")
    add_policy(plane, namespace, "pay", channel="payments")
    nodes = [{"name": "n1", "observedAt": stamp(time.time()), "actuator": f"{prefix}files: cpu.weight"}]
    write_policy_status(plane, namespace, "pay", {"nodes": nodes})
    done = run(plane, "restore", "-n", namespace)
    assert ("puts back by itself" in done.stderr) == (not prefix)
    assert (done.exit_code, done.stdout) == ((0, f"{namespace}/peer0: request 2 -> 100m\n") if prefix else (1, ""))


def test_how_kubectl_says_that_a_cluster_has_no_policies(plane: ControlPlane) -> None:
    """`restore` goes by these words after an uninstall, which takes all policies away."""
    kubectl = [str(path("kubectl")), "--kubeconfig", str(plane.kubeconfig())]
    with pytest.raises(KubectlError, match="doesn't have a resource type"):
        speak(kubectl, "get", "nothings.qioi.io", "-A", "-o", "json")
