"""Reload on SIGHUP: the new configuration replaces the one in force, or is refused as a whole."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from qioi.daemon.daemon import Daemon
from qioi.daemon.notify import Notifier
from qioi.daemon.site import Lack, warn_of
from qioi.model.names import counted
from qioi.settings.config import Config, discovers
from qioi.settings.contradictions import Watched, contradictions
from qioi.settings.documents import ConfigError
from qioi.settings.sections import DISCOVERIES
from qioi.show.snapshot import Snapshot

log = logging.getLogger("qioi")

#: Keys that take effect only at the daemon's start.
AT_START = (
    *DISCOVERIES,
    "state_dir",
    "record_dir",
    "socket",
    "metrics",
    "actuator",
    "own",
    "dry_run",
    "slices",
    "slices_before_6_15",
    "best_effort",
    "mine",
    "throughput",
)


class Reloader:
    """Reads the configuration again. ``judge`` says of new components, and whether there are others, what a start does.

    That is :func:`qioi.daemon.site.judge`.
    """

    def __init__(
        self,
        config: Config,
        load: Callable[[], Config],
        judge: Callable[[Config, bool], tuple[tuple[str, ...], list[Lack]]],
        daemon: Daemon,
        notifier: Notifier,
    ) -> None:
        self.config = config
        #: Whether the next start looks in another state folder than this daemon's.
        self.moves = False
        self._load = load
        self._judge = judge
        self._daemon = daemon
        self._notifier = notifier

    def reload(self, before: Snapshot) -> Snapshot:
        """Adopt the file's present configuration; if it has a problem, keep the old one and report the problem."""
        self._notifier.reloading()
        after = self._reload(before)
        self._notifier.ready(summary(after))
        return after

    def _reload(self, before: Snapshot) -> Snapshot:
        state = before.configuration
        try:
            config = self._load()
            known = {(one.name, one.cgroup, one.log) for one in self.config.components}
            new = tuple(one for one in config.components if (one.name, one.cgroup, one.log) not in known)
            others = len(new) < len(config.components)
            unusable, lacks = self._judge(dataclasses.replace(self._until_restart(config), components=new), others)
            problems = (*unusable, *self._unmet(config))
        except ConfigError as error:
            problems, lacks = error.problems, []
        if problems:
            for problem in problems:
                log.error("reload refused: %s", problem)
            log.error("the previous configuration stays in force")
            return replace(before, configuration=replace(state, refused=state.refused + 1, problems=problems))
        warn_of(lacks)
        waiting = tuple(key for key in AT_START if getattr(config, key) != getattr(self.config, key))
        if waiting:
            log.warning("%s: takes effect at the next start only: %s", config.file, ", ".join(waiting))
        self.moves = "state_dir" in waiting
        config = self._until_restart(config)
        after = self._daemon.adopt(config, before)
        self.config = config
        state = replace(state, loaded=time.time(), reloads=state.reloads + 1, problems=(), at_next_start=waiting)
        after = replace(after, configuration=state)
        log.info("reloaded %s: %s", config.file, summary(after))
        return after

    def _until_restart(self, config: Config) -> Config:
        """Give a configuration with the keys that take effect only at a start as they were at this daemon's."""
        return dataclasses.replace(config, **{key: getattr(self.config, key) for key in AT_START})

    def _unmet(self, config: Config) -> Iterator[str]:
        """Say what contradicts itself while other discoveries run than the file names: nothing may be left to watch."""
        other = [key for key in DISCOVERIES if getattr(config, key) != getattr(self.config, key)]
        if other:
            now = self._until_restart(config)
            for problem in contradictions(Watched(now.components, now.policies, discovers(now))):
                yield f"{config.file}: {problem}; {', '.join(other)}: takes effect at the next start only"


def summary(snapshot: Snapshot) -> str:
    """Make the status clause that says what is watched."""
    refused = "; the last reload was refused" if snapshot.configuration.problems else ""
    return (
        f"watching {counted(len(snapshot.components), 'component')} and {counted(len(snapshot.channels), 'channel')} "
        f"every {snapshot.period:g} s{refused}"
    )
