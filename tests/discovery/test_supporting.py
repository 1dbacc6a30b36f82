"""A CouchDB is a component where a peer keeps its state in it, and nobody's where none does."""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import replace

import psutil
import pytest

from qioi.discovery.docker import network_of
from qioi.discovery.recognise import Network
from qioi.discovery.seen_containers import SeenContainer, gather
from qioi.model import Component, Role

ABOUT = "docker engine"


def peer(
    name: str, database: str | None, channels: tuple[str, ...] = ("red",), networks: tuple[str, ...] = ("fabric",)
) -> SeenContainer:
    component = Component(name, Role.PEER, f"docker/{name}", channels, organisation="Org1MSP")
    network = Network({one: frozenset({name}) for one in networks})
    return SeenContainer(component, name=name, database=database, network=network)


def database(name: str, *ports: str) -> SeenContainer:
    component = Component(name, Role.SUPPORT, f"docker/{name}")
    names = frozenset({name, f"{name}.fabric"})
    return SeenContainer(component, name=name, network=Network({"fabric": names}, frozenset(ports)), possible=True)


def supporting(*sights: SeenContainer) -> list[Component]:
    return [one for one in gather(sights, ABOUT, None).components if one.role is Role.SUPPORT]


HERE = socket.gethostname()


@pytest.mark.parametrize(
    "address",
    ["couch:5984", "couch.fabric:5984", "127.0.0.1:7984", "host.docker.internal:7984", f"{HERE}:7984"],
)
def test_a_database_that_a_peer_names_serves_the_peers_channels(address: str) -> None:
    (found,) = supporting(peer("p0", address), peer("p1", None), database("couch", "7984"), database("x"))
    assert (found.name, found.channels, found.organisation) == ("couch", ("red",), "Org1MSP")


@pytest.mark.parametrize("address", ["127.0.0.1:7984", f"{HERE}:7984", "elsewhere:7984"])
def test_a_host_that_does_not_tell_its_addresses_is_known_by_its_name(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a service is told nothing whose address families have no AF_NETLINK."""

    def refuse() -> None:
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))

    monkeypatch.setattr(psutil, "net_if_addrs", refuse)
    found = supporting(peer("p0", address), database("couch", "7984"))
    assert [one.name for one in found] == ([] if address.startswith("elsewhere") else ["couch"])


def test_a_database_of_a_peer_of_every_channel_serves_every_channel() -> None:
    (found,) = supporting(peer("p0", "couch:5984"), peer("p1", "couch:5984", ()), database("couch"))
    assert found.channels == ()


@pytest.mark.parametrize("address", [None, "elsewhere:5984", "elsewhere:7984", "192.0.2.1:7984", "p0:7984"])
def test_a_database_that_no_peer_names_is_a_neighbour(address: str | None) -> None:
    """The port of a container that a name belongs to is not the host's, nor is one of another host."""
    assert supporting(peer("p0", address), database("couch", "7984")) == []


@pytest.mark.parametrize(("networks", "known"), [((), False), (("x",), False), (("x", "fabric"), True)])
@pytest.mark.parametrize("host", ["couch", "couch.fabric"])
def test_a_name_holds_only_in_its_network(host: str, networks: tuple[str, ...], known: bool) -> None:
    """As two Compose projects may both have a container of the name ``couchdb``."""
    assert bool(supporting(peer("p0", f"{host}:5984", networks=networks), database("couch"))) == known


def test_how_a_container_is_reached() -> None:
    facts = {
        "Config": {"Hostname": "4f1c"},
        "NetworkSettings": {
            "Networks": {
                "fabric": {"Aliases": ["couchdb0"], "DNSNames": ["couchdb0.fabric"], "IPAddress": "172.18.0.2"},
                "x": {"NetworkID": "7a", "Aliases": None, "IPAddress": ""},
            },
            "Ports": {"5984/tcp": [{"HostIp": "0.0.0.0", "HostPort": "7984"}], "4369/tcp": None},
        },
    }
    names = {"fabric": frozenset({"c0", "4f1c", "couchdb0", "couchdb0.fabric"}), "7a": frozenset({"c0", "4f1c"})}
    assert network_of("c0", facts) == Network(names, frozenset({"7984"}), frozenset({"172.18.0.2"}))
    assert network_of("c0", {"Config": {}}) == Network({"": frozenset({"c0"})})


def in_the_hosts_network(name: str, *ports: str) -> Network:
    """Give what an engine tells of such a container."""
    return network_of(name, {
        "Config": {"Hostname": HERE, "ExposedPorts": {f"{port}/tcp": {} for port in ports}},
        "HostConfig": {"NetworkMode": "host"},
        "NetworkSettings": {"Networks": {"host": {"NetworkID": "5b", "IPAddress": "", "DNSNames": None}}, "Ports": {}},
    })  # fmt: skip


@pytest.mark.parametrize("address", ["localhost:5984", "127.0.0.1:5984", f"{HERE}:5984", "host.docker.internal:5984"])
def test_a_database_in_the_hosts_network_is_found_by_the_ports_of_its_image(address: str) -> None:
    couch = replace(database("couch"), network=in_the_hosts_network("couch", "4369", "5984", "9100"))
    other = replace(database("other"), network=in_the_hosts_network("other", "6984"))
    (found,) = supporting(peer("p0", address), couch, other)
    assert found.name == "couch"


def test_the_hosts_name_is_no_containers() -> None:
    """A peer in the host's network names a port that leads into another one."""
    node = replace(peer("p0", f"{HERE}:7984"), network=in_the_hosts_network("p0", "7051"))
    (found,) = supporting(node, database("couch", "7984"))
    assert (found.name, found.role) == ("couch", Role.SUPPORT)


def test_an_address_is_a_containers_in_every_network() -> None:
    """As that of a peer in the host's network names it."""
    couch = replace(database("couch"), network=Network({"fabric": frozenset()}, addresses=frozenset({"172.18.0.2"})))
    assert supporting(peer("p0", "172.18.0.2:5984", networks=("host",)), couch)


def in_a_namespace(name: str, mode: str, *ports: str) -> Network:
    """Give what an engine tells of a container in a bridge's network, or in another container's."""
    bridged = {"fabric": {"Aliases": [name], "IPAddress": ""}}
    return network_of(name, {
        "Id": f"{name}-id",
        "Config": {"Hostname": name},
        "HostConfig": {"NetworkMode": mode},
        "NetworkSettings": {
            "Networks": bridged if mode == "fabric" else {},
            "Ports": {"5984/tcp": [{"HostIp": "0.0.0.0", "HostPort": port} for port in ports]},
        },
    })  # fmt: skip


@pytest.mark.parametrize("address", ["localhost:5984", "127.0.0.1:5984", "[::1]:5984", "p0:5984"])
@pytest.mark.parametrize(
    ("peers", "databases"),
    [
        ("fabric", "container:p0-id"),
        ("fabric", "container:p0"),
        ("container:couch-id", "fabric"),
        ("container:infra", "container:infra"),
    ],
)
def test_a_database_that_shares_its_peers_network_namespace_is_beside_it(
    address: str, peers: str, databases: str
) -> None:
    """As by Compose's `network_mode: service:peer0`, or in a pod of Podman's."""
    node = replace(peer("p0", address), network=in_a_namespace("p0", peers))
    couch = replace(database("couch"), network=in_a_namespace("couch", databases))
    other = replace(database("other"), network=in_a_namespace("other", "container:p9-id"))
    (found,) = supporting(node, couch, other)
    assert (found.name, found.channels) == ("couch", ("red",))


def test_another_peer_reaches_it_by_the_name_of_who_has_the_namespace() -> None:
    couch = replace(database("couch"), network=in_a_namespace("couch", "container:p0-id"))
    first = replace(peer("p0", None), network=in_a_namespace("p0", "fabric"))
    second = replace(peer("p1", "p0:5984", ("blue",)), network=in_a_namespace("p1", "fabric"))
    (found,) = supporting(first, second, couch)
    assert (found.name, found.channels) == ("couch", ("blue",))


def test_a_peer_with_no_database_in_its_network_namespace_may_mean_the_hosts_port() -> None:
    node = replace(peer("p0", "127.0.0.1:7984"), network=in_a_namespace("p0", "fabric"))
    code = SeenContainer(
        Component("cc", Role.CHAINCODE, "docker/cc"), name="cc", network=in_a_namespace("cc", "container:p0-id")
    )
    couch = replace(database("couch"), network=in_a_namespace("couch", "x", "7984"))
    for beside in ([], [code]):
        (found,) = supporting(node, couch, *beside)
        assert found.name == "couch"
