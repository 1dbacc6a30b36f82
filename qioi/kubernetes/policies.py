"""Turn IsolationPolicy objects into the daemon's policies, and tell which pods they cover.

Namespace and channel (``namespace/channel``) identify a policy, because two tenants may both call their channel
``mychannel``. A policy that cannot be used says so in its conditions, and does not affect the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from qioi.controller.laws.thresholds import AUTO
from qioi.controller.policy import Policy
from qioi.kubernetes.client import Object
from qioi.kubernetes.pods import Pod
from qioi.kubernetes.selectors import matches
from qioi.model import MAX_SHARES, MIN_SHARES, Role

PATH = "/apis/qioi.io/v1alpha1/isolationpolicies"
API_VERSION, KIND = "qioi.io/v1alpha1", "IsolationPolicy"

#: Most characters, as JSON, that are kept of a specification. The schema takes fewer; an older one, keys of megabytes.
MAX_SPEC = 300_000

#: The largest gain, as in a configuration file.
MAX_GAIN = 1000

#: What a policy may say; the first is what it says by leaving it out.
LAWS, BEYOND = ("adaptive", "proportional"), ("neighbours", "ledger")

#: The reason of a policy whose channel another one has, which its message names.
CHANNEL_TAKEN = "ChannelTaken"

#: The selector for each role. Brokers belong to the orderers, like in the paper. Roles that support peers have none.
SELECTORS = {
    Role.PEER: "peers",
    Role.ORDERER: "orderers",
    Role.BROKER: "orderers",
    Role.CHAINCODE: "chaincodes",
}


@dataclass(frozen=True, slots=True)
class Judged:
    """One object, and the verdict. ``policy`` is ``None`` where it is not in force, and ``message`` says why."""

    namespace: str
    name: str
    channel: str
    generation: int
    reason: str
    message: str
    policy: Policy | None = None
    dry_run: bool = False
    resize: bool = False
    selectors: Mapping[str, Mapping[str, Any]] | None = None
    status: Mapping[str, Any] | None = None
    uid: str = ""

    @property
    def key(self) -> str:
        """The daemon's name of its channel."""
        return f"{self.namespace}/{self.channel}"

    @property
    def accepted(self) -> bool:
        """Whether the policy is in force."""
        return self.policy is not None

    @property
    def path(self) -> str:
        """The object's path in the API."""
        return f"/apis/{API_VERSION}/namespaces/{self.namespace}/isolationpolicies/{self.name}"

    def serves(self, pod: Pod) -> bool:
        """Whether a pod serves this policy's channel. Of a load client only its label counts."""
        if pod.namespace != self.namespace or pod.role is None:
            return False
        if pod.role is Role.CLIENT:
            return self.channel in pod.channels
        selector = (self.selectors or {}).get(SELECTORS.get(pod.role, ""))
        if selector is not None:
            return matches(selector, pod.labels)
        return not pod.channels or self.channel in pod.channels


class Judge:
    """Judges all policies again and again. An object that is the same as the last time is not read again."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Object, Judged]] = {}  # by id: the object is kept, so that it keeps its own

    def judge(self, objects: Iterable[Object]) -> tuple[Judged, ...]:
        """Judge all policies, as :func:`judge` does."""
        objects = tuple(objects)
        self._known = {id(one): self._known.get(id(one)) or (one, read_object(one)) for one in objects}
        return judge(objects, lambda one: self._known[id(one)][1])


def read_object(one: Object) -> Judged:
    """Judge one policy by itself."""
    try:
        return read_policy(one)
    except (AttributeError, TypeError, ValueError) as error:
        return refuse({**one, "spec": {}}, "BadShape", f"spec: {error}: accepted is what the schema says")


def judge(objects: Iterable[Object], read: Callable[[Object], Judged] = read_object) -> tuple[Judged, ...]:
    """Judge all policies. Of several for one channel the highest priority is in force, and of those the oldest."""
    taken: dict[str, str] = {}
    judged = []
    for one in sorted(objects, key=precedence):
        verdict = read(one)
        if verdict.accepted and verdict.key in taken:
            why = f"channel {verdict.channel} is {taken[verdict.key]}'s: accepted is one policy for each channel"
            verdict = refuse(one, CHANNEL_TAKEN, why)
        elif verdict.accepted:
            taken[verdict.key] = verdict.name
        judged.append(verdict)
    return tuple(judged)


def precedence(one: Object) -> tuple[int, str, str, str]:
    """Sort policies: priority first, then age, then name."""
    metadata = one["metadata"]
    spec = one.get("spec")
    return (
        -rank(spec) if isinstance(spec, dict) else 0,
        str(metadata.get("creationTimestamp")),
        str(metadata.get("namespace")),
        str(metadata["name"]),
    )


def rank(spec: Mapping[str, Any]) -> int:
    """Give a policy's priority; 0 for what is none, because an installed schema may be older."""
    priority = spec.get("priority")
    return priority if isinstance(priority, int) else 0


def refuse(one: Object, reason: str, message: str) -> Judged:
    """Make the verdict that an object is not in force."""
    metadata, spec = one["metadata"], one.get("spec") or {}
    return Judged(
        str(metadata.get("namespace", "")),
        str(metadata["name"]),
        str(spec.get("channel", "")),
        int(metadata.get("generation") or 0),
        reason,
        message,
        status=one.get("status") or {},
        uid=str(metadata.get("uid", "")),
    )


def read_policy(one: Object) -> Judged:
    """Make the daemon's policy of an object. Every field is checked, because the installed schema may be older."""
    if why := one.get("tooLarge"):
        return refuse(one, "TooLarge", why)
    spec = one.get("spec") or {}
    if (problem := find_problem(spec)) is not None:
        return refuse(one, *problem)
    channel, bounds, threshold = spec["channel"], spec.get("bounds") or {}, owed(spec.get("threshold", AUTO))
    metadata = one["metadata"]
    namespace, dry_run = str(metadata.get("namespace", "")), bool(spec.get("dryRun"))
    made = Policy(
        f"{namespace}/{channel}",
        spec.get("law", LAWS[0]),
        threshold=threshold,
        k=float(spec.get("k", 4)),
        floor=bounds.get("floor"),
        ceiling=bounds.get("ceiling"),
        auto=threshold is None,
        dry_run=dry_run,
        priority=rank(spec),
        beyond=spec.get("beyond", BEYOND[0]),
    )
    return Judged(
        namespace,
        str(metadata["name"]),
        channel,
        int(metadata.get("generation") or 0),
        "DryRun" if dry_run else "InForce",
        "decided and shown, but not written" if dry_run else "in force",
        made,
        dry_run,
        spec.get("resize") is True,
        spec.get("selectors") or {},
        one.get("status") or {},
        str(metadata.get("uid", "")),
    )


def find_problem(spec: Mapping[str, Any]) -> tuple[str, str] | None:
    """Find the first field that can't be used: the condition's reason, and its message."""
    channel, law, k = spec.get("channel"), spec.get("law", LAWS[0]), spec.get("k", 4)
    beyond = spec.get("beyond", BEYOND[0])
    try:
        owed(spec.get("threshold", AUTO))
    except ValueError as error:
        return "BadThreshold", str(error)
    if not isinstance(channel, str) or not channel or "/" in channel:
        return "BadChannel", f"channel {channel!r}: accepted is a channel's name"
    if law not in LAWS:
        return "BadLaw", f"law {law!r}: accepted are {', '.join(LAWS)}"
    if beyond not in BEYOND:
        return "BadBeyond", f"beyond {beyond!r}: accepted are {', '.join(BEYOND)}"
    if isinstance(k, bool) or not isinstance(k, int | float) or not 0 < k <= MAX_GAIN:
        return "BadGain", f"k {k!r}: accepted is a number above 0 and up to {MAX_GAIN}"
    return find_problem_of_bounds(spec.get("bounds") or {}) or find_problem_of_selectors(spec.get("selectors") or {})


def find_problem_of_bounds(bounds: Mapping[str, Any]) -> tuple[str, str] | None:
    """Find what is wrong with a policy's bounds."""
    floor, ceiling = bounds.get("floor"), bounds.get("ceiling")
    for share in (floor, ceiling):
        if share is not None and (not isinstance(share, int) or not MIN_SHARES <= share <= MAX_SHARES):
            return "BadBounds", f"bounds {share!r}: accepted are shares from {MIN_SHARES} to {MAX_SHARES}"
    if floor is not None and ceiling is not None and floor > ceiling:
        return "BadBounds", f"floor {floor}: accepted is at most the ceiling, {ceiling}"
    return None


def find_problem_of_selectors(selectors: Mapping[str, Mapping[str, Any]]) -> tuple[str, str] | None:
    """Find what is wrong with a policy's selectors: each is tried on a pod without labels."""
    try:
        for selector in selectors.values():
            matches(selector, {})
    except ValueError as error:
        return "BadSelector", f"selectors: {error}"
    except (KeyError, TypeError, AttributeError) as error:
        return "BadSelector", f"selectors: {error}: accepted is what the schema says"
    return None


def owed(value: object) -> float | None:
    """Read a threshold; ``None``: it is learned. ValueError."""
    if value == AUTO:
        return None
    try:
        number = 0.0 if isinstance(value, bool) else float(str(value))
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError(f'threshold {value!r}: accepted is a number of transactions per second above 0, or "{AUTO}"')
    return number


def slim_policy(one: Object) -> Object:
    """Keep only those fields of an object that are read; instead of a specification that is too large, its problem."""
    metadata = one["metadata"]
    keys = ("namespace", "name", "uid", "generation", "creationTimestamp")
    kept = {**_only(one, ("spec",)), "metadata": _only(metadata, keys)}
    if "status" in one:
        kept["status"] = slim_status(one["status"])
    if (size := len(json.dumps(kept.get("spec")))) > MAX_SPEC:
        why = f"spec: {size} characters as JSON: accepted are at most {MAX_SPEC}"
        return {**kept, "spec": {}, "tooLarge": why}
    return kept


#: What is read of the parts of a status: that the verdict is there, whose decision was the last, and nodes' reports.
_READ_OF_CONDITIONS = ("type", "status", "reason", "message", "observedGeneration", "lastTransitionTime")
_READ_OF_DECISION = ("time", "node")
_READ_OF_NODES = ("name", "observedAt", "throughput", "commitAgeSeconds", "interference")


def slim_status(status: Object) -> Object:
    """Keep only those fields of a status that are read: of components, which are most of it, the nodes that have them.

    The components of one node are one object, many times.
    """
    nodes: dict[object, Object] = {}
    kept = {
        "conditions": [_only(one, _READ_OF_CONDITIONS) for one in status.get("conditions") or ()],
        "lastDecision": _only(status.get("lastDecision") or {}, _READ_OF_DECISION),
        "nodes": [_only(one, _READ_OF_NODES) for one in status.get("nodes") or ()],
        "components": [
            nodes.setdefault(one.get("node"), _only(one, ("node",))) for one in status.get("components") or ()
        ],
    }
    return {key: one for key, one in kept.items() if one}


def _only(one: Object, keys: tuple[str, ...]) -> Object:
    return {key: one[key] for key in keys if key in one}
