"""Read a pod's role in the ledger, its channels, and where its containers' groups and logs are.

QiOi's labels take precedence, then the labels of the well-known operators of Fabric, then Fabric's own image names.
Sources of the labels: bevel-operator-fabric (charts hlf-peer and hlf-ordnode: `app`), fabric-operator
(`app.kubernetes.io/managed-by: fabric-operator`, `/instance: fabricpeer | fabricorderer`; the prefix `fabric` is
configurable), fabric-builder-k8s ("Chaincode job": `app.kubernetes.io/created-by`, `/component: chaincode`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from qioi.discovery.recognise import fabric_role
from qioi.kubernetes.cgroups import Layout, Qos
from qioi.kubernetes.client import Object
from qioi.kubernetes.requests import (
    NO_REQUEST,
    ORIGINAL_ANNOTATION,
    PENDING,
    CpuRequest,
    cpu_request,
    milli,
    read_request,
)
from qioi.model import Component, Owner, Role

ROLE_LABEL = "qioi.io/role"
CHANNEL_LABEL = "qioi.io/channel"
CONTAINER_LABEL = "qioi.io/container"
IGNORE_LABEL = "qioi.io/ignore"
ORGANISATION_LABEL = "qioi.io/organisation"
#: The annotation for several channels, with commas between them; it takes precedence over the label.
CHANNELS_ANNOTATION = "qioi.io/channels"

#: The annotation of a static pod's mirror: the uid in its groups' names, which differs from the mirror's own. The API
#: server refuses to add or to change it, and a kubelet runs no other pod that was made with it. Any author of a pod may
#: write `kubernetes.io/config.hash`, which says the same.
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"

#: What a uid, an id or a name may be, so that it is one level of a path: the names of pods have single dots.
_PART = re.compile(r"[0-9A-Za-z_-]+(\.[0-9A-Za-z_-]+)*")
_UID = re.compile(r"[0-9A-Za-z-]+")

#: Most characters, as JSON, that are kept of a pod: twenty times what one with several containers has.
MAX_KEPT = 64 * 1024

#: The labels that tell of a pod's role and main container. The API server takes at most 63 characters of each.
_TELLING = (
    ROLE_LABEL,
    CONTAINER_LABEL,
    "app",
    "creator",
    *(f"app.kubernetes.io/{one}" for one in ("component", "created-by", "instance", "managed-by", "name")),
)

_BEVEL = {"hlf-peer": Role.PEER, "hlf-ordnode": Role.ORDERER}
_LOGGED = frozenset({Role.PEER, Role.ORDERER})

#: Gives the owner of a container's shares by its identity, its group and its CPU request.
Naming = Callable[[str, str, str], Owner | None]


@dataclass(frozen=True, slots=True)
class Container:
    """One running container. ``identity`` begins with the runtime's scheme, such as ``containerd://``."""

    name: str
    image: str
    identity: str
    restarts: int


@dataclass(frozen=True, slots=True)
class Pod:
    """The part of a pod that is read. ``uid`` is the object's, ``group_uid`` the one in its groups' and logs' names."""

    namespace: str
    name: str
    uid: str
    group_uid: str
    qos: Qos
    labels: Mapping[str, str]
    role: Role | None
    channels: tuple[str, ...]
    containers: tuple[Container, ...]
    main: str  # the container that is the component
    requests: tuple[tuple[str, str], ...]  # CPU requests by container, from which the kubelet derives shares
    resources: str  # the resources of all its containers, to detect a change
    cpu: CpuRequest = NO_REQUEST  # of the container that is the component
    problem: str | None = None
    applied: Mapping[str, str] = field(default_factory=dict)  # the resources that the kubelet has applied, by container

    @property
    def path(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


def slim(one: Object) -> Object:
    """Keep only those fields of a pod's object that :func:`read_pod` reads.

    Of a pod that has too much in them only that is kept which it takes to put its request back, and why. Labels may be
    many: without a bound a node's pods, which anyone may make, would take all memory.
    """
    metadata, spec, status = one["metadata"], one.get("spec", {}), one.get("status", {})
    annotations = metadata.get("annotations") or {}
    ours = {
        key: annotations[key]
        for key in (CHANNELS_ANNOTATION, MIRROR_ANNOTATION, ORIGINAL_ANNOTATION)
        if key in annotations
    }
    native = native_sidecars(spec)
    kept = {
        "metadata": {
            **{key: metadata[key] for key in ("namespace", "name", "uid", "labels") if key in metadata},
            "annotations": ours,
        },
        "spec": {
            "resources": spec.get("resources") or {},
            **{
                key: [
                    {"name": c["name"], "image": c.get("image", ""), "resources": c.get("resources") or {},
                     "resizePolicy": c.get("resizePolicy") or [], "restartPolicy": c.get("restartPolicy")}
                    for c in declared
                ]
                for key, declared in (("containers", spec.get("containers", ())), ("initContainers", native))
            },
        },
        "status": {
            "qosClass": status.get("qosClass"),
            "conditions": [one for one in status.get("conditions") or () if one.get("type") == PENDING],
            "containerStatuses": [_slim_status(c) for c in status.get("containerStatuses") or ()],
            "initContainerStatuses": [_slim_status(c) for c in _statuses(status, native)],
        },
    }  # fmt: skip
    if len(json.dumps(kept)) <= MAX_KEPT:
        return kept
    why = f"more than {MAX_KEPT} characters of labels and containers: left out"
    return {**_restorable(kept), "tooLarge": why}


def _restorable(kept: Object) -> Object:
    """Keep what it takes to put a pod's request back; where even that is too much, the pod's name.

    It is no component: :func:`read_pod` reads nothing of a pod without a status.
    """
    metadata = kept["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata["annotations"]
    name = {key: metadata[key] for key in ("namespace", "name", "uid") if key in metadata}
    told = {key: labels[key] for key in _TELLING if key in labels}
    noted = {key: text for key, text in annotations.items() if key == ORIGINAL_ANNOTATION}
    least = {
        "metadata": {**name, "labels": told, "annotations": noted},
        "spec": {"containers": kept["spec"]["containers"]},
    }
    return least if len(json.dumps(least)) <= MAX_KEPT else {"metadata": name}


def native_sidecars(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Give the init containers that run beside the others for as long as the pod does ("Sidecar Containers")."""
    return [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]


def _statuses(status: Mapping[str, Any], native: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Give the statuses of native sidecars."""
    names = {one["name"] for one in native}
    return [one for one in status.get("initContainerStatuses") or () if one["name"] in names]


def _slim_status(one: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: one.get(key) for key in ("name", "containerID", "restartCount", "state", "resources")}


def read_pod(one: Object) -> Pod | None:
    """Read a pod's object; ``None`` for a pod without a running container, or without a role in the ledger.

    ValueError for a name or an id that would lead to another path than the pod's own.
    """
    metadata, spec, status = one["metadata"], one.get("spec", {}), one.get("status", {})
    labels: Mapping[str, str] = metadata.get("labels") or {}
    if labels.get(IGNORE_LABEL, "false") != "false" or status.get("qosClass") not in set(Qos):
        return None
    declared, native = spec.get("containers", []), native_sidecars(spec)
    every = [*declared, *native]
    statuses = [*(status.get("containerStatuses") or ()), *_statuses(status, native)]
    running = tuple(filter(None, (_container(one, every) for one in statuses)))
    role, problem = role_of(labels, declared)
    if not running or (role is None and problem is None):
        return None
    annotations = metadata.get("annotations") or {}
    main = main_container(labels, role, [str(c["name"]) for c in declared])
    return Pod(
        namespace=_part("namespace", metadata["namespace"]),
        name=_part("name", metadata["name"]),
        uid=str(metadata["uid"]),
        group_uid=_part("uid", annotations.get(MIRROR_ANNOTATION, metadata["uid"]), _UID),
        qos=Qos(status["qosClass"]),
        labels=labels,
        role=role,
        channels=channels_of(labels, annotations),
        containers=running,
        main=main,
        requests=tuple((str(c["name"]), cpu_request(c)) for c in every),
        resources=json.dumps([c.get("resources") for c in every], sort_keys=True),
        cpu=read_request(one, main),
        problem=problem,
        applied=_applied(every, statuses),
    )


def _part(what: str, text: object, accepted: re.Pattern[str] = _PART) -> str:
    """Give a text that becomes a part of a path. ValueError."""
    if not isinstance(text, str) or not accepted.fullmatch(text):
        raise ValueError(f"{what} {text!r:.200}: accepted is one level of a path")
    return text


def _container(status: Mapping[str, Any], declared: list[Mapping[str, Any]]) -> Container | None:
    if "running" not in (status.get("state") or {}) or "://" not in str(status.get("containerID") or ""):
        return None
    name = _part("container", status["name"])
    scheme, _, number = str(status["containerID"]).partition("://")
    _part("container's runtime", scheme)
    _part("container's id", number)
    image = next((str(c.get("image", "")) for c in declared if c["name"] == name), "")
    return Container(name, image, str(status["containerID"]), int(status.get("restartCount") or 0))


def _applied(declared: list[Mapping[str, Any]], statuses: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Give the resources that the kubelet says running containers have; empty while the CPU request is not as asked.

    With NRI the kubelet takes a raised share in containerd's record for such a request.
    """
    asked = {str(one["name"]): milli(cpu_request(one)) for one in declared}
    return {
        str(one["name"]): json.dumps(one["resources"], sort_keys=True)
        if milli(cpu_request(one)) == asked.get(str(one["name"]))
        else ""
        for one in statuses
        if "running" in (one.get("state") or {}) and one.get("resources")
    }


def is_resized(before: Pod, after: Pod) -> bool:
    """Whether a pod's resources were changed, or the kubelet has applied a change that it had put off."""
    return before.resources != after.resources or any(
        now and before.applied.get(name, now) != now for name, now in after.applied.items()
    )


def role_of(labels: Mapping[str, str], declared: list[Mapping[str, Any]]) -> tuple[Role | None, str | None]:
    """Give a pod's role, or the problem of its label."""
    if ROLE_LABEL in labels:
        try:
            return Role(labels[ROLE_LABEL]), None
        except ValueError:
            return None, f"label {ROLE_LABEL}: {labels[ROLE_LABEL]!r}: accepted are {', '.join(Role)}"
    if labels.get("app.kubernetes.io/created-by") == "fabric-builder-k8s":
        return (Role.CHAINCODE if labels.get("app.kubernetes.io/component") == "chaincode" else None), None
    managed_by, instance = labels.get("app.kubernetes.io/managed-by", ""), labels.get("app.kubernetes.io/instance", "")
    prefix = labels.get("app.kubernetes.io/name", "")
    if prefix and managed_by == f"{prefix}-operator" and labels.get("creator") == prefix:
        return {f"{prefix}peer": Role.PEER, f"{prefix}orderer": Role.ORDERER}.get(instance), None
    if labels.get("app") in _BEVEL:
        return _BEVEL[labels["app"]], None
    roles = (fabric_role(str(c["name"]), str(c.get("image", ""))) for c in declared)
    return next((role for role in roles if role is not None), None), None


def channels_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Name the channels that a pod's annotation or label names; empty: none of them does."""
    text = annotations.get(CHANNELS_ANNOTATION, labels.get(CHANNEL_LABEL, ""))
    return tuple(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))


def main_container(labels: Mapping[str, str], role: Role | None, names: list[str]) -> str:
    """Choose the container that is the component: the one that a label names, one named like the role, or the first."""
    wanted = labels.get(CONTAINER_LABEL) or (role.value if role else "")
    return wanted if wanted in names else (names[0] if names else "")


def told_container(one: Object) -> str | None:
    """Name a pod's main container, also where the labels that named it are gone; ``None`` if nothing else names it."""
    labels, declared = one["metadata"].get("labels") or {}, one.get("spec", {}).get("containers", [])
    role, names = role_of(labels, declared)[0], [str(c["name"]) for c in declared]
    told = role is not None or labels.get(CONTAINER_LABEL) in names or len(names) == 1
    return main_container(labels, role, names) if told else None


def component(
    pod: Pod,
    serves: tuple[str, ...],
    layout: Layout,
    logs: str,
    naming: Naming | None = None,
) -> Component | None:
    """Make a component of a pod's main container; ``None`` while that container does not run.

    ``serves`` are the policies' keys; ``logs`` is the folder of all pods' logs; ``naming`` gives the owner of the
    container's shares by identity, group and request.
    """
    main = next((one for one in pod.containers if one.name == pod.main), None)
    if pod.role is None or main is None:
        return None
    log = f"{logs}/{pod.namespace}_{pod.name}_{pod.group_uid}/{main.name}/{main.restarts}.log"
    its = pod.labels.get(ORGANISATION_LABEL, "")
    group = layout.container(pod.group_uid, pod.qos, main.identity)
    request = pod.cpu.actual or dict(pod.requests).get(main.name, "")  # the request that its group's shares come from
    owner = naming(main.identity, group, request) if naming else None
    followed = log if pod.role in _LOGGED else None
    written = (
        "docker-json" if main.identity.startswith("docker://") else "cri"
    )  # the kubelet links to the engine's file
    return Component(pod.path, pod.role, group, serves, followed, written, owner=owner, organisation=its)


def sidecars(pod: Pod, serves: tuple[str, ...], layout: Layout, naming: Naming | None = None) -> tuple[Component, ...]:
    """Make components of the containers beside a pod's main one, such as its CouchDB, a proxy or a native sidecar.

    They are not foreign work. They are raised by their groups, with the components that wait for them; a pod's request
    is moved only for its main container.
    """
    if pod.role is None or pod.role is Role.CLIENT:
        return ()
    its, requests = pod.labels.get(ORGANISATION_LABEL, ""), dict(pod.requests)
    found = []
    for one in pod.containers:
        if one.name != pod.main:
            group = layout.container(pod.group_uid, pod.qos, one.identity)
            owner = naming(one.identity, group, requests.get(one.name, "")) if naming else None
            found.append(
                Component(f"{pod.path}/{one.name}", Role.SUPPORT, group, serves, owner=owner, organisation=its)
            )
    return tuple(found)
