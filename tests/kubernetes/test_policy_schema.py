"""The schema of IsolationPolicy, judged by a real API server: what it fills in, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from demo_k8s.control_plane import ControlPlane
from demo_k8s.objects import policy

pytestmark = pytest.mark.slow
LEAST = {"channel": "payments"}
EXISTS_ONE_OF = {"key": "a", "operator": "Exists", "values": ["b"]}


def create(plane: ControlPlane, namespace: str, spec: object) -> dict[str, Any]:
    text = plane.kubectl("create", "-n", namespace, "-f", "-", "-o", "json", text=json.dumps(policy("one", spec)))
    made: dict[str, Any] = json.loads(text)
    return made


def test_what_is_left_out_is_filled_in(plane: ControlPlane, namespace: str) -> None:
    assert create(plane, namespace, LEAST)["spec"] == {
        "channel": "payments",
        "threshold": "auto",
        "law": "adaptive",
        "beyond": "neighbours",
        "k": 4,
        "bounds": {},
        "selectors": {},
        "priority": 0,
        "dryRun": False,
        "resize": False,
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"channel": "My.Channel-1_x"},
        {**LEAST, "threshold": 400},
        {**LEAST, "threshold": "0.5"},
        {**LEAST, "threshold": "auto", "law": "proportional", "k": 2.5},
        {**LEAST, "bounds": {"floor": 2048, "ceiling": 2048}},
        {**LEAST, "bounds": {"floor": 20000}},
        {**LEAST, "selectors": {"peers": {"matchLabels": {"org": "one"}}, "orderers": {}}},
        {**LEAST, "selectors": {"peers": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}},
        {**LEAST, "selectors": {"chaincodes": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}},
        {**LEAST, "selectors": {"peers": {"matchLabels": {"k" * 253 + "/" + "n" * 63: "v" * 63}}}},
        {**LEAST, "priority": 100, "dryRun": True, "beyond": "ledger"},
    ],
)
def test_good_ones_are_taken_as_they_are(plane: ControlPlane, namespace: str, spec: dict[str, Any]) -> None:
    made = create(plane, namespace, spec)["spec"]
    assert {key: made[key] for key in spec if key != "bounds"} == {k: v for k, v in spec.items() if k != "bounds"}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "spec.channel"),
        ({"channel": ""}, "spec.channel"),
        ({"channel": "1st"}, "spec.channel"),
        ({"channel": "a b"}, "spec.channel"),
        ({"channel": "a" * 250}, "spec.channel"),
        ({**LEAST, "threshold": 0}, "above 0"),
        ({**LEAST, "threshold": -1}, "above 0"),
        ({**LEAST, "threshold": "0.0"}, "above 0"),
        ({**LEAST, "threshold": "fast"}, "above 0"),
        ({**LEAST, "threshold": 1.5}, "spec.threshold"),
        ({**LEAST, "threshold": True}, "spec.threshold"),
        ({**LEAST, "law": "pid"}, "spec.law"),
        ({**LEAST, "beyond": "nobody"}, "spec.beyond"),
        ({**LEAST, "k": 0}, "spec.k"),
        ({**LEAST, "k": "4"}, "spec.k"),
        ({**LEAST, "bounds": {"floor": 1}}, "spec.bounds.floor"),
        ({**LEAST, "bounds": {"ceiling": 262145}}, "spec.bounds.ceiling"),
        ({**LEAST, "bounds": {"floor": 4096, "ceiling": 2048}}, "at most the ceiling"),
        ({**LEAST, "priority": -1}, "spec.priority"),
        ({**LEAST, "dryRun": "yes"}, "spec.dryRun"),
        ({**LEAST, "surprise": 1}, "spec.surprise"),
        ({**LEAST, "selectors": {"brokers": {}}}, "spec.selectors.brokers"),
        ({**LEAST, "selectors": {"peers": {"matchLabels": {"a": 1}}}}, "matchLabels"),
        ({**LEAST, "selectors": {"peers": {"matchLabels": {"k" * 318: "v"}}}}, "at most 317 characters"),
        ({**LEAST, "selectors": {"orderers": {"matchLabels": {"k": "v" * 64}}}}, "matchLabels"),
        ({**LEAST, "selectors": {"peers": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}}, "operator"),
        ({**LEAST, "selectors": {"peers": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}, "need values"),
        ({**LEAST, "selectors": {"peers": {"matchExpressions": [EXISTS_ONE_OF]}}}, "take none"),
    ],
)
def test_bad_ones_are_refused_with_the_place(plane: ControlPlane, namespace: str, spec: object, words: str) -> None:
    complaint = plane.kubectl("create", "-n", namespace, "-f", "-", text=json.dumps(policy("one", spec)), fails=True)
    assert words in complaint


def test_a_policy_keeps_its_channel(plane: ControlPlane, namespace: str) -> None:
    create(plane, namespace, LEAST)
    change = ("patch", "isolationpolicy", "one", "-n", namespace, "--type=merge", "-p")
    assert "keeps its channel" in plane.kubectl(*change, '{"spec":{"channel":"other"}}', fails=True)
    plane.kubectl(*change, '{"spec":{"threshold":250}}')


def test_status_is_written_apart_from_the_specification(plane: ControlPlane, namespace: str) -> None:
    create(plane, namespace, LEAST)
    status = {"throughput": 412.5, "nodes": [{"name": "n1", "throughput": 412.5}]}
    change = json.dumps({"spec": {"threshold": 7}, "status": status})
    plane.kubectl("patch", "isopol", "one", "-n", namespace, "--type=merge", "--subresource=status", "-p", change)
    after = json.loads(plane.kubectl("get", "isopol", "one", "-n", namespace, "-o", "json"))
    assert after["status"] == status
    assert after["spec"]["threshold"] == "auto"
    assert after["metadata"]["generation"] == 1


def test_a_person_sees_what_matters(plane: ControlPlane, namespace: str) -> None:
    create(plane, namespace, {**LEAST, "threshold": 400})
    status = {"status": {"throughput": 412.5, "threshold": 400, "interference": 31}}
    plane.kubectl("patch", "isopol", "one", "-n", namespace, "--type=merge", "--subresource=status",
                  "-p", json.dumps(status))  # fmt: skip
    heading, row = plane.kubectl("get", "isolationpolicies", "-n", namespace).splitlines()
    assert heading.split() == [
        "NAME", "CHANNEL", "LAW", "THROUGHPUT", "THRESHOLD", "INTERFERENCE", "ACCEPTED", "AGE",
    ]  # fmt: skip
    assert row.split()[:6] == ["one", "payments", "adaptive", "412.5", "400", "31"]
