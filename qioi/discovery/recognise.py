"""What a container is to the ledger, by its labels, by the configuration's rules, or by Fabric's own names.

Labels win over rules, rules over Fabric's names. Sources: Hyperledger Fabric's images are called
``hyperledger/fabric-peer`` and ``-orderer`` in every registry; the chaincode images that a peer builds are
``<network>-<peer>-<label>-<hash>`` (core/container/dockercontroller, 64 hexadecimal digits at the end; the network is
``dev`` unless ``CORE_PEER_NETWORKID`` says otherwise), and have a label with their language (core/chaincode/platforms);
chaincode that is started as a service has ``ccaas`` in its name in Fabric's own samples. A peer's environment names its
organisation (``CORE_PEER_LOCALMSPID``) and its state database (sampleconfig/core.yaml, ledger.state.couchDBConfig).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from qioi.model import Role

ROLE_LABEL = "io.qioi.role"
CHANNEL_LABEL = "io.qioi.channel"
THRESHOLD_LABEL = "io.qioi.threshold"
IGNORE_LABEL = "io.qioi.ignore"
BEST_EFFORT_LABEL = "io.qioi.best-effort"
ORGANISATION_LABEL = "io.qioi.organisation"
#: Fabric's own, on every chaincode image that a peer builds.
_CHAINCODE_LABEL = "org.hyperledger.fabric.chaincode.type"
#: What a label says that is there, and means no.
_NO = ("false", "0", "no")

#: Roles whose logs say something: peers commit, orderers elect.
LOGGED = frozenset({Role.PEER, Role.ORDERER})

_FABRIC_IMAGES = {
    "fabric-peer": Role.PEER,
    "fabric-orderer": Role.ORDERER,
    "fabric-kafka": Role.BROKER,  # Fabric 1.x
    "fabric-couchdb": Role.SUPPORT,  # Fabric 1.x
    "caliper": Role.CLIENT,
}
#: A database that peers can keep their state in. Anybody else may have one too: it supports the peer that names it.
_COUCHDB = "couchdb"
_COUCHDB_PORT = "5984"
_BUILT_CHAINCODE = re.compile(r"(?:.*/)?dev-.+-[0-9a-f]{64}")
_CCAAS = re.compile(r"(?:^|[^a-z0-9])ccaas(?:$|[^a-z0-9])")
_CHANNEL = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,248}")  # Fabric: configtx.validateChannelID


@dataclass(frozen=True, slots=True)
class Rule:
    """One of the configuration's rules: shell patterns for image and name, and what a match is."""

    role: Role
    image: str = "*"
    name: str = "*"
    channels: tuple[str, ...] = ()

    def matches(self, name: str, image: str) -> bool:
        """Whether both patterns match; the image's also without its tag or digest."""
        return fnmatchcase(name, self.name) and any(fnmatchcase(one, self.image) for one in (image, repository(image)))


@dataclass(frozen=True, slots=True)
class Recognised:
    """What a container is. ``role`` is ``None`` where it is no part of the ledger, or is to be ignored.

    ``best_effort``: its owner agrees that it runs only on idle CPUs. It is never set for a component.
    """

    role: Role | None = None
    channels: tuple[str, ...] = ()
    threshold: float | None = None
    problems: tuple[str, ...] = ()
    best_effort: bool = False


@dataclass(frozen=True, slots=True)
class Network:
    """How a container is reached.

    ``names`` are by network, since a name holds only inside its own. ``addresses`` are one host's, in all its networks;
    ``ports`` are those of the host that are the container's own. ``space`` names its network namespace, empty where it
    is not known: containers that share one are reached by each other's names, and by ``localhost``.
    """

    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ports: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    space: str = ""

    def is_reached(self, host: str, networks: Iterable[str]) -> bool:
        """Whether a host that is named in one of some networks is this container."""
        return host in self.addresses or any(host in self.names.get(one, ()) for one in networks)


NOWHERE = Network()


def recognise(
    name: str, image: str, labels: Mapping[str, str], rules: Sequence[Rule] = (), fabric: bool = True
) -> Recognised:
    """Say what a container is; a label that makes no sense is a problem, and counts as not there."""
    if is_set(labels, IGNORE_LABEL):
        return Recognised()
    problems: list[str] = []
    rule = next((rule for rule in rules if rule.matches(name, image)), None)
    built = fabric and _CHAINCODE_LABEL in labels
    own = Role.CHAINCODE if built else fabric_role(name, image) if fabric else None
    role = role_label(labels, problems) or (rule.role if rule else own)
    if role is None:
        return Recognised(problems=tuple(problems), best_effort=is_set(labels, BEST_EFFORT_LABEL))
    if is_set(labels, BEST_EFFORT_LABEL):
        problems.append(f"label {BEST_EFFORT_LABEL}: this is a component of the ledger: it is not made idle")
    channels = channel_label(labels, problems) or (rule.channels if rule else ())
    threshold = threshold_label(labels, problems)
    if threshold is not None and not channels:
        problems.append(f"label {THRESHOLD_LABEL}: no channel is named that it could be owed to: {CHANNEL_LABEL} is")
        threshold = None
    return Recognised(role, channels, threshold, tuple(problems))


def is_set(labels: Mapping[str, str], label: str) -> bool:
    """Whether a label is there and does not say no."""
    return label in labels and labels[label].strip().lower() not in _NO


def role_label(labels: Mapping[str, str], problems: list[str]) -> Role | None:
    """Read the role."""
    if ROLE_LABEL not in labels:
        return None
    try:
        return Role(labels[ROLE_LABEL].strip())
    except ValueError:
        problems.append(f"label {ROLE_LABEL}: {labels[ROLE_LABEL]!r}: accepted are {', '.join(Role)}")
        return None


def channel_label(labels: Mapping[str, str], problems: list[str]) -> tuple[str, ...]:
    """Read the channels: one, or several with commas between them."""
    channels = [one.strip() for one in labels.get(CHANNEL_LABEL, "").split(",") if one.strip()]
    for one in channels:
        if not _CHANNEL.fullmatch(one):
            problems.append(f"label {CHANNEL_LABEL}: {one!r}: accepted are names of channels, with commas between them")
    return tuple(dict.fromkeys(one for one in channels if _CHANNEL.fullmatch(one)))


def threshold_label(labels: Mapping[str, str], problems: list[str]) -> float | None:
    """Read the isolation threshold, in transactions per second."""
    if THRESHOLD_LABEL not in labels:
        return None
    text = labels[THRESHOLD_LABEL].strip()
    try:
        threshold = float(text)
    except ValueError:
        threshold = math.nan
    if math.isfinite(threshold) and threshold > 0:
        return threshold
    problems.append(f"label {THRESHOLD_LABEL}: {text!r}: accepted is a number of transactions per second > 0")
    return None


def fabric_role(name: str, image: str) -> Role | None:
    """Recognise Fabric's own images and names."""
    bare = repository(image)
    if _BUILT_CHAINCODE.fullmatch(bare) or _BUILT_CHAINCODE.fullmatch(name):
        return Role.CHAINCODE
    *folders, last = bare.split("/")
    if last in _FABRIC_IMAGES and folders[-1:] == ["hyperledger"]:
        return _FABRIC_IMAGES[last]
    if any(_CCAAS.search(one.replace("_", "-").lower()) for one in (name, bare)):
        return Role.CHAINCODE
    return None


def is_couchdb(image: str) -> bool:
    """Whether an image is a CouchDB: a component only where a peer keeps its state in it."""
    return repository(image).rpartition("/")[2] == _COUCHDB


def may_support(what: Recognised, image: str, labels: Mapping[str, str]) -> bool:
    """Whether a container that nothing else is known of is a component as soon as a peer names it."""
    return what == Recognised() and is_couchdb(image) and not is_set(labels, IGNORE_LABEL)


def state_database(environment: Mapping[str, str]) -> str | None:
    """Give the address of the CouchDB that a peer keeps its state in, ``HOST:PORT``; ``None`` where it uses none."""
    if environment.get("CORE_LEDGER_STATE_STATEDATABASE", "").lower() != "couchdb":
        return None
    address = environment.get("CORE_LEDGER_STATE_COUCHDBCONFIG_COUCHDBADDRESS", f"127.0.0.1:{_COUCHDB_PORT}")
    return address if ":" in address else f"{address}:{_COUCHDB_PORT}"


def organisation(name: str, labels: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Say whose a component is: by its label, its MSP, or the domain in its name; empty where none of them tells."""
    told = labels.get(ORGANISATION_LABEL, "").strip() or environment.get("CORE_PEER_LOCALMSPID", "").strip()
    return told or name.partition(".")[2]


def repository(image: str) -> str:
    """Take an image's tag and digest off; a colon before a slash belongs to the registry's port."""
    image = image.partition("@")[0]
    head, slash, last = image.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"
