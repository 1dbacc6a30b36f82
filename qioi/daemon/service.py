"""The daemon's life: check the host, run the loop, restore every value.

Everything that is opened here is closed here, in the opposite order, also after an error.
"""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from qioi.controller.guard import idle_groups, journal, thread_slices
from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Journal
from qioi.controller.guard.left import warn_of_left
from qioi.controller.levers.files import Access
from qioi.daemon.assembly import make_instruments, make_roster
from qioi.daemon.daemon import Daemon
from qioi.daemon.ending import restoring
from qioi.daemon.inherit import inherit
from qioi.daemon.lock import daemon_on
from qioi.daemon.loop import Signals, run_loop
from qioi.daemon.notify import Notifier
from qioi.daemon.own import protect_itself
from qioi.daemon.own_shares import OwnShares
from qioi.daemon.realtime import in_force
from qioi.daemon.reload import Reloader, summary
from qioi.daemon.site import Lack, StartError, judge, occupy, record_keepers, require
from qioi.kernel.errors import CgroupError
from qioi.kernel.hierarchy import Hierarchy
from qioi.model.names import counted
from qioi.monitor.scheduler.onset_watch import OnsetWatch
from qioi.settings.config import Config
from qioi.settings.sections import DISCOVERIES
from qioi.show.http import BusyError, serve_tcp, serve_unix
from qioi.show.publisher import Orders, Publisher
from qioi.show.snapshot import Snapshot

log = logging.getLogger("qioi")

#: The journals of what `qioi restore` puts back.
JOURNALS = (journal.NAME, thread_slices.NAME, idle_groups.NAME)


def run(config: Config, load: Callable[[], Config]) -> int:
    """Run until SIGTERM or SIGINT; return the exit status: 1 if a value of ours could not be restored. StartError.

    ``load`` reads the configuration again, for SIGHUP. UnreadError: originals that a daemon before has left are unread.
    LockError: the groups cannot be locked.
    """
    signals, notifier = Signals(), Notifier()
    realtime = protect_itself(config)
    with ExitStack() as cleanup:
        host = occupy(config, cleanup)
        hierarchy, access = host.hierarchy, host.access
        owners = record_keepers(config, hierarchy, cleanup)
        guard = Guard(hierarchy, access, Journal(config.state_dir), owners, host.files)
        if config.dry_run:
            warn_of_left(config.state_dir, JOURNALS, "qioi restore", daemon_on(hierarchy.mount))
        own = OwnShares(config, guard, hierarchy)
        left = () if config.dry_run else inherit(config, guard, hierarchy)
        kept = tuple(group for group in left if group != own.group)
        with restoring(guard, config) as ending:
            require(config, hierarchy, access)
            record_originals(config, guard, own.group)
            own.look(time.monotonic(), realtime=in_force())
            roster, channels = make_roster(config, guard, owners, hierarchy, cleanup)
            looks = OnsetWatch()
            cleanup.callback(looks.close)
            instruments = make_instruments(config, host, channels, looks, guard, cleanup)
            daemon = Daemon(config, guard, instruments, roster, kept)
            first = daemon.blank(access.name, hierarchy.version)
            orders = Orders(daemon.set_threshold, roster.take_as_mine, daemon.take_up)
            publisher = Publisher(first, hierarchy, orders)
            servers = serve(config, publisher, cleanup)
            realtime.share(servers.threads)
            log.info("%s", banner(config, hierarchy, access))

            def judged(new: Config, others: bool) -> tuple[tuple[str, ...], list[Lack]]:
                return judge(new, hierarchy, access, others=others)

            reloader = Reloader(config, load, judged, daemon, notifier)
            spare_collections()
            notifier.ready(summary(first))

            def publish(snapshot: Snapshot) -> None:
                now = time.monotonic()
                realtime.look(now)
                own.look(now, realtime=in_force())
                publisher.publish(snapshot)
                if servers.look():
                    realtime.share(servers.threads)

            run_loop(daemon, first, signals, publish, reloader.reload, notifier, looks)
            log.info("stopping")
            notifier.stopping()
            ending.keep = reloader.config.on_exit == "keep" and not reloader.moves
            if reloader.config.on_exit == "keep" and reloader.moves:
                log.warning("state_dir is another one from the next start on, which would not find kept shares")
            ending.own = own.group
    return 0 if ending.clean and instruments.clean else 1


def spare_collections() -> None:
    """Exclude the objects of the start from garbage collections, and make collections rarer.

    A period makes and drops thousands of values, none of them in a cycle. Python would look for cycles among them at
    every 700 values, which takes a tenth of the period at 1,000 components.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def record_originals(config: Config, guard: Guard, own: str | None) -> None:
    """Store every original on the disk now, the daemon's own group's too, before the host is short of CPU or I/O."""
    if config.dry_run:
        return
    for group in (*(one.cgroup for one in config.components), *((own,) if own else ())):
        with suppress(CgroupError):  # the group is idle or gone, which the first look reports
            guard.hold(group)
    try:
        guard.record()
    except OSError as error:
        log.warning("originals are not recorded yet: %s; each one is recorded before its first change", error)


class Servers:
    """The status socket, which is made again where somebody removes it, and the metrics port. BusyError."""

    def __init__(self, config: Config, publisher: Publisher) -> None:
        self._path, self._routes = config.socket, publisher.routes()
        self._status, self._metrics = serve_unix(self._path, self._routes), None
        self._removed = False
        listen, port = config.metrics.listen, config.metrics.port
        try:
            self._metrics = serve_tcp(listen, port, publisher.shown(listen)) if port else None
        except BusyError:
            self.close()
            raise

    @property
    def threads(self) -> list[int]:
        """The threads that answer."""
        return [one.thread for one in (self._status, self._metrics) if one is not None]

    def look(self) -> bool:
        """Make the socket again where it is removed, as with the state folder; say whether it was. Once a period."""
        before, self._removed = self._removed, not os.path.lexists(self._path)
        if not self._removed:
            return False
        try:
            self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            again = serve_unix(self._path, self._routes)
        except (OSError, BusyError) as error:
            if not before:
                log.warning("socket %s: somebody has removed it: %s", self._path, error)
            return False
        log.warning("socket %s: somebody has removed it: it is made again", self._path)
        self._status.close()
        self._status = again
        return True

    def close(self) -> None:
        """Stop answering, and remove the socket."""
        for one in (self._metrics, self._status):
            if one is not None:
                one.close()
        remove_socket(self._path)


def serve(config: Config, publisher: Publisher, cleanup: ExitStack) -> Servers:
    """Open the status socket and, if configured, the metrics port. StartError."""
    try:
        servers = Servers(config, publisher)
    except BusyError as error:
        raise StartError(f"{config.file}: {error}") from None
    cleanup.callback(servers.close)
    return servers


def remove_socket(path: Path) -> None:
    """Remove the status socket's file. One that stays, as on a read-only disk, is replaced at the next start."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("socket %s: %s: the file stays", path, error.strerror)


def banner(config: Config, hierarchy: Hierarchy, access: Access) -> str:
    """Make the start's log line: what is watched, and how."""
    dry = ", dry run: nothing is written" if config.dry_run else ""
    found = ", ".join(section for section in DISCOVERIES if getattr(config, section) is not None)
    watched = f"{counted(len(config.components), 'component')} and {counted(len(config.policies), 'channel')}"
    return (
        f"watching {watched}{f', and what is found by {found},' if found else ''} every {config.period:g} s; "
        f"cgroup v{hierarchy.version} at {hierarchy.mount} through {access.name}{dry}"
    )
