"""Read a container's CPU request, convert it as the kubelet does, and tell whether it may be resized in place.

Sources: Kubernetes apimachinery resource.Quantity; pkg/kubelet/cm MilliCPUToShares; "Resize CPU and Memory Resources
assigned to Containers" (subresource `resize`, condition PodResizePending, resizePolicy).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Any

from qioi.kubernetes.cgroups import Qos
from qioi.kubernetes.client import Object
from qioi.model import MAX_SHARES, MIN_SHARES

#: The annotation with the original request of a pod's main container; the pod has it while the request is changed.
ORIGINAL_ANNOTATION = "qioi.io/original-cpu-request"
#: Least change of a request, as a fraction of it; a restore may be smaller.
STEP = 0.1
#: The condition by which the kubelet refuses a resize (for now: Deferred, for good: Infeasible).
PENDING = "PodResizePending"

_UNITS = {"n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1), "k": Decimal(1000)}


def milli(quantity: str) -> int | None:
    """Read a quantity of CPU in thousandths, rounded up as Kubernetes does; ``None`` for an invalid one."""
    digits = quantity.rstrip("numk")
    try:
        number = Decimal(digits) * _UNITS[quantity[len(digits) :]] * 1000
        return int(number.to_integral_value(ROUND_CEILING)) if number.is_finite() else None
    except (InvalidOperation, KeyError):
        return None


def is_step(current: int, target: int) -> bool:
    """Whether a change of a request is large enough for the work that it makes."""
    return abs(target - current) >= STEP * current


def shares_of(thousandths: int) -> int:
    """Give the shares that the kubelet sets for a request."""
    return max(MIN_SHARES, min(MAX_SHARES, thousandths * 1024 // 1000))


@dataclass(frozen=True, slots=True)
class CpuRequest:
    """One container's request. Quantities are as written, empty where there is none.

    ``position`` is the container's index in the pod; ``actual`` the request that the kubelet has applied; ``pending``
    why it does not apply ``asked``; ``original`` the annotation; ``restarts``: a resize would restart the container;
    ``pooled``: the pod has resources as a whole, too.
    """

    position: int = 0
    asked: str = ""
    actual: str = ""
    limit: str = ""
    restarts: bool = False
    pending: str | None = None
    original: str | None = None
    pooled: bool = False

    @property
    def most(self) -> int | None:
        """The largest request in thousandths of a CPU; ``None`` where there is no limit.

        It is below the limit, because reaching it could make the pod Guaranteed, which the API refuses.
        """
        limit = milli(self.limit)
        return None if limit is None else limit - 1


NO_REQUEST = CpuRequest()


def cpu_request(container: Mapping[str, Any]) -> str:
    """Give a container's CPU request as written; without a request, its limit."""
    resources = container.get("resources") or {}
    return str((resources.get("requests") or {}).get("cpu", (resources.get("limits") or {}).get("cpu", "")))


def original_of(pod: Object) -> str | None:
    """Give a pod's annotation with the original request, if it has one."""
    original: str | None = (pod["metadata"].get("annotations") or {}).get(ORIGINAL_ANNOTATION)
    return original


def read_request(pod: Object, main: str) -> CpuRequest:
    """Read the CPU request of a pod's container ``main``, whether it runs or not."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    declared = spec.get("containers") or []
    position = next((number for number, one in enumerate(declared) if one["name"] == main), None)
    if position is None:
        return NO_REQUEST
    container = declared[position]
    resources = container.get("resources") or {}
    running: Mapping[str, Any] = next((one for one in status.get("containerStatuses") or () if one["name"] == main), {})
    policies = container.get("resizePolicy") or ()
    pending = next((one for one in status.get("conditions") or ()
                    if one.get("type") == PENDING and one.get("status", "True") == "True"), None)  # fmt: skip
    return CpuRequest(
        position,
        str((resources.get("requests") or {}).get("cpu", "")),
        str(((running.get("resources") or {}).get("requests") or {}).get("cpu", "")),
        str((resources.get("limits") or {}).get("cpu", "")),
        any(one.get("resourceName") == "cpu" and one.get("restartPolicy") == "RestartContainer" for one in policies),
        None if pending is None else f"{pending.get('reason')}: {pending.get('message')}",
        original_of(pod),
        any((spec.get("resources") or {}).get(kind) for kind in ("requests", "limits")),
    )


def hindrance(qos: Qos, static: bool, cpu: CpuRequest) -> str | None:
    """Say why a pod's request may not be moved; ``None`` if it may."""
    if static:
        return "a static pod: its request is in a file of its node"
    if cpu.pooled:
        return "it has resources of the pod as a whole: the API server refuses to resize such pods"
    if qos is Qos.BEST_EFFORT:
        return "BestEffort: with a request it would be of another class"
    if qos is Qos.GUARANTEED:
        return "Guaranteed: its request is its limit"
    asked = milli(cpu.asked)
    if asked is None:
        return "no CPU request: one that is added can't be removed again"
    if cpu.restarts:
        return "its resizePolicy restarts the container"
    if cpu.most is not None and (cpu.most <= asked or not is_step(asked, cpu.most)):
        return "its limit leaves no room"
    return None
