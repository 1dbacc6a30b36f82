"""What was found out about single containers, and all of it as one value."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import psutil

from qioi.discovery.base import Found
from qioi.discovery.recognise import NOWHERE, Network
from qioi.model import Component, Role

#: What leads back into one's own network namespace.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
#: Names of the host that engines give to containers, and its own.
HERE = LOOPBACK | {"host.docker.internal", "host.containers.internal"}


@dataclass(frozen=True, slots=True)
class SeenContainer:
    """One container that is a component, or would be but for a problem; or a neighbour's that is best-effort.

    ``best_effort`` is such a neighbour's group. ``database`` is the address of the state database that a peer names,
    ``network`` how the container is reached. A ``possible`` component is one only where a peer names it.
    """

    component: Component | None
    threshold: float | None = None
    problems: tuple[str, ...] = ()
    name: str = ""
    best_effort: str | None = None
    database: str | None = None
    network: Network = NOWHERE
    possible: bool = False


def gather(sights: Iterable[SeenContainer], about: str, problem: str | None, *, complete: bool = True) -> Found:
    """Make one value of it; ``problem`` is what is wrong with who was asked, which is called ``about``.

    ``complete``: all its containers have been listed, now or before.
    """
    components: list[Component] = []
    best_effort: list[str] = []
    thresholds: dict[str, float] = {}
    problems: dict[str, str] = {}
    ordered = sorted(sights, key=lambda one: one.name)
    peers = peers_by_database(ordered)
    for sight in ordered:
        component = supporting(sight, peers) if sight.possible else sight.component
        if component is not None:
            components.append(component)
            if sight.threshold is not None:
                for channel in component.channels:
                    thresholds[channel] = max(sight.threshold, thresholds.get(channel, 0.0))
        if sight.best_effort is not None:
            best_effort.append(sight.best_effort)
        if sight.problems:
            problems[f"container {sight.name}"] = "; ".join(sight.problems)
    if problem is not None:
        problems[about] = problem
    return Found(tuple(components), thresholds, problems, best_effort=tuple(best_effort), complete=complete)


def peers_by_database(sights: Sequence[SeenContainer]) -> Mapping[str, list[Component]]:
    """Give the peers that keep their state in each container, by the container's control group.

    A database is found by a name that its container has in a network of the peer's, by its address, by that of a
    container whose network namespace it shares or, where its host is this one, by a port that leads to it.
    """
    places = [(one.component.cgroup, one.network) for one in sights if one.component is not None]
    possible = {one.component.cgroup for one in sights if one.component is not None and one.possible}
    # An engine that is told another container's name before there is one of that name keeps the name.
    spaces = {one.name: one.network.space for one in sights}
    with_ports = [(group, network) for group, network in places if network.ports]
    here = frozenset[str]()
    found: dict[str, list[Component]] = {}
    for sight in sights:
        if sight.database is None or sight.component is None or sight.component.role is not Role.PEER:
            continue
        host, _, port = sight.database.rpartition(":")
        named = {group: network for group, network in places if network.is_reached(host, sight.network.names)}
        theirs = [*named.values(), *([sight.network] if host in LOOPBACK else [])]
        its = {spaces.get(one.space, one.space) for one in theirs} - {""}
        beside = {group for group, network in places if spaces.get(network.space, network.space) in its}
        groups = {*named, *(beside & possible)}
        if not groups and with_ports:  # the host's names cost time
            here = here or names_of_this_host()
            groups = {group for group, network in with_ports if host in here and port in network.ports}
        for group in groups:
            found.setdefault(group, []).append(sight.component)
    return found


def names_of_this_host() -> frozenset[str]:
    """Give its names and addresses, as a URL has them, as far as they are known without asking a name service."""
    name = socket.gethostname()
    try:
        addresses = {one.address.partition("%")[0] for its in psutil.net_if_addrs().values() for one in its}
    except OSError:  # a service may be forbidden to ask the kernel (AF_NETLINK)
        addresses = set()
    return HERE | {name, name.partition(".")[0]} | addresses | {f"[{one}]" for one in addresses if ":" in one}


def supporting(sight: SeenContainer, peers: Mapping[str, list[Component]]) -> Component | None:
    """Make a component of a database that peers wait for: it serves their channels. ``None`` where no peer names it."""
    waiting = peers.get(sight.component.cgroup, []) if sight.component is not None else []
    if sight.component is None or not waiting:
        return None
    every = all(one.channels for one in waiting)  # a peer without channels serves all of them
    channels = dict.fromkeys(channel for one in waiting for channel in one.channels) if every else ()
    return replace(sight.component, channels=tuple(channels), organisation=waiting[0].organisation)
