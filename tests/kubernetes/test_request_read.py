"""What is read of a pod's CPU request, and which requests may be moved."""

from __future__ import annotations

from typing import Any

import pytest
from k8s_objects import pod_object

from qioi.kubernetes.cgroups import Qos
from qioi.kubernetes.pods import read_pod, slim
from qioi.kubernetes.requests import CpuRequest, hindrance, milli, shares_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [("100m", 100), ("0.1", 100), ("1", 1000), ("1500m", 1500), ("100u", 1), ("1n", 1), ("2k", 2_000_000), ("", None),
     ("0", 0), ("x", None), ("1Gi", None), ("Infinity", None), ("nan", None), ("m", None)],
)  # fmt: skip
def test_a_quantity(text: str, expected: int | None) -> None:
    assert milli(text) == expected


def test_the_kubelets_shares() -> None:
    assert [shares_of(one) for one in (0, 1, 10, 100, 1000, 4000, 10**9)] == [2, 2, 10, 102, 1024, 4096, 262144]


def test_what_is_read_of_a_pod() -> None:
    raw = pod_object(labels={"qioi.io/role": "peer"}, annotations={"qioi.io/original-cpu-request": "50m"})
    raw["spec"]["containers"][0] |= {
        "resources": {"requests": {"cpu": "200m"}, "limits": {"cpu": "1"}},
        "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
    }
    raw["status"]["containerStatuses"][0]["resources"] = {"requests": {"cpu": "100m"}}
    raw["status"]["conditions"] = [
        {"type": "Ready", "status": "True"},
        {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "no room"},
    ]
    found = read_pod(slim(raw))
    assert found is not None
    assert found.cpu == CpuRequest(0, "200m", "100m", "1", True, "Deferred: no room", "50m")


@pytest.mark.parametrize(
    ("resources", "pooled"),
    [(None, False), ({}, False), ({"requests": {}}, False), ({"requests": {"cpu": "1"}}, True),
     ({"limits": {"memory": "1Gi"}}, True)],
)  # fmt: skip
def test_resources_of_a_pod_as_a_whole_are_seen(resources: dict[str, Any] | None, pooled: bool) -> None:
    """Where there are any, the API server refuses each resize of the pod (validation.go: ValidatePodResize)."""
    raw = pod_object(labels={"qioi.io/role": "peer"})
    if resources is not None:
        raw["spec"]["resources"] = resources
    found = read_pod(slim(raw))
    assert found is not None
    assert found.cpu.pooled == pooled


@pytest.mark.parametrize(
    ("qos", "static", "cpu", "words"),
    [
        (Qos.BURSTABLE, False, CpuRequest(asked="100m"), None),
        (Qos.BEST_EFFORT, False, CpuRequest(), "BestEffort"),
        (Qos.GUARANTEED, False, CpuRequest(asked="1", limit="1"), "Guaranteed"),
        (Qos.BURSTABLE, False, CpuRequest(), "no CPU request"),
        (Qos.BURSTABLE, True, CpuRequest(asked="100m"), "static"),
        (Qos.BURSTABLE, False, CpuRequest(asked="100m", restarts=True), "resizePolicy"),
        (Qos.BURSTABLE, False, CpuRequest(asked="100m", pooled=True), "resources of the pod as a whole"),
        (Qos.BURSTABLE, False, CpuRequest(asked="1", limit="1"), "its limit leaves no room"),  # the memory makes it so
        (Qos.BURSTABLE, False, CpuRequest(asked="100m", limit="110m"), "its limit leaves no room"),
        (Qos.BURSTABLE, False, CpuRequest(asked="100m", limit="111m"), None),
        (Qos.BURSTABLE, False, CpuRequest(asked="0", limit="1m"), "its limit leaves no room"),
    ],
)
def test_whose_request_may_be_moved(qos: Qos, static: bool, cpu: CpuRequest, words: str | None) -> None:
    why = hindrance(qos, static, cpu)
    assert (why is None) if words is None else (why is not None and words in why)
