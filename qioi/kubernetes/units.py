"""Pods' and containers' shares on systemd's record, where the kubelet's driver is systemd.

There a pod is a slice and a container a scope, and systemd writes its own values into both at each daemon-reload. So it
is told what the guard has written, as it is for units on a host without Kubernetes. That takes the host's D-Bus socket;
without it the files alone are written, and what a reload has undone is done again.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from qioi.discovery.records import NoRecordError, RecordError
from qioi.discovery.systemd import Systemd
from qioi.discovery.unit_records import unit_owner
from qioi.model import Owner, OwnerKind


class UnitNames:
    """Names the records of units by their groups; a name once given stays, since our own value is no clue.

    ``owners`` are the records that a daemon before this one has left changed on purpose, as it named them.
    """

    def __init__(self, owners: Iterable[Owner] = ()) -> None:
        self.problem: str | None = None
        self._former = {one.name: one for one in owners if one.kind == OwnerKind.SYSTEMD}
        self._names: dict[str, Owner] = {}
        self._systemd: Systemd | None = None

    def look(self, groups: Iterable[str]) -> dict[str, Owner]:
        """Give the record of each of these groups' units that systemd knows, and forget all others."""
        units = {group: group.rpartition("/")[2] for group in groups}
        known = {**self._former, **self._names}
        self._names = {unit: known[unit] for unit in units.values() if unit in known}
        self.problem = None
        for unit in units.values():
            if unit not in self._names:
                try:
                    with suppress(NoRecordError):  # gone meanwhile
                        self._names[unit] = self._ask(unit)
                except RecordError as error:
                    self.close()
                    self.problem = f"systemd is not told of shares, and undoes them: {error}"
                    break  # the others would have the same answer
        return {group: self._names[unit] for group, unit in units.items() if unit in self._names}

    def _ask(self, unit: str) -> Owner:
        if self._systemd is None:
            self._systemd = Systemd()
        return unit_owner(self._systemd, self._systemd.unit(unit))

    def close(self) -> None:
        """Close the connection."""
        if self._systemd is not None:
            self._systemd.close()
            self._systemd = None
