"""The daemon's life: make sure that everything is there, run the loop, put everything back.

What is opened here is closed here, in the opposite order, whatever happens in between.
"""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from qioi.controller.best_effort import best_effort
from qioi.controller.guard.guard import Guard
from qioi.controller.guard.handover import keep, take_over
from qioi.controller.guard.journal import Journal
from qioi.controller.guard.restore import Result
from qioi.controller.levels.cap import Capper
from qioi.controller.levers.choose import choose_access
from qioi.controller.levers.eevdf import SliceError
from qioi.controller.levers.files import Access
from qioi.controller.levers.owner import Nobody, Owners
from qioi.controller.slicing import AnySlicer, slicing
from qioi.daemon.daemon import Daemon
from qioi.daemon.discoveries import UnwatchableError, watch
from qioi.daemon.instruments import Instruments
from qioi.daemon.level_watch import LevelWatch
from qioi.daemon.lock import HostLock, LockedError
from qioi.daemon.loop import Signals, run_loop
from qioi.daemon.notify import Notifier
from qioi.daemon.own import alone, competing, own_cgroup, protect_loop
from qioi.daemon.recover import recover, recover_rest, tell
from qioi.daemon.reload import Reloader, summary
from qioi.discovery.owners import EngineOwners
from qioi.discovery.told import ToldFiles
from qioi.kernel.accounts import Accounts, find_accounts
from qioi.kernel.errors import CgroupError
from qioi.kernel.files import KernelFiles, allow_files
from qioi.kernel.hierarchy import Hierarchy, find_hierarchy
from qioi.model import DEFAULT_SHARES
from qioi.model.groups import chain
from qioi.model.names import counted
from qioi.monitor.logs.watched import Channels, LogChannels
from qioi.monitor.metrics.endpoints import MeteredChannels
from qioi.monitor.scheduler.delays import CgroupDelays
from qioi.monitor.scheduler.early_looks import EarlyLooks
from qioi.monitor.scheduler.host import HostWatch
from qioi.monitor.scheduler.stalls import StallWatch
from qioi.roster import FixedRoster, FoundRoster, Roster
from qioi.settings.config import Config
from qioi.settings.kubernetes import KubernetesConfig
from qioi.settings.sections import DISCOVERIES
from qioi.show.http import BusyError, serve_tcp, serve_unix
from qioi.show.publisher import Publisher

log = logging.getLogger("qioi")

#: Shares of the daemon's own group where real-time is refused: as much as eight ordinary groups, for its 1 % of a core.
OWN_SHARES = 8 * DEFAULT_SHARES


class StartError(Exception):
    """The daemon cannot start. ``problems`` are complete lines."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


def run(config: Config, load: Callable[[], Config]) -> int:
    """Run until SIGTERM or SIGINT; return the exit status: 1 if something of ours could not be put back.

    ``load`` reads the configuration again, for SIGHUP.
    """
    signals, notifier = Signals(), Notifier()
    precedence = protect_itself(config)
    with ExitStack() as cleanup:
        hierarchy, access = means(config)
        prepare_state(config.state_dir)
        try:
            lock = HostLock(config.state_dir)
        except LockedError as error:
            raise StartError(f"{error}; stop that one first") from None
        cleanup.callback(lock.close)
        owners = record_keepers(config, hierarchy, cleanup)
        allow_files()
        files = KernelFiles()
        cleanup.callback(files.close)
        guard = Guard(hierarchy, access, Journal(config.state_dir), owners, files)
        kept = () if config.dry_run else inherit(config, guard, hierarchy)
        with restoring(guard, config.state_dir) as ending:
            missing = list(absent(config, hierarchy, access))
            if missing:
                raise StartError(*missing)
            record_originals(config, guard)
            raise_own_shares(own_shares(config, hierarchy, precedence), guard, hierarchy)
            roster, channels = make_roster(config, guard, owners, hierarchy, cleanup)
            accounts = Accounts(hierarchy.version, find_accounts(hierarchy), files)
            delays = CgroupDelays(config.components, hierarchy.mount, accounts)
            cleanup.callback(delays.close)
            levels, capper = LevelWatch(accounts), Capper(guard, hierarchy, accounts)
            slicer = choose_slices(config, hierarchy, cleanup)
            patterns = () if config.dry_run else config.best_effort
            own = own_cgroup(hierarchy.version)
            idle = cleanup.enter_context(best_effort(patterns, config.state_dir, hierarchy, own))
            stalls = StallWatch(hierarchy.mount, files=files)
            looks = EarlyLooks()
            cleanup.callback(looks.close)
            host = HostWatch(files=files, sudden=looks.sudden)
            instruments = Instruments(channels, delays, host, stalls, levels, capper, slicer, idle, files, kept)
            daemon = Daemon(config, guard, instruments, roster)
            first = daemon.blank(access.name, hierarchy.version)
            publisher = Publisher(first, hierarchy, daemon.thresholds)
            serve(config, publisher, cleanup)
            log.info("%s", banner(config, hierarchy, access))
            reloader = Reloader(config, load, lambda new: absent(new, hierarchy, access), daemon, notifier)
            spare_collections()
            notifier.ready(summary(first))
            run_loop(daemon, first, signals, publisher.publish, reloader.reload, notifier, looks)
            log.info("stopping")
            notifier.stopping()
            ending.keep = reloader.config.on_exit == "keep" and not config.dry_run
            ending.own = own_group(hierarchy)
    return 0 if ending.clean else 1


def spare_collections() -> None:
    """Leave what is there at the start out of every garbage collection, and have fewer of them.

    A period makes values by the thousand and drops them, none of them in a cycle: looking for cycles among them every
    700 values, as Python does, takes a tenth of the period at 1,000 components.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def means(config: Config) -> tuple[Hierarchy, Access]:
    """Find the CPU controller and a way to it."""
    try:
        hierarchy = find_hierarchy()
        # What is Docker's is written like every other's; that the engine is told is the guard's business.
        return hierarchy, choose_access("auto" if config.actuator == "docker" else config.actuator, hierarchy)
    except CgroupError as error:
        raise StartError(str(error)) from None


def record_keepers(config: Config, hierarchy: Hierarchy, cleanup: ExitStack) -> Owners:
    """Choose who is told of shares: engines and systemd, unless the configuration wants the files alone."""
    if not config.discovers or config.actuator not in ("auto", "docker"):
        return Nobody()
    owners = EngineOwners(hierarchy, config.record_dir)
    cleanup.callback(owners.close)
    return owners


def make_roster(
    config: Config, guard: Guard, owners: Owners, hierarchy: Hierarchy, cleanup: ExitStack
) -> tuple[Roster, Channels]:
    """Say who the components are, and where their channels' throughput is read."""
    keeper = owners if isinstance(owners, EngineOwners) else None
    if config.kubernetes is not None:
        return cluster_roster(config, config.kubernetes, guard, keeper, hierarchy, cleanup)
    channels = MeteredChannels(LogChannels(config.components, config.policies), config.components)
    cleanup.callback(channels.close)
    if not config.discovers:
        return FixedRoster(config), channels
    try:
        discovery = watch(config, hierarchy, owned=keeper is not None, owners=guard.owners())
    except UnwatchableError as error:
        raise StartError(str(error)) from None
    cleanup.callback(discovery.close)
    return FoundRoster(config, discovery, keeper), channels


def cluster_roster(
    config: Config,
    section: KubernetesConfig,
    guard: Guard,
    keeper: EngineOwners | None,
    hierarchy: Hierarchy,
    cleanup: ExitStack,
) -> tuple[Roster, Channels]:
    """Make the roster of a cluster's node; nobody else carries its code in memory."""
    from qioi.kubernetes import service

    try:
        return service.make_roster(section, config, guard, hierarchy, keeper, cleanup)
    except service.NoClusterError as error:
        raise StartError(f"{config.file}: {error}") from None


def choose_slices(config: Config, hierarchy: Hierarchy, cleanup: ExitStack) -> AnySlicer:
    """Prepare slices, or refuse to start where they are required and not to be had."""
    mode = "off" if config.dry_run else config.slices
    try:
        return cleanup.enter_context(slicing(mode, config.slices_before_6_15, config.state_dir, hierarchy))
    except SliceError as error:
        raise StartError(f"{config.file}: {error}") from None


def prepare_state(folder: Path) -> None:
    """Make the state folder and make sure that it can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    except OSError as error:
        raise StartError(f"state_dir {folder}: {error.strerror}: accepted is a folder that can be made") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StartError(f"state_dir {folder}: no right to write there: accepted is a folder of the daemon's own")


def absent(config: Config, hierarchy: Hierarchy, access: Access) -> Iterator[str]:
    """Name every control group and log of the fixed list that is not there, or not usable."""
    for component in config.components:
        try:
            access.read(component.cgroup)
            file = hierarchy.folder(component.cgroup) / hierarchy.file
            if not config.dry_run and not os.access(file, os.W_OK):
                yield f"{config.file}: component {component.name}: cgroup: {file}: no right to write (root is needed)"
        except CgroupError as error:
            yield f"{config.file}: component {component.name}: cgroup: {error}: accepted is a group that exists"
        if component.log and not os.access(component.log, os.R_OK):
            # Not Path.exists(), which raises where this user may not look.
            why = "no right to read" if os.access(component.log, os.F_OK) else "no such file, or no right to look"
            yield f"{config.file}: component {component.name}: log: {component.log}: {why}: accepted is a readable file"


def protect_itself(config: Config) -> bool:
    """Give the loop precedence; that ends with the process, so nothing is to be restored. Say whether all was had."""
    refusal = protect_loop(config.own.nice, config.own.realtime)
    if refusal:
        log.warning("%s", refusal)
    return refusal is None


def record_originals(config: Config, guard: Guard) -> None:
    """Have every original on the disk before the host is short of anything."""
    if config.dry_run:
        return
    for component in config.components:
        with suppress(CgroupError):  # an idle one, or gone meanwhile: the first look says so
            guard.hold(component.cgroup)
    try:
        guard.record()
    except OSError as error:
        log.warning("originals are not recorded yet: %s; each is before its first change", error)


def own_shares(config: Config, hierarchy: Hierarchy, precedence: bool) -> int | None:
    """Give the shares for the daemon's own group: as configured, or where it is alone and nothing else helps."""
    if config.dry_run:
        return None
    if config.own.shares is not None or precedence:
        return config.own.shares
    group = own_cgroup(hierarchy.version)
    return OWN_SHARES if group and alone(hierarchy.folder(group)) else None


def own_group(hierarchy: Hierarchy) -> str | None:
    """Name the group that competes for the daemon; ``None`` in the root group."""
    group = own_cgroup(hierarchy.version)
    return competing(group) if group else None


def raise_own_shares(shares: int | None, guard: Guard, hierarchy: Hierarchy) -> None:
    """Set the shares of the daemon's own group, under the guard as every other's."""
    if shares is None:
        return
    group = own_group(hierarchy)
    if group is None:
        log.warning("own.shares: the daemon runs in the root control group, which has no shares: left out")
        return
    try:
        guard.hold(group)
    except CgroupError as error:
        log.warning("own.shares: %s", error)
        return
    for outcome in guard.apply({group: shares}):
        if outcome.result not in (Result.OK, Result.SKIPPED):
            log.warning("own.shares: %s: %s", group, outcome.message)


@dataclass(slots=True)
class Ending:
    """How the daemon is to end, and whether it ended well. ``own`` is its own group, which is never kept."""

    keep: bool = False
    own: str | None = None
    clean: bool = False


def warn_of_before(text: str) -> None:
    """Log what a daemon that died has left, and what came of it."""
    log.warning("left by a daemon before this one: %s", text)


def inherit(config: Config, guard: Guard, hierarchy: Hierarchy) -> tuple[str, ...]:
    """Go on with what a daemon before this one has kept on purpose; put back what one that died has left.

    Return the groups that are raised as it has left them, of components and above them.
    """
    groups = {level for one in config.components for level in chain(one.cgroup)}
    outcomes = take_over(config.state_dir, guard, groups, owned=config.discovers)
    if outcomes is None:
        recovery = recover(config.state_dir, config.record_dir, hierarchy)
        tell(recovery, warn_of_before)
        for entry in recovery.left:
            guard.adopt(entry)  # it is put back later, or knows what a group that comes up raised had at first
        return ()
    told, problems = ToldFiles(config.record_dir).load()
    for entry in told:
        if entry.owner not in guard.owners():  # left by one that was killed before
            guard.adopt(entry)
    rest = recover_rest(config.state_dir, hierarchy)  # nothing else is ever kept
    tell(replace(rest, problems=(*problems, *rest.problems)), warn_of_before)
    log.info("going on with the shares that the daemon before this one has kept")
    for outcome in outcomes:
        log.warning("%s: %s: %s", outcome.path, outcome.result, outcome.message)
    return guard.changed()


@contextmanager
def restoring(guard: Guard, state_dir: Path) -> Iterator[Ending]:
    """Put every share back at the end, also after an error, unless it was said at the very end to keep them."""
    ending = Ending()
    try:
        yield ending
    finally:
        ending.clean = keep_shares(guard, state_dir, ending.own) if ending.keep else put_back(guard)


def keep_shares(guard: Guard, state_dir: Path, own: str | None) -> bool:
    """Leave the components' shares for the next daemon; if that cannot be written down, put them back."""
    try:
        keep(state_dir, guard, own)
    except OSError as error:
        log.error("on_exit keep: the journal cannot be written: %s; everything is put back", error)
        return put_back(guard)
    log.info("on_exit keep: shares are left as they are; the next start goes on with them, `qioi restore` ends it")
    return True


def put_back(guard: Guard) -> bool:
    """Restore, say each, and say whether nothing failed."""
    try:
        outcomes = guard.restore()
    except OSError as error:
        log.error("the journal could not be emptied: %s; every value in it is back all the same", error)
        return False
    for outcome in outcomes:
        level = logging.INFO if outcome.result in (Result.OK, Result.SKIPPED) else logging.WARNING
        log.log(level, "restore %s: %s: %s", outcome.path, outcome.result, outcome.message)
    return all(outcome.result is not Result.FAILED for outcome in outcomes)


def serve(config: Config, publisher: Publisher, cleanup: ExitStack) -> None:
    """Open the status socket and, unless it is off, the metrics port."""
    try:
        status = serve_unix(config.socket, publisher.routes())
        cleanup.callback(config.socket.unlink, missing_ok=True)
        cleanup.callback(status.close)
        if config.metrics.port:
            listen, port = config.metrics.listen, config.metrics.port
            cleanup.callback(serve_tcp(listen, port, publisher.shown(listen)).close)
    except BusyError as error:
        raise StartError(f"{config.file}: {error}") from None


def banner(config: Config, hierarchy: Hierarchy, access: Access) -> str:
    """Say in one line what is watched and how."""
    dry = ", dry run: nothing is written" if config.dry_run else ""
    found = ", ".join(section for section in DISCOVERIES if getattr(config, section) is not None)
    watched = f"{counted(len(config.components), 'component')} and {counted(len(config.policies), 'channel')}"
    return (
        f"watching {watched}{f', and what is found by {found},' if found else ''} every {config.period:g} s; "
        f"cgroup v{hierarchy.version} at {hierarchy.mount} through {access.name}{dry}"
    )
