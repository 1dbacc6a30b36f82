"""Make a node's roster, and all that follows the cluster, from the configuration's section `kubernetes`."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from pathlib import Path

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.left import warn_of_left
from qioi.discovery.owners import EngineOwners
from qioi.kernel.hierarchy import Hierarchy
from qioi.kubernetes.actuators import Means, NriNames, choose, offers
from qioi.kubernetes.choice import Choice
from qioi.kubernetes.client import Access, Api, ApiError, in_cluster
from qioi.kubernetes.cluster import Cluster
from qioi.kubernetes.remote import ClusterChannels
from qioi.kubernetes.reporter import Reporter
from qioi.kubernetes.resizer import NAME, Resizer
from qioi.kubernetes.roster import ClusterRoster
from qioi.kubernetes.units import UnitNames
from qioi.settings.config import Config
from qioi.settings.kubernetes import KubernetesConfig

log = logging.getLogger("qioi")

#: Seconds that the daemon waits for the API server at the start; then it begins without it and catches up.
PATIENCE = 5.0


class NoClusterError(Exception):
    """The section `kubernetes` cannot be used; the message is one line."""


def reach(section: KubernetesConfig) -> tuple[Access, str]:
    """Give the access to the API server, and this node's name. NoClusterError."""
    node = section.node or os.environ.get("NODE_NAME", "")
    if not node:
        raise NoClusterError("kubernetes.node: missing: accepted is this node's name, here or in NODE_NAME")
    if section.server is not None:
        ca, token = (Path(one) if one else None for one in (section.ca, section.token))
        return Access(section.server, ca, token), node
    access = in_cluster()
    if access is None:
        raise NoClusterError("kubernetes.server: missing: accepted outside of a pod is the API server's URL")
    return access, node


def make_roster(
    section: KubernetesConfig,
    config: Config,
    guard: Guard,
    hierarchy: Hierarchy,
    owners: EngineOwners | None,
    cleanup: ExitStack,
) -> tuple[ClusterRoster, ClusterChannels]:
    """Begin to follow the cluster; give the roster, and the source of its channels' throughput. NoClusterError."""
    access, node = reach(section)
    try:
        api, writing = Api(access), Api(access)
    except ApiError as error:
        raise NoClusterError(f"kubernetes: {error}") from None
    writing.requests = api.requests  # one counter for all requests
    cleanup.callback(api.close)
    cleanup.callback(writing.close)
    found = offers(section, writing, hierarchy)
    chosen = choose(found)
    for one in found:
        log.info("actuator %s%s", one, " (chosen)" if one is chosen else "")
    choice = Choice(found, writing)
    former = guard.owners()
    naming = NriNames(section.nri, hierarchy, former) if chosen.means is Means.NRI and section.nri else None
    units = UnitNames(former) if owners is not None else None
    cluster = Cluster(api, node, hierarchy.mount, section.logs, section.cgroup_root, naming, units)
    cleanup.callback(cluster.close)
    channels = ClusterChannels(cluster.reports)
    cleanup.callback(channels.close)
    reporter = Reporter(writing, node)
    cleanup.callback(reporter.close)
    cluster.start()
    cluster.policies.wait(PATIENCE)
    cluster.pods.wait(PATIENCE)
    reporter.start()
    ending = ExitStack()  # its place is before the reporter's end, and after that of the resizer
    cleanup.push(ending)
    resizer = make_resizer(config, writing, cluster, cleanup)
    roster = ClusterRoster(cluster, channels, reporter, choice, resizer, owners)
    roster.adopt(config)
    ending.callback(roster.end)
    cleanup.callback(choice.close)
    choice.start()
    return roster, channels


def make_resizer(config: Config, api: Api, cluster: Cluster, cleanup: ExitStack) -> Resizer | None:
    """Start the resizer; ``None`` in a dry run. NoClusterError.

    It runs by whatever means shares are moved: it restores the requests that a daemon before this one has left changed.
    """
    if config.dry_run:
        warn_of_left(config.state_dir, (NAME,), "kubectl qioi restore")
        return None
    resizer = Resizer(api, config.state_dir, cluster.objects_by_uid, cluster.followed, covered=cluster.is_covered)
    try:
        resizer.start()
    except OSError as error:
        raise NoClusterError(f"kubernetes: journal of requests: {error}") from None
    cleanup.callback(resizer.close)
    return resizer
