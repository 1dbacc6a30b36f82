"""What is kept of a policy's status, of which all nodes write their parts, and a node reads few of the others'."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

from k8s_objects import policy_object

from qioi.kubernetes.policies import judge, slim_policy
from qioi.kubernetes.policy_watch import Looks, size
from qioi.kubernetes.remote import Reports
from qioi.kubernetes.reports import LastDecision, Row, Sight, body, settled, words
from qioi.show.snapshot import ChannelState, ComponentState


def long_status(nodes: int, components: int) -> dict[str, Any]:
    """Give a status as that many nodes write it together."""
    names = [f"node-{number}" for number in range(nodes)]
    return {
        "observedGeneration": 3,
        "throughput": 812.5,
        "conditions": [{"type": "Accepted", "status": "True", "reason": "InForce", "message": "in force",
                        "observedGeneration": 3, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "lastDecision": {"time": "2026-01-01T00:00:00Z", "node": names[0], "component": "peer0", "message": "m" * 900},
        "nodes": [{"name": name, "observedAt": "2026-01-01T00:00:00Z", "throughput": 812.5, "commitAgeSeconds": 0.2,
                   "interference": 20, "actuator": "files: cpu.shares of containers and pods", "problem": "p"}
                  for name in names],
        "components": [{"name": f"peer{number}", "node": name, "role": "peer", "qosClass": "Burstable", "level": "pod",
                        "levelReason": "l" * 80, "actuator": "files", "shares": 4096, "original": 1024,
                        "reason": "r" * 80} for name in names for number in range(components)],
    }  # fmt: skip


def test_of_a_status_that_is_kept_which_a_node_reads() -> None:
    """Whatever it reports with the whole before it, it reports with what is kept."""
    whole = {**policy_object(), "status": long_status(3, 2)}
    whole["metadata"]["generation"] = 3
    kept = slim_policy(whole)
    assert slim_policy(kept) == kept
    assert size([kept]) == size([whole])
    (read_whole,), (read_kept,) = judge([whole]), judge([kept])
    assert (words(read_kept), settled(read_kept)) == (words(read_whole), True)
    state = ChannelState("fab/payments", "adaptive", 80.0, 70.0, 0.3, 5)
    rows = (Row("peer9", "peer", "Burstable", "pod", ComponentState("fab/peer9", "peer", "g")),)
    for node, decided in (("a-node", 0.0), ("node-0", 0.0), ("z-node", 2e9)):
        decision = LastDecision(decided, "peer9", "m")
        said = [
            body(Sight(node, "files", one, state, rows, True, 100.0, decision, alive=frozenset({"node-0"})), 1.8e9)
            for one in (read_whole, read_kept)
        ]
        assert said[0] == said[1]
    looks = Looks(4.0, frozenset({"fab"}), frozenset({"fab"}))
    reports = [Reports("a-node") for _ in range(2)]
    for one, judged in zip(reports, (read_whole, read_kept), strict=True):
        one.take(judge([policy_object()]), 4.0, looks)
        one.take([judged], 5.0, looks)
    assert reports[0].reading("fab/payments", 6.0) == reports[1].reading("fab/payments", 6.0) is not None


def test_a_thousand_policies_of_a_hundred_nodes_take_little_memory() -> None:
    """The components, of which a node reads the nodes only, are most of a status."""
    tracemalloc.start()
    try:
        kept = []
        for number in range(20):
            one = {**policy_object(f"p{number}"), "status": json.loads(json.dumps(long_status(100, 5)))}
            kept.append(slim_policy(one))
            del one
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / len(kept) < 100_000
