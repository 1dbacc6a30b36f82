"""What a snapshot says of the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class PodState(Struct, frozen=True):
    """Which pod a component is, and which of its groups is moved."""

    component: str
    namespace: str
    pod: str
    container: str
    qos: str
    level: str
    actuator: str = "files"


class KubernetesState(Struct, frozen=True):
    """This node's part. ``requests`` counts those made to the API server, by verb and HTTP status."""

    node: str
    actuator: str
    pods: tuple[PodState, ...]
    requests: Mapping[str, int]
    refused: tuple[str, ...]  # policies that are not in force, and why
    means: tuple[str, ...] = ()  # all actuators, the preferred one first, and what was found of them at the start


def kubernetes_metrics(state: KubernetesState) -> Iterator[Metric]:
    """Give all families; those of components are joined by the label ``component``."""
    labels = ["component", "namespace", "pod", "container", "qos", "level", "node"]
    pods = GaugeMetricFamily(
        "qioi_pod_info", "Which pod a component is, and which of its groups are moved: 1", labels=labels
    )
    for one in state.pods:
        pods.add_metric([one.component, one.namespace, one.pod, one.container, one.qos, one.level, state.node], 1.0)
    yield pods
    requests = CounterMetricFamily("qioi_kubernetes_requests", "Requests to the API server by verb and HTTP status",
                                   labels=["verb", "code"])  # fmt: skip
    for key, count in state.requests.items():
        verb, _, code = key.partition(" ")
        requests.add_metric([verb, code], count)
    yield requests
    yield GaugeMetricFamily("qioi_policies_refused", "Policies that are not in force", value=float(len(state.refused)))
