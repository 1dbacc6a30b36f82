"""The sections of the configuration that say where components are found, beside the fixed list."""

from __future__ import annotations

import os
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from qioi.discovery.containerd import DEFAULT_STATE
from qioi.discovery.engine import DEFAULT_SOCKET, PODMAN_SOCKET
from qioi.discovery.recognise import Rule
from qioi.discovery.units import UnitRule
from qioi.model import Role
from qioi.model.names import is_channel

RoleName = Literal["peer", "orderer", "chaincode", "broker", "support", "replica", "client"]
#: The sections that may find more components than those that are listed.
DISCOVERIES = ("docker", "podman", "containerd", "systemd", "kubernetes")
Pattern = Annotated[str, Field(min_length=1)]
#: The most bytes of a name and, with the zero byte at its end, of a path (limits.h).
LONGEST_NAME, LONGEST_PATH = 255, 4096
SHORT = f", of names of at most {LONGEST_NAME} bytes and of fewer than {LONGEST_PATH} bytes"


class Strict(BaseModel):
    """No unknown keys, no conversions, no changes afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def readable(name: str) -> str:
    """Accept a printable name: it is shown in logs and on terminals."""
    if not name or not name.isprintable():
        raise ValueError("accepted is a name without control characters")
    return name


def is_path(path: str) -> bool:
    """Whether the kernel takes a path: no zero byte, and names and a whole that are short enough."""
    try:
        name = os.fsencode(path)
    except UnicodeEncodeError:  # JSON can say half of a character
        return False
    fits = len(name) < LONGEST_PATH and all(len(one) <= LONGEST_NAME for one in name.split(b"/"))
    return bool(path) and b"\0" not in name and fits


def usable(path: str) -> str:
    """Accept the path of a file."""
    if not is_path(path):
        raise ValueError(f"accepted is a path{SHORT}")
    return path


def channel_name(name: str) -> str:
    """Accept a channel's name: commits of any other name would never be seen."""
    if not is_channel(name):
        raise ValueError("accepted is a channel's name: a letter, then at most 248 letters, digits, `.`, `-` and `_`")
    return name


Name = Annotated[str, AfterValidator(readable)]
File = Annotated[str, AfterValidator(usable)]
Channel = Annotated[str, AfterValidator(channel_name)]


def engine_socket(path: str) -> str:
    """Accept the path of a Unix socket: control groups and logs are read on this host."""
    path = path.removeprefix("unix://")
    if not path.startswith("/") or not is_path(path):
        raise ValueError("accepted is the absolute path of the engine's Unix socket on this host")
    return path


def unit_pattern(name: str) -> str:
    """Accept names of units that have processes in a control group, with shell patterns in them."""
    if not name.removesuffix(".service").removesuffix(".scope") or not name.endswith((".service", ".scope")):
        raise ValueError("accepted is the name of a .service or .scope, such as fabric-peer@*.service")
    if "/" in name or " " in name:
        raise ValueError("accepted is a unit's name, without a folder or a space")
    return name


def web_address(url: str) -> str:
    """Accept the address of a peer's metrics."""
    if not is_web_address(url):
        raise ValueError("accepted is a URL such as http://127.0.0.1:9443/metrics")
    return url


def is_web_address(url: str) -> bool:
    """Whether a URL names a host and a possible port, and no user and password, which would not be used."""
    try:
        parts = urlsplit(url)
        there = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return there and parts.username is None and url.isascii() and url.isprintable() and " " not in url


def absolute(path: str) -> str:
    """Accept an absolute path."""
    if not path.startswith("/") or not is_path(path):
        raise ValueError(f"accepted is an absolute path{SHORT}")
    return path


def inside_the_mount(path: str) -> str:
    """Accept a cgroup path only if it cannot lead out of the CPU controller's mount."""
    if not is_path(path) or {"", ".", ".."} & set(path.split("/")):
        limits = f"without a leading slash, `.` or `..`{SHORT}"
        raise ValueError(f"accepted is a path below the CPU controller's mount, {limits}")
    return path


class SelectConfig(Strict):
    """What a container is, by shell patterns for its image and name; both must match."""

    role: RoleName
    image: Pattern = "*"
    name: Pattern = "*"
    channels: list[Channel] = []


class DockerConfig(Strict):
    """An engine whose containers are watched; ``fabric`` recognises Fabric's own images and names."""

    socket: Annotated[str, AfterValidator(engine_socket)] = DEFAULT_SOCKET
    select: list[SelectConfig] = []
    fabric: bool = True

    def rules(self) -> tuple[Rule, ...]:
        """Give the selection as rules."""
        return tuple(Rule(Role(one.role), one.image, one.name, tuple(one.channels)) for one in self.select)


class PodmanConfig(DockerConfig):
    """Podman's service of Docker's API (podman.socket)."""

    socket: Annotated[str, AfterValidator(engine_socket)] = PODMAN_SOCKET


class ContainerdConfig(Strict):
    """containerd without an engine above it: its tasks are watched, and the CRI's logs are read.

    ``state`` is the folder of its running tasks, one folder below for each namespace.
    """

    state: Annotated[str, AfterValidator(absolute)] = DEFAULT_STATE
    select: list[SelectConfig] = []
    fabric: bool = True

    def rules(self) -> tuple[Rule, ...]:
        """Give the selection as rules."""
        return tuple(Rule(Role(one.role), one.image, one.name, tuple(one.channels)) for one in self.select)


class UnitConfig(Strict):
    """What units are, by a shell pattern for their names; ``log`` is for those that do not log to the journal."""

    unit: Annotated[str, AfterValidator(unit_pattern)]
    role: RoleName
    channels: list[Channel] = []
    log: Annotated[str, AfterValidator(absolute)] | None = None


class SystemdConfig(Strict):
    """The systemd of this host, whose units are watched."""

    units: Annotated[list[UnitConfig], Field(min_length=1)]

    def rules(self) -> tuple[UnitRule, ...]:
        """Give the list as rules."""
        return tuple(UnitRule(Role(one.role), one.unit, tuple(one.channels), one.log) for one in self.units)
