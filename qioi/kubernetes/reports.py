"""Make this node's part of a policy's status, and decide when to write it.

Each node's daemon is a field manager of its own in server-side apply. It states its own entries and leaves those of
others, so no node leads and no node reads before it writes. Of the nodes that see a channel's commits, the first by
name reports about the channel as a whole. The verdict, which is the same on every node, has one manager for all: it
stays where its node is lost, and a node without entries has no manager that nobody would remove.

The load on the API server, per policy, is one write in :data:`RENEW` seconds by each of the :data:`REPORTING` nodes
that report the rate while there are commits, and one in :data:`HEARTBEAT` seconds by each other node; of no node more
than one in :data:`PAUSE` seconds, and the verdict where that is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from qioi.kubernetes.policies import API_VERSION, CHANNEL_TAKEN, KIND, Judged
from qioi.show.snapshot import ChannelState, ComponentState

#: Least seconds between two writes to one policy.
PAUSE = 5.0
#: Seconds after which an unchanged rate is written again, so that other nodes keep using it.
RENEW = 15.0
#: Seconds after which an unchanged status is written again, so that other nodes know that this node runs.
HEARTBEAT = 300.0
#: Seconds after which entries that the server has taken, and that are not seen, are missed: somebody has removed them.
MISSED = 30.0
#: How many of the nodes that see a channel's commits report its rate: the first by name, and another in case that one
#: is lost. A report is sent to every node of the policy, so what all of them reported would grow with their square.
REPORTING = 2
#: Least change of a rate or threshold that is written, as a fraction of it.
MOVED = 0.05
#: Least change of interference that is written, in percentage points.
POINTS = 5
#: Seconds since the last commit after which a channel is idle, and its rate is not renewed.
IDLE = 6.0
#: Seconds for which another node counts as alive after its last entry.
ALIVE = 60.0
#: Seconds of commits after which the entries of the nodes that see them are of these, not of a pause before.
SETTLED = 2 * PAUSE
#: Most characters of a message; the schema accepts no more of a decision's.
MOST_TEXT = 1024
#: What a node's actuator begins with where its daemon is a dry run, which neither raises nor puts back.
DRY_RUN = "dry run: "
#: And where it has no right to put back the request of a pod that a daemon before it has left changed.
NO_RIGHT = "no right to restore requests: "
#: The field manager of all nodes' verdicts.
VERDICTS = "qioi"
#: What has a problem where the kubelet's groups are not found, and with them no pod.
KUBELET = "kubelet"


@dataclass(frozen=True, slots=True)
class LastDecision:
    """The newest change of a share on this node, for one policy."""

    time: float
    component: str
    message: str


@dataclass(frozen=True, slots=True)
class Row:
    """One component in a policy's status. ``name`` is without the namespace."""

    name: str
    role: str
    qos: str
    level: str
    state: ComponentState
    actuator: str = "files"


@dataclass(frozen=True, slots=True)
class Sight:
    """All that this node reports of one policy now.

    ``committing``: it sees the channel's commits itself. ``active_for``: for how many seconds the channel is active.
    ``looked``: when the policy was last looked at, a monotonic time; ``None`` while what is known may be outdated.
    ``alive``: the other nodes whose reports of the channel's rate have come within :data:`ALIVE` seconds.
    """

    node: str
    actuator: str
    judged: Judged
    channel: ChannelState | None
    rows: tuple[Row, ...] = ()
    committing: bool = False
    active_for: float = 0.0
    decision: LastDecision | None = None
    problem: str | None = None
    looked: float | None = None
    alive: frozenset[str] = frozenset()

    @property
    def concerned(self) -> bool:
        """Whether this node has components of the policy, or a problem with pods that may be some."""
        return bool(self.rows) or self.problem is not None

    @property
    def enters(self) -> bool:
        """Whether this node has an entry in the policy's status."""
        return self.concerned and self.judged.accepted


def interference(states: Iterable[ComponentState]) -> int | None:
    """Give the largest share of runnable time that a component waits, in percent."""
    shares = [one.waiting_share for one in states if one.waiting_share is not None]
    return round(100 * max(shares)) if shares else None


def rank(sight: Sight) -> int:
    """Count the nodes that report this channel's rate and come first.

    While the channel is idle nobody renews its report, so old ones count too: no other node is to take over. Once it
    has committed for :data:`SETTLED` seconds, a node that still reports 0 has a peer that stalls, one whose report is
    old is lost, and neither counts.
    """
    nodes = (sight.judged.status or {}).get("nodes") or ()
    before = [one for one in nodes if "throughput" in one and str(one.get("name")) < sight.node]
    if sight.active_for >= SETTLED:
        before = [one for one in before if one["throughput"] and one.get("name") in sight.alive]
    return len(before)


def is_active(channel: ChannelState | None) -> bool:
    """Whether a channel commits, as far as this node sees; one of which no commit was seen yet does not."""
    return channel is not None and channel.age is not None and channel.age < IDLE


def speaks(sight: Sight) -> bool:
    """Whether this node reports about the channel as a whole."""
    return sight.committing and rank(sight) == 0


def reports_rate(sight: Sight) -> bool:
    """Whether this node reports the channel's rate."""
    return sight.committing and rank(sight) < REPORTING


def body(sight: Sight, now: float) -> dict[str, Any]:
    """Make the document to apply."""
    return with_components(frame(sight, now), sight)


def with_components(framed: dict[str, Any], sight: Sight) -> dict[str, Any]:
    """Add the components to a document that has entries of nodes."""
    status = framed.get("status", {})
    if "nodes" not in status or not sight.rows:
        return framed
    return {**framed, "status": {**status, "components": [component_entry(row, sight.node) for row in sight.rows]}}


def frame(sight: Sight, now: float) -> dict[str, Any]:
    """Make the document to apply, without its components."""
    judged = sight.judged
    status: dict[str, Any] = {}
    if sight.enters:
        status["nodes"] = [node_entry(sight, now)]
        if sight.decision is not None and newer(sight, sight.decision):
            decision = sight.decision
            status["lastDecision"] = {
                "time": stamp(decision.time),
                "node": sight.node,
                "component": decision.component,
                "message": decision.message[:MOST_TEXT],
            }
        if speaks(sight):
            status |= whole(sight)
    return document(judged, status)


def verdict(judged: Judged, now: float) -> dict[str, Any]:
    """Make the document that says whether a policy is in force, to be applied as :data:`VERDICTS`."""
    return document(judged, {"observedGeneration": judged.generation, "conditions": [condition(judged, now)]})


def document(judged: Judged, status: Mapping[str, Any]) -> dict[str, Any]:
    """Wrap a status; an empty one removes all of this node's entries."""
    name = {"name": judged.name, "namespace": judged.namespace}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": name, **({"status": status} if status else {})}


def condition(judged: Judged, now: float) -> dict[str, Any]:
    """Give the condition ``Accepted``; an unchanged one keeps its time."""
    accepted = "True" if judged.accepted else "False"
    known: Mapping[str, Any] = next(
        (c for c in (judged.status or {}).get("conditions") or () if c.get("type") == "Accepted"), {}
    )
    same = known.get("status") == accepted and known.get("reason") == judged.reason
    return {
        "type": "Accepted",
        "status": accepted,
        "reason": judged.reason,
        "message": judged.message,
        "observedGeneration": judged.generation,
        "lastTransitionTime": known["lastTransitionTime"] if same else stamp(now),
    }


def node_entry(sight: Sight, now: float) -> dict[str, Any]:
    """Make this node's entry."""
    entry: dict[str, Any] = {"name": sight.node, "observedAt": stamp(now), "actuator": sight.actuator[:MOST_TEXT]}
    waiting = interference(row.state for row in sight.rows)
    if waiting is not None:
        entry["interference"] = waiting
    if sight.problem:
        entry["problem"] = sight.problem[:MOST_TEXT]
    channel = sight.channel
    if channel is not None and channel.throughput is not None and channel.age is not None and reports_rate(sight):
        entry |= {"throughput": round(channel.throughput, 1), "commitAgeSeconds": round(channel.age, 1)}
    return entry


def component_entry(row: Row, node: str) -> dict[str, Any]:
    """Make one component's entry."""
    state = row.state
    entry: dict[str, Any] = {
        "name": row.name,
        "node": node,
        "role": row.role,
        "qosClass": row.qos,
        "level": row.level,
        "actuator": row.actuator,
        "reason": state.reason,
    }
    numbers = {
        "shares": state.share,
        "original": state.original,
        "wanted": state.wanted,
        "delayMicroseconds": None if state.delay is None else round(1e6 * state.delay),
        "waitingPercent": None if state.waiting_share is None else round(100 * state.waiting_share),
        "levelReason": state.placement.why if state.placement else None,
        "problem": state.problem,
    }
    return entry | {key: value for key, value in numbers.items() if value is not None}


def whole(sight: Sight) -> dict[str, Any]:
    """Make the part of the status about the channel as a whole."""
    said: dict[str, Any] = {}
    channel = sight.channel
    if channel is not None:
        if channel.throughput is not None:
            said["throughput"] = round(channel.throughput, 1)
        if channel.threshold is not None:
            said["threshold"] = round(channel.threshold, 1)
        said["thresholdSource"] = channel.source
    others = [one.get("interference") for one in (sight.judged.status or {}).get("nodes") or ()
              if one.get("name") != sight.node]  # fmt: skip
    known = [one for one in (interference(row.state for row in sight.rows), *others) if isinstance(one, int)]
    if known:
        said["interference"] = max(known)
    return said


def newer(sight: Sight, decision: LastDecision) -> bool:
    """Whether ``decision`` is newer than any other node's, by both nodes' clocks: only people go by it."""
    known = (sight.judged.status or {}).get("lastDecision") or {}
    return known.get("node") == sight.node or seconds(known.get("time")) <= decision.time


@dataclass(slots=True)
class Said:
    """The status last applied to one policy, ``judged``.

    ``at``: when it was applied. ``again``: before when it is not applied again, after a failure. Both are monotonic.
    ``pause``: the seconds that the last refusal cost; 0 once one was taken.
    ``tried``: whether the server may have applied one, be it that its answer was lost. ``taken``: it has said so.
    """

    body: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    at: float = float("-inf")
    again: float = float("-inf")
    pause: float = 0.0
    judged: Judged | None = None
    tried: bool = False
    taken: bool = False

    def is_of(self, judged: Judged) -> bool:
        """Whether it was applied to this object, and not to one before it of the same name."""
        return self.judged is not None and self.judged.uid == judged.uid

    @property
    def has_entries(self) -> bool:
        """Whether the policy has, or may have, what was applied."""
        return bool(self.body) or self.tried


def due(sight: Sight, said: Said | None, now: float, wall: float) -> dict[str, Any] | None:
    """Give the document to apply now, if any; ``now`` is monotonic, ``wall`` in seconds since the epoch."""
    if said is not None and now < max(said.at + PAUSE, said.again):
        return None
    if not sight.enters:  # an entry may be left by a daemon that was killed, and whose pods are gone
        left = sight.node in words(sight.judged) if said is None else said.has_entries
        return document(sight.judged, {}) if left else None
    if said is None or not said.body:
        return body(sight, wall)
    new = frame(sight, wall)  # the components, which are most of it, are added only for a write
    changed = moved(said.rows) != moved(sight.rows) or differs(without_components(said.body["status"]), new["status"])
    every = RENEW if is_active(sight.channel) and reports_rate(sight) else HEARTBEAT
    return with_components(new, sight) if changed or now - said.at >= every or is_missed(sight, said) else None


def is_missed(sight: Sight, said: Said) -> bool:
    """Whether this node's entries are gone, as last looked at: it was taken for lost, or somebody has removed them."""
    seen_after = said.taken and sight.looked is not None and sight.looked - said.at >= MISSED
    return seen_after and sight.node not in words(sight.judged)


def due_verdict(
    judged: Judged, said: Said | None, now: float, wall: float, *, anew: bool = False
) -> dict[str, Any] | None:
    """Give the verdict to apply now, if any: each node adds it where it is missing, and asks rarely for the same.

    ``anew``: also where it is there. A daemon that was killed here may have applied it as this node, if it was of an
    earlier version, and it would go with what is applied next.
    """
    if (settled(judged) and not anew) or (said is not None and now < max(said.at + PAUSE, said.again)):
        return None
    new = verdict(judged, wall)
    same = said is not None and bool(said.body) and not differs(said.body["status"], new["status"])
    return None if said is not None and same and now - said.at < HEARTBEAT else new


def moved(rows: Iterable[Row]) -> list[tuple[object, ...]]:
    """Give the fields of components whose change is worth a write: no clocks, delays or reasons.

    A reason is written together with the change that it led to.
    """
    return [
        (one.name, one.role, one.qos, one.level, one.actuator, state.share, state.original, state.wanted, state.problem)
        for one in rows
        for state in (one.state,)
    ]


def without_components(status: Mapping[str, Any]) -> dict[str, Any]:
    """Give a status without its components."""
    return {key: value for key, value in status.items() if key != "components"}


def settled(judged: Judged) -> bool:
    """Whether the object already has the condition that a node could add.

    Of messages only one that names another policy counts: nodes of two versions may have other words for the rest, and
    would write over each other's.
    """
    now = condition(judged, 0.0)
    telling = ("message",) if judged.reason == CHANNEL_TAKEN else ()
    return any(
        all(known.get(key) == now[key] for key in ("type", "status", "reason", "observedGeneration", *telling))
        for known in (judged.status or {}).get("conditions") or ()
    )


def words(judged: Judged) -> dict[str, str]:
    """Give each node that has entries in a policy's status, with its own time stamp of them."""
    status = judged.status or {}
    nodes = {str(one["node"]): "" for one in status.get("components") or () if "node" in one}
    return nodes | {str(one.get("name")): str(one.get("observedAt")) for one in status.get("nodes") or ()}


#: Fields whose change is not worth a write: clocks.
_RESTLESS = frozenset({"observedAt", "commitAgeSeconds", "lastTransitionTime"})


def differs(old: Any, new: Any, name: str = "") -> bool:
    """Whether two statuses differ enough for a write."""
    if name in _RESTLESS:
        return False
    if isinstance(old, dict) and isinstance(new, dict):
        return (set(old) - _RESTLESS) != (set(new) - _RESTLESS) or any(
            differs(old[key], new[key], key) for key in old if key in new
        )
    if isinstance(old, list) and isinstance(new, list):
        return len(old) != len(new) or any(differs(a, b, name) for a, b in zip(old, new, strict=True))
    if name in ("throughput", "threshold") and all(isinstance(one, int | float) for one in (old, new)):
        return bool(abs(new - old) > MOVED * max(abs(old), abs(new), 1.0))
    if name == "interference" and isinstance(old, int) and isinstance(new, int):
        return abs(new - old) >= POINTS
    return bool(old != new)


def stamp(wall: float) -> str:
    """Format a time like the API does."""
    return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(text: object) -> float:
    """Read a time of the API in seconds since the epoch; 0 if it is invalid."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0
