"""The loop in this process, over a folder that looks like cgroup v2, with readings that the test makes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from qioi.controller.best_effort import BestEffort
from qioi.controller.guard.guard import Guard
from qioi.controller.guard.idle_groups import IdleGuard
from qioi.controller.guard.journal import Journal
from qioi.controller.levels.cap import Capper
from qioi.controller.levels.placement import KeptBack, Levels, Placement
from qioi.controller.levers.files import Files
from qioi.controller.slicing import AnySlicer, NoSlicer
from qioi.daemon.daemon import Daemon
from qioi.daemon.instruments import Instruments
from qioi.kernel.cpu_accounts import CpuAccounts
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import ChannelReading, Component, DelayReading, Foreigner, HostLoad, LeaderChange, Stalls
from qioi.monitor.commits.sources import SourceState
from qioi.monitor.scheduler.host import HostWatch
from qioi.roster import FixedRoster
from qioi.settings.config import load_config
from qioi.show.snapshot import ChannelState, ComponentState, Snapshot


class ToyInstruments:
    """Every instrument in one: it shows what the test has put in."""

    def __init__(self) -> None:
        self.tps: dict[str, float] = {}
        self.age = 0.1
        self.ages: dict[str, float] = {}  # of channels that have one of their own
        self.seen: tuple[str, ...] = ()  # channels that commits came of
        self.elsewhere: dict[str, float] = {}  # when a channel without a policy committed
        self.waits: dict[str, tuple[float, float]] = {}  # run and wait in seconds per second
        self.threads = 15  # of each component
        self.met: Collection[str] = ()  # components that were not known before
        self.host = HostLoad(0.0, 0.9)
        self.cpus: dict[str, frozenset[int]] = {}  # of pinned components
        self.stalls = Stalls(0.0)
        self.slicer: AnySlicer = NoSlicer()
        self.best_effort: BestEffort | None = None
        self.host_watch: HostWatch | None = None  # a real one, in place of ``host``
        self.elections: list[LeaderChange] = []
        self.used: dict[str, float] = {}  # CPUs by group
        self.foreigners: tuple[Foreigner, ...] = ()
        self.siblings: dict[str, dict[str, int]] = {}  # weights of running neighbours, by the group above them
        self.sources: Callable[[], list[SourceState]] = list

    def as_instruments(self, guard: Guard, hierarchy: Hierarchy) -> Instruments:
        host = self.host_watch or ToyHost(self)
        parts = ToyChannels(self), ToyDelays(self), host, ToyStalls(self), ToyLevels(self)
        return Instruments(
            *parts, Capper(guard, hierarchy, CpuAccounts(2, hierarchy.mount)), self.slicer, self.best_effort
        )  # type: ignore[arg-type]


class ToyPart:
    def __init__(self, toy: ToyInstruments) -> None:
        self.toy = toy

    def watch(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass


class ToyChannels(ToyPart):
    def __init__(self, toy: ToyInstruments) -> None:
        super().__init__(toy)
        self.committed: dict[str, float] = {}

    def read(self, now: float) -> dict[str, ChannelReading]:
        readings = {}
        for name, tps in self.toy.tps.items():  # a period is a second
            self.committed[name] = self.committed.get(name, 0.0) + tps
            age = self.toy.ages.get(name, self.toy.age)
            readings[name] = ChannelReading(name, tps, age, committed=int(self.committed[name]))
        return readings

    def states(self) -> list[SourceState]:
        return self.toy.sources()

    def elections(self) -> list[LeaderChange]:
        elections, self.toy.elections = self.toy.elections, []
        return elections

    def seen(self) -> tuple[str, ...]:
        return self.toy.seen

    def heard(self, since: float) -> tuple[str, ...]:
        return tuple(name for name, instant in self.toy.elsewhere.items() if instant >= since)


class ToyDelays(ToyPart):
    @property
    def met(self) -> Collection[str]:
        return self.toy.met

    def read(self, now: float) -> dict[str, DelayReading]:
        return {
            name: DelayReading(name, run, wait, 100, 1.0, self.toy.threads)
            for name, (run, wait) in self.toy.waits.items()
        }


class ToyHost(ToyPart):
    @property
    def cpus(self) -> Mapping[str, frozenset[int]]:
        return self.toy.cpus

    def read(self, delays: Iterable[DelayReading], *, met: bool) -> HostLoad:
        return self.toy.host


class ToyStalls(ToyPart):
    def read(
        self, now: float, components: Iterable[Component], delays: Mapping[str, DelayReading], suffering: bool
    ) -> Stalls:
        return self.toy.stalls


class ToyLevels(ToyPart):
    """The real choice of levels, from CPU use that the test makes up."""

    def __init__(self, toy: ToyInstruments) -> None:
        super().__init__(toy)
        self.levels = Levels()

    def read(
        self,
        now: float,
        components: Iterable[Component],
        delays: Mapping[str, DelayReading],
        raised: Collection[str],
        kept_back: Mapping[str, KeptBack],
    ) -> dict[str, Placement]:
        return self.levels.step(now, [one.cgroup for one in components], self.toy.used, 2, raised, kept_back)

    def siblings(self) -> Mapping[str, Mapping[str, int]]:
        return self.toy.siblings

    def foreigners(self, now: float) -> tuple[Foreigner, ...]:
        return self.toy.foreigners


class ToyRoster(FixedRoster):
    """The fixed list, and groups of neighbours that their owners have labelled."""

    def label(self, *groups: str) -> None:
        self._listing = replace(self._listing, best_effort=groups)


class ToySite:
    """A folder with groups, a configuration, and the daemon's loop, driven period by period."""

    def __init__(self, folder: Path, components: list[dict[str, Any]], **config: Any) -> None:
        self.folder = folder
        self.hierarchy = Hierarchy(2, folder / "cgroup")
        self.toy = ToyInstruments()
        for one in components:
            self.group(one["cgroup"])
        (folder / "peer.log").touch()
        document = {"state_dir": "state", "components": components, "metrics": {"port": 0}, **config}
        self._document: dict[str, Any] = {}
        self.configure(**document)
        (folder / "state").mkdir()
        self.guard = Guard(self.hierarchy, Files(self.hierarchy), Journal(folder / "state"), clock=lambda: self.now)
        idle = IdleGuard(self.hierarchy, Files(self.hierarchy), Journal(folder / "state", name="idle"))
        self.toy.best_effort = BestEffort(self.config.best_effort, idle, self.hierarchy)
        self.now = 100.0
        self.restart()

    def configure(self, **changes: Any) -> None:
        """Write the configuration with these keys changed; what is made from now on has it."""
        self._document |= changes
        (self.folder / "qioi.yaml").write_text(yaml.safe_dump(self._document))
        self.config = load_config(self.folder / "qioi.yaml")

    def restart(self) -> None:
        """Make the daemon's loop anew, with the instruments as they are now."""
        instruments = self.toy.as_instruments(self.guard, self.hierarchy)
        self.roster = ToyRoster(self.config)
        self.daemon = Daemon(self.config, self.guard, instruments, self.roster)
        self.snapshot: Snapshot = self.daemon.blank("files", 2)

    def show_only(self, *channels: str) -> None:
        """Make the policies of channels dry runs, and the loop anew; only a cluster's policies can be that singly."""
        policies = {name: replace(one, dry_run=name in channels) for name, one in self.config.policies.items()}
        self.config = replace(self.config, policies=policies)
        self.restart()

    def group(self, path: str, weight: int = 100) -> None:
        """Make a group, and those above it, as cgroup v2 has them."""
        made = self.hierarchy.mount
        made.mkdir(exist_ok=True)
        for part in path.split("/"):
            made /= part
            made.mkdir(exist_ok=True)
            if not (made / "cpu.weight").exists():
                (made / "cpu.weight").write_text(f"{weight}\n")

    def weight(self, path: str) -> int:
        return int((self.hierarchy.mount / path / "cpu.weight").read_text())

    def run(self, seconds: int) -> Snapshot:
        for _ in range(seconds):
            self.now += 1.0
            self.snapshot = self.daemon.period(self.now, self.snapshot)
        return self.snapshot

    def channel(self, name: str = "red") -> ChannelState:
        return next(one for one in self.snapshot.channels if one.name == name)

    def component(self, name: str) -> ComponentState:
        return next(one for one in self.snapshot.components if one.name == name)


def peer(name: str, cgroup: str, *channels: str, role: str = "peer") -> dict[str, Any]:
    return {"name": name, "role": role, "cgroup": cgroup, "log": "peer.log", "channels": list(channels or ("red",))}
