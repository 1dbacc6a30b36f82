"""Make the loop's instruments and roster, as the configuration and the host require."""

from __future__ import annotations

from contextlib import ExitStack

from qioi.controller.best_effort import best_effort
from qioi.controller.guard.guard import Guard
from qioi.controller.guard.owners import Owners
from qioi.controller.levels.cap import Capper
from qioi.controller.levers.eevdf import SliceError
from qioi.controller.slicing import AnySlicer, NoSlicer, slicing
from qioi.daemon.discoveries import UnwatchableError, watch
from qioi.daemon.instruments import Instruments
from qioi.daemon.level_watch import LevelWatch
from qioi.daemon.own import own_cgroup
from qioi.daemon.site import Host, StartError
from qioi.discovery.mine import OwnGroups
from qioi.discovery.owners import EngineOwners
from qioi.kernel.cpu_accounts import CpuAccounts, find_cpu_accounts
from qioi.kernel.hierarchy import Hierarchy
from qioi.monitor.commits.sources import Channels
from qioi.monitor.logs.component_logs import LogChannels
from qioi.monitor.metrics.endpoints import MeteredChannels
from qioi.monitor.scheduler.delays import CgroupDelays
from qioi.monitor.scheduler.foreign_groups import ForeignGroups
from qioi.monitor.scheduler.host import HostWatch
from qioi.monitor.scheduler.onset_watch import OnsetWatch
from qioi.monitor.scheduler.pinned import PinnedComponents
from qioi.monitor.scheduler.siblings import Siblings
from qioi.monitor.scheduler.stalls import StallWatch
from qioi.roster import FixedRoster, FoundRoster, Roster
from qioi.settings.config import Config
from qioi.settings.kubernetes import KubernetesConfig


def make_instruments(
    config: Config, host: Host, channels: Channels, looks: OnsetWatch, guard: Guard, cleanup: ExitStack
) -> Instruments:
    """Make all instruments that are read once a period, and the levers beside shares. StartError, UnreadError."""
    hierarchy, files = host.hierarchy, host.files
    accounts = CpuAccounts(hierarchy.version, find_cpu_accounts(hierarchy), files)
    delays = CgroupDelays(config.components, hierarchy.mount, accounts)
    cleanup.callback(delays.close)
    slicer = choose_slices(config, hierarchy, cleanup)
    patterns = None if config.dry_run else config.best_effort
    own = own_cgroup(hierarchy)
    idle = cleanup.enter_context(best_effort(patterns, config.state_dir, hierarchy, own))
    foreign = ForeignGroups(accounts, hierarchy.mount, files, made_idle=lambda: idle.groups)
    pinned = PinnedComponents(config.components, hierarchy.mount)
    return Instruments(
        channels,
        delays,
        HostWatch(files=files, sudden=looks.sudden, idle_seconds=foreign.idle_seconds, pinned=pinned),
        StallWatch(hierarchy.mount, files=files),
        LevelWatch(accounts, foreign, Siblings(foreign, hierarchy, files)),
        Capper(guard, hierarchy, accounts),
        slicer,
        idle,
        files,
    )


def make_roster(
    config: Config, guard: Guard, owners: Owners, hierarchy: Hierarchy, cleanup: ExitStack
) -> tuple[Roster, Channels]:
    """Make the roster, and the source of its channels' throughput. StartError."""
    keeper = owners if isinstance(owners, EngineOwners) else None
    if config.kubernetes is not None:
        return cluster_roster(config, config.kubernetes, guard, keeper, hierarchy, cleanup)
    logs = LogChannels(config.components, config.policies)
    channels = MeteredChannels(logs, config.components, counts=config.throughput)
    cleanup.callback(channels.close)
    own = OwnGroups(hierarchy.mount, config.mine)
    if not config.discovers:
        return FixedRoster(config, own), channels
    try:
        discovery = watch(config, hierarchy, own, owned=keeper is not None, owners=guard.owners())
    except UnwatchableError as error:
        raise StartError(str(error)) from None
    cleanup.callback(discovery.close)
    return FoundRoster(config, discovery, keeper, own), channels


def cluster_roster(
    config: Config,
    section: KubernetesConfig,
    guard: Guard,
    keeper: EngineOwners | None,
    hierarchy: Hierarchy,
    cleanup: ExitStack,
) -> tuple[Roster, Channels]:
    """Make the roster of a cluster's node. StartError. Only a daemon in a cluster imports its code."""
    from qioi.kubernetes import service

    try:
        return service.make_roster(section, config, guard, hierarchy, keeper, cleanup)
    except service.NoClusterError as error:
        raise StartError(f"{config.file}: {error}") from None


def choose_slices(config: Config, hierarchy: Hierarchy, cleanup: ExitStack) -> AnySlicer:
    """Make the lever of slices. StartError: slices are required, and the host has none. UnreadError."""
    if config.dry_run:  # which does not put back what a daemon before it has left, either
        return NoSlicer()
    try:
        return cleanup.enter_context(slicing(config.slices, config.slices_before_6_15, config.state_dir, hierarchy))
    except SliceError as error:
        raise StartError(f"{config.file}: {error}") from None
