"""What a snapshot says of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PodState:
    """Which pod a component is, and which of its groups is moved."""

    component: str
    namespace: str
    pod: str
    container: str
    qos: str
    level: str
    actuator: str = "files"


@dataclass(frozen=True, slots=True)
class KubernetesState:
    """This node's part. ``requests`` counts those made to the API server, by verb and HTTP status."""

    node: str
    actuator: str
    pods: tuple[PodState, ...]
    requests: Mapping[str, int]
    refused: tuple[str, ...]  # policies that are not in force, and why
    means: tuple[str, ...] = ()  # all actuators, the preferred one first, and what was found of them at the start
