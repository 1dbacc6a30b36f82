"""Containers' shares on containerd's record, by the NRI plugin beside the daemon (deploy/k8s/nri).

containerd writes the shares that it has on record into the group again whenever it updates the container for another
reason: a cpuset of the kubelet's CPU manager, a memory limit. The protocol is one JSON object a line over a Unix
socket; deploy/k8s/nri/server.go says which.
"""

from __future__ import annotations

import json
import socket
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from qioi.controller.guard.journal import Entry
from qioi.discovery.records import NoRecordError, RecordError, RefusedError
from qioi.discovery.weights import Conversion, linear, quadratic, shares_for
from qioi.model import OnRecord, Owner, OwnerKind

#: Seconds that an answer may take: containerd starts its runtime for an update, beside a crowd.
TIMEOUT = 10.0
#: No answer is read beyond this many bytes.
MAX_LINE = 64 * 1024

#: How the runtime makes the group's value of shares; on cgroup v1 they are the same.
CONVERSIONS: dict[str, Conversion] = {"shares": int, "linear": linear, "quadratic": quadratic}


@dataclass(frozen=True, slots=True)
class Runtime:
    """Whom the plugin is connected to."""

    name: str
    containers: int


class Plugin:
    """The plugin at a socket. Every call is a connection of its own: calls are seconds apart."""

    def __init__(self, path: str) -> None:
        self.path = path

    def runtime(self) -> Runtime:
        """Say whom it is connected to; RecordError while it is not."""
        answer = self._ask(op="state")
        return Runtime(str(answer.get("runtime", "")), int(answer.get("containers", 0)))

    def shares(self, container: str) -> int:
        """Give the shares on a container's record, 0 where it has none. NoRecordError, RecordError."""
        return int(self._ask(op="get", container=container).get("shares", 0))

    def set_shares(self, container: str, shares: int) -> None:
        """Have containerd update a container. NoRecordError, RecordError."""
        self._ask(op="set", container=container, shares=shares)

    def _ask(self, **request: object) -> dict[str, Any]:
        line = b""
        try:
            with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
                connection.settimeout(TIMEOUT)
                connection.connect(self.path)
                connection.sendall(json.dumps(request).encode() + b"\n")
                while not line.endswith(b"\n") and len(line) < MAX_LINE:
                    part = connection.recv(4096)
                    if not part:
                        break
                    line += part
            answer = json.loads(line)
        except OSError as error:
            raise RecordError(f"{self.path}: {error.strerror or 'no answer in time'}") from None
        except ValueError:
            raise RecordError(f"{self.path}: what answers there is no NRI plugin of QiOi's") from None
        if isinstance(answer, dict) and answer.get("ok") is True:
            return answer
        if not isinstance(answer, dict):
            raise RecordError(f"{self.path}: no answer")
        if answer.get("gone") is True:
            raise NoRecordError(str(answer.get("error")))
        raise RefusedError(f"{self.path}: {answer.get('error')}")


def nri_owner(path: str, container: str, conversion: str, shares: int) -> Owner:
    """Name a container's record, with the ``shares`` on it: of those that make the same weight, these are put back."""
    return Owner(OwnerKind.NRI, container, path, (OnRecord(conversion, shares),))


def conversion_of(version: int, shares: int, found: int) -> str | None:
    """Tell how the runtime makes weights of shares, by a container that has ``shares`` on record and weight ``found``.

    On cgroup v1 there is nothing to convert. ``None``: by none of the formulas, or by all of them.
    """
    if version == 1:
        return "shares"
    fitting = [name for name in ("linear", "quadratic") if CONVERSIONS[name](shares) == found]
    return fitting[0] if len(fitting) == 1 else None


def shares_to_tell(value: int, convert: Conversion, found: int) -> int:
    """Give the shares that make ``value``: those ``found`` on record (0: unknown) if they do, else the smallest."""
    return found if found and convert(found) == value else shares_for(value, convert)


class NriRecords:
    """All containers' records. On cgroup v1 values are shares, on v2 weights."""

    def update(self, entry: Entry, wanted: int, only_from: frozenset[int] | None) -> set[int]:
        """Have containerd's record say ``wanted``; return what of ours is on it after that."""
        assert entry.owner is not None  # it was told of this one
        container, (found,) = entry.owner.name, entry.owner.found
        plugin, convert = Plugin(entry.owner.where), CONVERSIONS[found.name]
        if only_from is not None and convert(plugin.shares(container)) not in only_from:
            return set()  # never told, or changed by somebody else since
        plugin.set_shares(container, shares_to_tell(wanted, convert, found.value or 0))  # former journals have none
        return set() if only_from is not None else {wanted}

    def close(self) -> None:
        """Nothing is kept open."""
