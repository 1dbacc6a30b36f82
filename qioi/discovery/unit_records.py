"""Units' shares on systemd's record, as `systemctl set-property --runtime` puts them there.

systemd writes its own value into a unit's group at each daemon-reload, so it must know ours. A property that is set
makes a drop-in below /run that would go before whatever the unit's own file says later; so it is taken away again
when the property is back at what it was, if there was none before. (systemd then says of the unit that its files
have changed on disk, until the next daemon-reload: its values are the same.)
Source: systemd.resource-control(5), org.freedesktop.systemd1(5).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from qioi.controller.guard.journal import Entry
from qioi.discovery.systemd import UNSET, NoUnitError, Systemd, SystemdError, SystemdRefusedError, Unit
from qioi.model import OnRecord, Owner, OwnerKind

#: Where set-property --runtime keeps what it is told: of units that are in files, and of those that are in none.
FOLDERS = Path("/run/systemd/system.control"), Path("/run/systemd/transient")
#: Both are there on either version; CPUWeight goes before CPUShares (which is v1's, and older).
WEIGHT, SHARES = "CPUWeight", "CPUShares"

Originals = Mapping[str, int | None]


def unit_owner(systemd: Systemd, unit: Unit) -> Owner:
    """Name a unit's record, with what it says now."""
    values = {name: int(systemd.get(unit, name)) for name in (WEIGHT, SHARES)}
    return Owner(
        OwnerKind.SYSTEMD,
        unit.name,
        found=tuple(
            OnRecord(name, None if value == UNSET else value, is_kept(unit.name, name))
            for name, value in values.items()
        ),
    )


def is_told(owner: Owner) -> bool:
    """Whether systemd keeps a share of this unit until the next boot: ours, or one that was there before."""
    return any(is_kept(owner.name, one.name) for one in owner.found)


def had_drop_in(owner: Owner) -> set[str]:
    """Name the properties that had a drop-in when the unit was found, before QiOi set any."""
    return {one.name for one in owner.found if one.kept}


def is_kept(unit: str, name: str) -> bool:
    """Whether a drop-in keeps a property."""
    return any(file.exists() for file in drop_ins(unit, name))


def take_away(unit: str, name: str) -> None:
    """Remove the drop-in that keeps a property, as far as this process may."""
    for file in drop_ins(unit, name):
        with suppress(OSError):
            file.unlink()
            file.parent.rmdir()


def kept_value(file: Path) -> str:
    """Read what a drop-in of systemd's says last; empty where there is none."""
    try:
        return file.read_text(encoding="utf-8").rstrip().rpartition("=")[2]
    except FileNotFoundError:
        return ""


def drop_ins(unit: str, name: str) -> list[Path]:
    """Name the files of which one keeps a property."""
    return [folder / f"{unit}.d" / f"50-{name}.conf" for folder in FOLDERS]


class UnitRecords:
    """All units' records."""

    def __init__(self, cgroup_version: int) -> None:
        self._key = WEIGHT if cgroup_version == 2 else SHARES
        self._version = cgroup_version
        self._systemd: Systemd | None = None

    def update(self, entry: Entry, wanted: int, only_from: frozenset[int] | None) -> set[int]:
        """Speak to systemd; return what of ours is on the record after it."""
        assert entry.owner is not None  # it was told of this one
        name, originals = entry.owner.name, {one.name: one.value for one in entry.owner.found}
        try:
            if self._systemd is None:
                self._systemd = Systemd()
            if only_from is None and wanted != implied(originals, self._version):
                self._systemd.set(name, self._values(originals, wanted))
                return {wanted}
            if only_from is not None and self._systemd.get(self._systemd.unit(name), self._key) not in only_from:
                return set()  # never told, or changed by somebody else since
            self._put_back(name, originals, wanted, had_drop_in(entry.owner))
        except (NoUnitError, SystemdRefusedError) as error:
            clean = only_from is not None and self._take_away(entry.owner, originals, only_from)
            if not clean or isinstance(error, NoUnitError):
                raise
            return set()
        except SystemdError:
            self.close()
            raise
        return {wanted} if only_from is None else set()

    def _values(self, originals: Originals, wanted: int) -> dict[str, int]:
        """Give what makes ``wanted`` the unit's share: on v1, a weight would go before it."""
        weight = {WEIGHT: UNSET} if self._key == SHARES and originals[WEIGHT] is not None else {}
        return {**weight, self._key: wanted}

    def _put_back(self, name: str, originals: Originals, wanted: int, kept: set[str]) -> None:
        """Set each property that was touched as it was; or, where the group was not at that value, to the group's."""
        assert self._systemd is not None  # update() has seen to it
        values = self._values(originals, wanted)
        if wanted == implied(originals, self._version):
            values = {key: or_unset(originals[key]) for key in values}
        self._systemd.set(name, values)
        for key, value in values.items():
            if key not in kept and value == or_unset(originals[key]):
                take_away(name, key)  # where it cannot be, it says what was there before

    def _take_away(self, owner: Owner, originals: Originals, only_from: frozenset[int]) -> bool:
        """Remove QiOi's drop-ins of a unit whose properties systemd refuses to set; say whether none is left.

        systemd refuses those of a unit that is masked, has a bad setting, or has lost its file. Once the unit is loaded
        again, its drop-ins would go before that file.
        """
        ours, keys = {str(one) for one in only_from}, self._values(originals, 0).keys()
        try:
            if not any(kept_value(file) in ours for file in drop_ins(owner.name, self._key)):
                return True  # never told, or changed by somebody else since
        except (OSError, ValueError):
            return False
        if had_drop_in(owner) & keys:  # only systemd knows how to write what it said
            return False
        for key in keys:
            take_away(owner.name, key)
        return not any(is_kept(owner.name, key) for key in keys)

    def close(self) -> None:
        """Close the connection."""
        if self._systemd is not None:
            self._systemd.close()
            self._systemd = None


def or_unset(value: int | None) -> int:
    """Give systemd's number for a property."""
    return UNSET if value is None else value


def implied(originals: Originals, version: int) -> int:
    """Say which value systemd gives a group for these properties, in the group's file's unit."""
    weight, shares = originals[WEIGHT], originals[SHARES]
    if version == 2:
        return weight if weight is not None else max(1, min(10_000, (shares or 1024) * 100 // 1024))
    return max(2, min(262_144, weight * 1024 // 100)) if weight is not None else shares or 1024
