"""The components among systemd's units, kept up to date by its signals.

One thread listens, and asks systemd about the units that match a rule when something has happened to one of them. As
with an engine, what was found stays while systemd does not answer: the loop notices when a group is gone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from qioi.discovery.base import Found
from qioi.discovery.recognise import LOGGED, organisation
from qioi.discovery.systemd import NoUnitError, Systemd, SystemdError, SystemdRefusedError, Unit
from qioi.discovery.tracebacks import Tracebacks
from qioi.discovery.unit_records import is_told, unit_owner
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Component, Owner, OwnerKind, Role

#: Seconds between attempts to reach systemd, which is away for a moment when it executes itself anew.
RETRY = 0.3
#: Seconds after which the units are listed all the same.
RELIST = 30.0
#: The most records that are kept of units that are gone. The daemon may act on such a unit for a moment yet.
KEPT = 1000
ABOUT = "units of this host"


@dataclass(frozen=True, slots=True)
class UnitRule:
    """One of the configuration's rules: a shell pattern for names of units, and what they are.

    ``log`` is a file for units that do not log to the journal.
    """

    role: Role
    unit: str
    channels: tuple[str, ...] = ()
    log: str | None = None


class UnitDiscovery:
    """Watches systemd from construction until :meth:`close`.

    ``owners`` are the records that a daemon before this one has left changed on purpose, as it named them: what
    the properties say now is then not what they said at first.
    """

    def __init__(
        self, hierarchy: Hierarchy, rules: Sequence[UnitRule], *, owned: bool = True, owners: Iterable[Owner] = ()
    ) -> None:
        self._hierarchy = hierarchy
        self._rules = tuple(rules)
        self._owned = owned
        self._owners = {one.name: one for one in owners if one.kind == OwnerKind.SYSTEMD}
        self._found = Found(problems={ABOUT: "systemd has not answered yet"}, complete=False)
        self._stop = threading.Event()
        self._listed = threading.Event()
        self._systemd: Systemd | None = None
        self._tracebacks = Tracebacks()
        self._thread = threading.Thread(target=self._run, name="qioi-systemd", daemon=True)
        self._thread.start()

    def found(self) -> Found:
        """Give what is there now."""
        return self._found

    def wait(self, seconds: float) -> bool:
        """Wait for the first complete list, at most so long; say whether there is one."""
        return self._listed.wait(seconds)

    def close(self) -> None:
        """Stop listening."""
        self._stop.set()
        systemd = self._systemd
        if systemd is not None:
            systemd.hang_up()
        self._thread.join(timeout=2.0)

    # ---- the thread

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._session()
            except SystemdError as error:
                self._complain(f"{error}: asked again until it answers; what was found stays")
            except Exception as error:  # an answer of unknown shape must not end the watch
                self._tracebacks.say("systemd", error)
                self._complain(f"{type(error).__name__}: {error}")
            self._stop.wait(RETRY)

    def _complain(self, problem: str) -> None:
        """Say what is wrong, beside what was found before."""
        self._publish(replace(self._found, problems={**self._found.problems, ABOUT: problem}))

    def _session(self) -> None:
        """Listen, list, and follow until systemd goes away."""
        systemd = self._systemd = Systemd()
        try:
            systemd.subscribe()
            while not self._stop.is_set():
                self._list(systemd)
                systemd.wait(RELIST, self._matters)
        finally:
            self._systemd = None
            systemd.close()

    def _matters(self, name: str) -> bool:
        return any(fnmatchcase(name, rule.unit) for rule in self._rules)

    def _list(self, systemd: Systemd) -> None:
        """Look at every active unit that a rule is for."""
        components: list[Component] = []
        problems: dict[str, str] = {}
        slices: dict[str, Owner] = {}
        idle = {rule.unit for rule in self._rules}
        units = [one for one in systemd.units(dict.fromkeys(rule.unit for rule in self._rules)) if one.active]
        for unit in sorted(units, key=lambda one: one.name):
            rule = next((rule for rule in self._rules if fnmatchcase(unit.name, rule.unit)), None)
            if rule is None:
                continue
            idle = {pattern for pattern in idle if not fnmatchcase(unit.name, pattern)}
            try:
                component = self._look(systemd, unit, rule)
                components.append(component)
                slices |= self._slices(systemd, component.cgroup)
            except NoUnitError:  # gone meanwhile
                continue
            except (NoShareError, SystemdRefusedError) as error:
                problems[f"unit {unit.name}"] = str(error)
        problems |= {f"systemd unit {pattern}": "none is active" for pattern in sorted(idle)}
        self._forget({owner.name for owner in (*slices.values(), *(one.owner for one in components)) if owner})
        self._publish(Found(tuple(components), {}, problems, slices))
        self._listed.set()

    def _look(self, systemd: Systemd, unit: Unit, rule: UnitRule) -> Component:
        """Make a component of a unit."""
        group = str(systemd.get(unit, "ControlGroup")).strip("/")
        if not group or not (self._hierarchy.folder(group) / self._hierarchy.file).exists():
            remedy = f"`systemctl set-property {unit.name} CPUWeight=100` gives it one"
            raise NoShareError(f"it has no {self._hierarchy.file} of its own: {remedy}")
        logged = rule.role in LOGGED
        name = unit.name.removesuffix(".service")
        return Component(
            name,
            rule.role,
            group,
            rule.channels,
            (rule.log or unit.name) if logged else None,
            "plain" if rule.log else "journald",
            self._owner(systemd, unit),
            organisation=organisation(name.removesuffix(".scope"), {}, {}),
        )

    def _owner(self, systemd: Systemd, unit: Unit) -> Owner | None:
        """Name a unit's record, with what was on it before anything of ours: units are edited, and made anew."""
        if not self._owned:
            return None
        known = self._owners.get(unit.name)
        if known is None or not is_told(known):
            now = unit_owner(systemd, unit)
            if known is None or not is_told(now):  # not told in between either
                known = now
        self._owners.pop(unit.name, None)  # the one that was looked at last comes last
        self._owners[unit.name] = known
        return known

    def _forget(self, present: Set[str]) -> None:
        """Forget the records of units that went the longest ago, unless systemd keeps a share for when they return."""
        gone = [name for name in self._owners if name not in present]
        for name in gone[: max(0, len(gone) - KEPT)]:
            if not is_told(self._owners[name]):
                del self._owners[name]

    def _slices(self, systemd: Systemd, group: str) -> dict[str, Owner]:
        """Name the records of the slices that a unit is in, by their groups: they may be raised for it."""
        parts = group.split("/")[:-1] if self._owned else []
        return {
            "/".join(parts[: depth + 1]): owner
            for depth, name in enumerate(parts)
            if name.endswith(".slice") and (owner := self._owner(systemd, systemd.unit(name))) is not None
        }

    def _publish(self, found: Found) -> None:
        """Show what is there; readers have the old value or the new one."""
        if found != self._found:
            self._found = found


class NoShareError(Exception):
    """A unit's group has no share; the message says what gives it one."""
