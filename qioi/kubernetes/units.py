"""Systemd as the owner of pods' and containers' shares, where the kubelet's driver is systemd.

There a pod is a slice and a container a scope, and systemd writes its own values into both at each daemon-reload. So
systemd is told what the guard writes, like for units on a host without Kubernetes. That takes the host's D-Bus socket;
without it only the files are written, and written again after a reload.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress

from qioi.discovery.records import NoRecordError, RecordError, RefusedError
from qioi.discovery.systemd import Systemd
from qioi.discovery.unit_records import unit_owner
from qioi.model import Owner, OwnerKind

log = logging.getLogger("qioi")


class UnitNames:
    """Names the units that own groups; a name once given stays, because it cannot be derived from a value of ours.

    ``owners`` are the owners of groups that an earlier daemon left raised on purpose, as it named them.
    """

    def __init__(self, owners: Iterable[Owner] = ()) -> None:
        #: Why systemd has not named a unit. That it cannot be reached is none: so it is in a pod, and only logged.
        self.problem: str | None = None
        self._unreached: str | None = None
        self._former = {one.name: one for one in owners if one.kind == OwnerKind.SYSTEMD}
        self._names: dict[str, Owner] = {}
        self._systemd: Systemd | None = None

    @property
    def is_told(self) -> bool:
        """Whether systemd is told of all shares; otherwise its reloads undo some."""
        return self.problem is None and self._unreached is None

    def look(self, groups: Iterable[str]) -> dict[str, Owner]:
        """Give the owner of each of these groups whose unit systemd knows, and forget all other groups."""
        units = {group: group.rpartition("/")[2] for group in groups}
        known = {**self._former, **self._names}
        self._names = {unit: known[unit] for unit in units.values() if unit in known}
        self.problem, unreached = None, None
        for unit in units.values():
            if unit not in self._names:
                try:
                    with suppress(NoRecordError):  # the unit is gone meanwhile
                        self._names[unit] = self._ask(unit)
                except RefusedError as error:
                    self.problem = f"systemd is not told of shares of {unit}, and undoes them: {error}"
                except RecordError as error:
                    self.close()
                    unreached = f"reloads: systemd is not told of shares, and undoes them: {error}"
                    break  # all other units would have the same answer
        if unreached is not None and unreached != self._unreached:
            log.warning("%s", unreached)
        self._unreached = unreached
        return {group: self._names[unit] for group, unit in units.items() if unit in self._names}

    def _ask(self, unit: str) -> Owner:
        if self._systemd is None:
            self._systemd = Systemd()
        return unit_owner(self._systemd, self._systemd.unit(unit))

    def close(self) -> None:
        """Close the connection to systemd."""
        if self._systemd is not None:
            self._systemd.close()
            self._systemd = None
