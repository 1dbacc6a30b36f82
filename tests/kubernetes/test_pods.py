"""What a pod is to the ledger, by our labels and by those of Fabric's operators."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from k8s_objects import ID, pod_object
from waiting import until

from qioi.kubernetes.cgroups import Driver, Layout
from qioi.kubernetes.client import Access, Api
from qioi.kubernetes.cluster import Cluster
from qioi.kubernetes.pods import (
    CHANNELS_ANNOTATION,
    MAX_KEPT,
    Pod,
    component,
    is_resized,
    read_pod,
    sidecars,
    slim,
)
from qioi.kubernetes.reflector import key
from qioi.kubernetes.reports import KUBELET
from qioi.kubernetes.requests import ORIGINAL_ANNOTATION
from qioi.kubernetes.resizes import Record, left_over
from qioi.model import Owner, Role

LAYOUT = Layout(Driver.CGROUPFS)
OPERATOR = {"app.kubernetes.io/name": "fabric", "app.kubernetes.io/managed-by": "fabric-operator", "creator": "fabric"}


@pytest.mark.parametrize(
    ("labels", "image", "role"),
    [
        ({"qioi.io/role": "peer"}, "x", Role.PEER),
        ({"qioi.io/role": "orderer", "app": "hlf-peer"}, "x", Role.ORDERER),
        ({"app": "hlf-peer", "release": "org1-peer0"}, "x", Role.PEER),
        ({"app": "hlf-ordnode", "release": "ord0"}, "x", Role.ORDERER),
        ({**OPERATOR, "app.kubernetes.io/instance": "fabricpeer", "app": "org1peer1"}, "x", Role.PEER),
        ({**OPERATOR, "app.kubernetes.io/instance": "fabricorderer", "orderingnode": "node1"}, "x", Role.ORDERER),
        ({**OPERATOR, "app.kubernetes.io/instance": "fabricca"}, "x", None),
        ({"app.kubernetes.io/name": "ibp", "app.kubernetes.io/managed-by": "ibp-operator", "creator": "ibp",
          "app.kubernetes.io/instance": "ibppeer"}, "x", Role.PEER),
        ({"app.kubernetes.io/name": "hyperledger-fabric", "app.kubernetes.io/component": "chaincode",
          "app.kubernetes.io/created-by": "fabric-builder-k8s"}, "x", Role.CHAINCODE),
        ({"app.kubernetes.io/name": "db", "app.kubernetes.io/managed-by": "db-operator",
          "app.kubernetes.io/instance": "dbpeer"}, "x", None),
        ({}, "docker.io/hyperledger/fabric-peer:3.1", Role.PEER),
        ({}, "hyperledger/fabric-orderer@sha256:0a", Role.ORDERER),
        ({}, "postgres:16", None),
        ({"qioi.io/ignore": "true", "qioi.io/role": "peer"}, "x", None),
        ({"qioi.io/ignore": "false", "qioi.io/role": "peer"}, "x", Role.PEER),
    ],
)  # fmt: skip
def test_roles(labels: dict[str, str], image: str, role: Role | None) -> None:
    pod = read_pod(slim(pod_object(labels=labels, image=image)))
    assert (pod.role if pod else None) is role


def test_a_label_that_makes_no_sense_is_said() -> None:
    pod = read_pod(pod_object(labels={"qioi.io/role": "boss"}))
    assert pod is not None
    accepted = "peer, orderer, chaincode, broker, support, replica, client"
    assert pod.problem == f"label qioi.io/role: 'boss': accepted are {accepted}"
    assert component(pod, ("fab/payments",), LAYOUT, "/logs") is None


@pytest.mark.parametrize(
    ("labels", "annotations", "channels"),
    [
        ({}, {}, ()),
        ({"qioi.io/channel": "red"}, {}, ("red",)),
        ({"qioi.io/channel": "red"}, {"qioi.io/channels": "red, blue,red"}, ("red", "blue")),
    ],
)
def test_channels(labels: dict[str, str], annotations: dict[str, str], channels: tuple[str, ...]) -> None:
    pod = read_pod(slim(pod_object(labels={"qioi.io/role": "peer", **labels}, annotations=annotations)))
    assert pod is not None
    assert pod.channels == channels


def test_a_component_has_its_containers_group_and_log() -> None:
    pod = read_pod(slim(pod_object(labels={"app": "hlf-peer"}, containers=("couchdb", "peer"), restarts=3)))
    assert pod is not None
    made = component(pod, ("fab/payments",), LAYOUT, "/var/log/pods")
    assert made is not None
    assert made.name == "fab/peer0"
    assert made.cgroup == f"kubepods/burstable/poduid-of-peer0/{ID}"
    assert made.log == "/var/log/pods/fab_peer0_uid-of-peer0/peer/3.log"
    assert (made.log_format, made.channels) == ("cri", ("fab/payments",))


def test_dockers_logs_are_read_as_docker_writes_them() -> None:
    """cri-dockerd links a container's log to the engine's own file."""
    written = pod_object(labels={"app": "hlf-peer"})
    for one in written["status"]["containerStatuses"]:
        one["containerID"] = f"docker://{ID}"
    pod = read_pod(slim(written))
    assert pod is not None
    made = component(pod, ("fab/payments",), LAYOUT, "/var/log/pods")
    assert made is not None
    assert made.log_format == "docker-json"


@pytest.mark.parametrize(("role", "expected"), [("peer", [Role.SUPPORT]), ("orderer", [Role.SUPPORT]), ("client", [])])
def test_the_containers_beside_the_main_one_are_no_neighbours(role: str, expected: list[Role]) -> None:
    labels = {"qioi.io/role": role, "qioi.io/organisation": "Org1MSP"}
    pod = read_pod(slim(pod_object(labels=labels, containers=("couchdb", role))))
    assert pod is not None
    found = sidecars(pod, ("fab/payments",), LAYOUT)
    assert [one.role for one in found] == expected
    for one in found:
        assert (one.name, one.channels, one.log) == ("fab/peer0/couchdb", ("fab/payments",), None)
        assert one.cgroup == f"kubepods/burstable/poduid-of-peer0/{ID}"
        assert (one.organisation, one.owner) == ("Org1MSP", None)


def test_sidecars_have_the_runtimes_record_too() -> None:
    """Without it the runtime writes a sidecar's original share again, and that is taken for somebody else's."""
    raw = pod_object(labels={"qioi.io/role": "peer"}, containers=("couchdb", "peer"), sidecars=("proxy",))
    raw["spec"]["initContainers"][1]["resources"] = {"requests": {"cpu": "200m"}}
    pod = read_pod(slim(raw))
    assert pod is not None
    asked = []

    def naming(identity: str, group: str, request: str) -> Owner:
        asked.append((identity, group, request))
        return Owner("nri", request)

    found = sidecars(pod, ("fab/payments",), LAYOUT, naming)
    assert [one.owner for one in found] == [Owner("nri", ""), Owner("nri", "200m")]
    assert [(group, request) for _, group, request in asked] == [(found[0].cgroup, ""), (found[1].cgroup, "200m")]


def test_native_sidecars_are_no_neighbours_either() -> None:
    """Of the init containers only these run beside the others; none of them is the component."""
    raw = pod_object(labels={"qioi.io/role": "peer"}, containers=("couchdb", "peer"), sidecars=("proxy", "orderer"))
    for one, cpu in zip(raw["spec"]["initContainers"], ("1", "200m", "300m"), strict=True):
        one["resources"] = {"requests": {"cpu": cpu}}
    raw["spec"]["initContainers"][0]["env"] = [{"name": "A"}]
    kept = slim(raw)
    assert [one["name"] for one in kept["spec"]["initContainers"]] == ["proxy", "orderer"]
    assert [one["name"] for one in kept["status"]["initContainerStatuses"]] == ["proxy", "orderer"]
    pod, unslimmed = read_pod(kept), read_pod(raw)
    assert pod is not None
    assert unslimmed is not None
    assert pod.containers == unslimmed.containers
    assert (pod.main, pod.cpu.position) == ("peer", 1)
    assert dict(pod.requests) == {"couchdb": "", "peer": "", "proxy": "200m", "orderer": "300m"}
    found = sidecars(pod, ("fab/payments",), LAYOUT)
    assert [(one.name, one.role) for one in found] == [
        (f"fab/peer0/{name}", Role.SUPPORT) for name in ("couchdb", "proxy", "orderer")
    ]
    raw["spec"]["initContainers"][1]["resources"] = {"requests": {"cpu": "250m"}}
    resized = read_pod(slim(raw))
    assert resized is not None
    assert is_resized(pod, resized)


@pytest.mark.parametrize(
    ("labels", "sidecar", "main"),
    [
        ({"qioi.io/role": "peer", "qioi.io/container": "proxy"}, "proxy", "first"),
        ({"qioi.io/role": "peer"}, "peer", "first"),
        ({}, "hyperledger/fabric-peer", None),
    ],
)
def test_a_native_sidecar_is_never_the_component(labels: dict[str, str], sidecar: str, main: str | None) -> None:
    """Neither by a label, nor by its name or its image."""
    pod = read_pod(slim(pod_object(labels=labels, containers=("first", "second"), sidecars=(sidecar,))))
    assert (pod.main if pod else None) == main


def test_a_static_pod_has_its_groups_under_its_hash() -> None:
    """The kubelet writes the hash twice, beside where the pod comes from and since when."""
    its = {"hash": "0123456789abcdef", "mirror": "0123456789abcdef", "source": "file", "seen": "2026-01-01T00:00:00Z"}
    annotations = {f"kubernetes.io/config.{key}": value for key, value in its.items()}
    pod = read_pod(slim(pod_object(labels={"qioi.io/role": "orderer"}, annotations=annotations)))
    assert pod is not None
    made = component(pod, (), LAYOUT, "/l")
    assert made is not None
    assert made.cgroup.split("/")[2] == "pod0123456789abcdef"
    assert made.log == "/l/fab_peer0_0123456789abcdef/main/0.log"


@pytest.mark.parametrize("forged", ["0123456789abcdef", "U/../../../system.slice/../kubepods/burstable/podU"])
def test_a_pods_author_does_not_choose_its_group(forged: str) -> None:
    annotations = {"kubernetes.io/config.hash": forged, "kubernetes.io/config.source": "file"}
    pod = read_pod(slim(pod_object(labels={"qioi.io/role": "orderer"}, annotations=annotations)))
    assert pod is not None
    made = component(pod, (), LAYOUT, "/l")
    assert made is not None
    assert made.cgroup == f"kubepods/burstable/poduid-of-peer0/{ID}"
    assert made.log == "/l/fab_peer0_uid-of-peer0/main/0.log"


@pytest.mark.parametrize("bad", ["a/../../b", "..", "a..b", "../a", "/", "", "a/b", "a\n", "a\0b", "ä"])
@pytest.mark.parametrize("which", ["uid", "mirror", "name", "namespace", "container", "runtime", "id"])
def test_what_is_no_single_level_of_a_path_is_refused(which: str, bad: str) -> None:
    one = pod_object(labels={"qioi.io/role": "peer"})
    metadata, status = one["metadata"], one["status"]["containerStatuses"][0]
    match which:
        case "mirror":
            metadata["annotations"]["kubernetes.io/config.mirror"] = bad
        case "container":
            status["name"] = one["spec"]["containers"][0]["name"] = bad
        case "runtime":
            status["containerID"] = f"{bad}://{ID}"
        case "id":
            status["containerID"] = f"containerd://{bad}"
        case _:
            metadata[which] = bad
    with pytest.raises(ValueError, match="accepted is one level of a path"):
        read_pod(slim(one))


@pytest.mark.parametrize("name", ["peer0.org1.example.com", "a--b", "0", "peer0-node.internal"])
def test_names_with_dots_are_levels(name: str) -> None:
    pod = read_pod(slim(pod_object(name, labels={"qioi.io/role": "peer"}, uid="u")))
    assert pod is not None
    assert pod.name == name


def test_chaincode_has_no_log_of_commits() -> None:
    pod = read_pod(pod_object(labels={"qioi.io/role": "chaincode"}))
    assert pod is not None
    made = component(pod, (), LAYOUT, "/l")
    assert made is not None
    assert made.log is None


def test_a_label_may_name_the_container() -> None:
    labels = {"qioi.io/role": "peer", "qioi.io/container": "second"}
    pod = read_pod(pod_object(labels=labels, containers=("first", "second")))
    assert pod is not None
    assert pod.main == "second"


@pytest.mark.parametrize("change", [{"running": False}, {"qos": ""}])
def test_what_does_not_run_is_not_there(change: dict[str, object]) -> None:
    assert read_pod(pod_object(labels={"qioi.io/role": "peer"}, **change)) is None  # type: ignore[arg-type]


def sized(asked: str, actual: str | None, limit: str = "1Gi", *, running: bool = True) -> Pod:
    """Give a pod whose container asks for CPU, and has what the kubelet says; ``None``: it says nothing."""
    one = pod_object(labels={"qioi.io/role": "peer"}, containers=("main", "couchdb"))
    for container in one["spec"]["containers"]:
        container["resources"] = {"requests": {"cpu": asked}}
    main, couchdb = one["status"]["containerStatuses"]
    couchdb["resources"] = {"requests": {"cpu": "1"}}
    main["resources"] = actual and {"requests": {"cpu": actual}, "limits": {"memory": limit}}
    if not running:
        main["state"] = {"waiting": {}}
    pod = read_pod(slim(one))
    assert pod is not None
    return pod


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (sized("100m", "100m"), sized("100m", "100m"), False),
        (sized("100m", "100m"), sized("200m", "100m"), True),  # somebody asks
        (sized("200m", "100m"), sized("200m", "200m"), True),  # the kubelet has applied it
        (sized("200m", "100m"), sized("200m", "0.2"), True),
        (sized("100m", "100m", "1Gi"), sized("100m", "100m", "2Gi"), True),  # the memory alone
        (sized("100m", "100m"), sized("100m", "2930m"), False),  # we, by containerd's record
        (sized("100m", "2930m"), sized("100m", "5860m"), False),
        (sized("100m", None), sized("100m", "100m"), False),  # it says so a while after the container's start
        (sized("100m", "100m"), sized("100m", None), False),
        (sized("100m", "100m"), sized("100m", "100m", "2Gi", running=False), False),  # what it would be given
        (sized("100m", "100m", "2Gi", running=False), sized("100m", "100m"), False),
    ],
)
def test_a_resize_is_seen_when_it_is_asked_for_and_when_it_is_applied(before: Pod, after: Pod, expected: bool) -> None:
    assert is_resized(before, after) == expected


def test_only_what_is_looked_at_is_kept() -> None:
    kept = slim(pod_object(annotations={"other": "x"}))
    assert "managedFields" not in kept["metadata"]
    assert kept["metadata"]["annotations"] == {}


@pytest.mark.parametrize("many", [10, 5_000])
def test_of_a_pod_with_too_much_in_its_labels_its_name_is_kept(many: int) -> None:
    one = pod_object(labels={"qioi.io/role": "peer", **{f"label-{number}": "v" for number in range(many)}})
    pod = read_pod(slim(one))
    assert (pod is None) == (many > 10)
    assert len(json.dumps(slim(one))) <= MAX_KEPT
    assert key(slim(one)) == key(one)


@pytest.mark.parametrize("too_much", ["labels", "channels", "original"])
def test_of_a_pod_with_too_much_that_is_kept_which_puts_its_request_back(too_much: str) -> None:
    """Whoever may write labels and annotations could else have a raised request stay."""
    one = pod_object(labels={"qioi.io/role": "peer"}, annotations={ORIGINAL_ANNOTATION: "100m"})
    one["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    metadata = one["metadata"]
    match too_much:
        case "labels":
            metadata["labels"] |= {f"label-{number}": "v" for number in range(5_000)}
        case "channels":
            metadata["annotations"][CHANNELS_ANNOTATION] = "x" * MAX_KEPT
        case "original":  # nothing can be made of it
            metadata["annotations"][ORIGINAL_ANNOTATION] = "1" * MAX_KEPT
    kept = slim(one)
    assert read_pod(kept) is None
    assert len(json.dumps(kept)) <= MAX_KEPT
    known = Record("fab", "peer0", metadata["uid"], "main", "100m", (2000,), noted=True)
    assert left_over(kept) == (None if too_much == "original" else known)


def test_the_loop_waits_for_nobody_who_takes_pods_in(tmp_path: Path) -> None:
    """Systemd, which is asked for their units then, may take its time. The groups are found beside the loop."""
    cluster = Cluster(Api(Access("http://127.0.0.1:9")), "n1", tmp_path, "/logs")
    one = slim(pod_object(labels={"qioi.io/role": "peer"}))
    cluster._take_pods({key(one): one})
    assert KUBELET in cluster.view().problems
    (tmp_path / Layout(Driver.CGROUPFS).pods()).mkdir()
    looking = threading.Thread(target=cluster.view, daemon=True)
    with cluster._lock:
        looking.start()
        looking.join(60.0)
        assert not looking.is_alive()
    until(lambda: KUBELET not in cluster.view().problems)


def test_a_pod_that_cannot_be_read_is_named_once_for_each_problem(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """However often its status and other pods change."""
    cluster = Cluster(Api(Access("http://127.0.0.1:9")), "n1", tmp_path, "/logs")

    def said(restarts: int, **more: Any) -> list[str]:
        caplog.clear()
        one = slim(pod_object(restarts=restarts, **{"labels": {"qioi.io/role": "peer"}, "uid": "../a", **more}))
        cluster._take_pods({key(one): one})
        return [one.getMessage() for one in caplog.records]

    large = {"qioi.io/role": "peer", **{f"label-{number}": "v" for number in range(5_000)}}
    (first,) = said(1)
    assert first.startswith("kubernetes: pod fab/peer0: cannot be read: ValueError: uid '../a': accepted is one level")
    assert said(2) == []
    assert said(3, labels=large) == [
        f"kubernetes: pod fab/peer0: more than {MAX_KEPT} characters of labels and containers: left out"
    ]
    assert said(1000, labels=large) == []
    assert len(said(5, uid="../b")) == 1
