"""Containers' shares on their engine's record, by the engine's update call. Source: Docker Engine API, `CpuShares`."""

from __future__ import annotations

from qioi.discovery.engine import Engine, EngineError
from qioi.discovery.weights import conversion, shares_for

KIND = "docker"


def docker_owner(socket: str, container: str) -> str:
    """Name a container's record; it stands in the journal, so that `qioi restore` finds it alone."""
    return f"{KIND} {container} {socket}"


class EngineRecords:
    """All containers' records, in any number of engines."""

    def __init__(self, cgroup_version: int) -> None:
        self._version = cgroup_version
        self._engines: dict[str, Engine] = {}

    def party(self, owner: str) -> str:
        """Name the engine's socket."""
        return owner.split(" ", 2)[2]

    def update(self, owner: str, wanted: int, only_from: frozenset[int] | None) -> set[int]:
        """Speak to the engine; return what of ours is on the record after it."""
        _, container, socket = owner.split(" ", 2)
        engine = self._engines.get(socket)
        try:
            if engine is None:
                engine = self._engines[socket] = Engine(socket)
            if only_from is not None and engine.shares(container) not in {
                self._shares(engine, one) for one in only_from
            }:
                return set()  # never told, or changed by somebody else since
            engine.set_shares(container, self._shares(engine, wanted))
        except EngineError:
            dropped = self._engines.pop(socket, None)
            if dropped is not None:
                dropped.close()
            raise
        return set() if only_from is not None else {wanted}

    def _shares(self, engine: Engine, value: int) -> int:
        """Convert from the control group's unit to the engine's."""
        if self._version == 1:
            return value
        convert = conversion(engine.runc_version())
        if convert is None:
            raise EngineError(f"{engine.socket}: its runtime is not runc: how it makes weights of shares is unknown")
        return shares_for(value, convert)

    def close(self) -> None:
        """Close all connections."""
        for engine in self._engines.values():
            engine.close()
