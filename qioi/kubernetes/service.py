"""Makes the daemon of a node: from the configuration's section `kubernetes` to everything that follows the cluster."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from qioi.config import Config
from qioi.controller.guard import Guard
from qioi.controller.hierarchy import Hierarchy
from qioi.instruments import Instruments
from qioi.kubernetes.client import Access, Api, ApiError, in_cluster
from qioi.kubernetes.cluster import Cluster
from qioi.kubernetes.daemon import KubernetesDaemon
from qioi.kubernetes.remote import ClusterChannels
from qioi.kubernetes.reporter import Reporter
from qioi.kubernetes.section import KubernetesConfig

#: Seconds that the API server has at the start; after that the daemon goes on without and catches up.
PATIENCE = 5.0


class NoClusterError(Exception):
    """The section cannot be used; the message is one line."""


def reach(section: KubernetesConfig) -> tuple[Access, str]:
    """Say how the API server is reached, and which node this is."""
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


def make_daemon(
    section: KubernetesConfig,
    config: Config,
    guard: Guard,
    instruments: Instruments,
    hierarchy: Hierarchy,
    cleanup: ExitStack,
) -> KubernetesDaemon:
    """Begin to follow the cluster, and make the daemon that acts on it."""
    access, node = reach(section)
    try:
        api, writing = Api(access), Api(access)
    except ApiError as error:
        raise NoClusterError(f"kubernetes: {error}") from None
    writing.requests = api.requests  # one account of all requests
    cleanup.callback(api.close)
    cleanup.callback(writing.close)
    cluster = Cluster(api, node, hierarchy.mount, section.logs, section.cgroup_root)
    cleanup.callback(cluster.close)
    channels = ClusterChannels(cluster.reports)
    cleanup.callback(channels.close)
    reporter = Reporter(writing, node)
    cleanup.callback(reporter.close)
    cluster.start()
    cluster.policies.wait(PATIENCE)
    cluster.pods.wait(PATIENCE)
    reporter.start()
    seeing = replace(instruments, channels=channels)
    return KubernetesDaemon(config, guard, seeing, cluster, reporter, "cgroup files of pods and containers")
