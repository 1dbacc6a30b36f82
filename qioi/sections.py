"""The sections of the configuration that say where components are found, beside the fixed list."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from qioi.discovery.containerd import DEFAULT_STATE
from qioi.discovery.engine import DEFAULT_SOCKET, PODMAN_SOCKET
from qioi.discovery.recognise import Rule
from qioi.discovery.units import UnitRule
from qioi.types import Role

RoleName = Literal["peer", "orderer", "chaincode", "broker", "client"]
#: The sections that may find more components than those that are listed.
DISCOVERIES = ("docker", "podman", "containerd", "systemd", "kubernetes")
Pattern = Annotated[str, Field(min_length=1)]


class Strict(BaseModel):
    """No unknown keys, no conversions, no changes afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def engine_socket(path: str) -> str:
    """Accept the path of a Unix socket: control groups and logs are read on this host."""
    path = path.removeprefix("unix://")
    if not path.startswith("/"):
        raise ValueError("accepted is the absolute path of the engine's Unix socket on this host")
    return path


def unit_pattern(name: str) -> str:
    """Accept names of units that have processes in a control group, with shell patterns in them."""
    if not name.removesuffix(".service").removesuffix(".scope") or not name.endswith((".service", ".scope")):
        raise ValueError("accepted is the name of a .service or .scope, such as fabric-peer@*.service")
    if "/" in name or " " in name:
        raise ValueError("accepted is a unit's name, without a folder or a space")
    return name


def absolute(path: str) -> str:
    """Accept an absolute path."""
    if not path.startswith("/"):
        raise ValueError("accepted is an absolute path")
    return path


class SelectConfig(Strict):
    """What a container is, by shell patterns for its image and name; both must match."""

    role: RoleName
    image: Pattern = "*"
    name: Pattern = "*"
    channels: list[str] = []


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
    channels: list[str] = []
    log: Annotated[str, AfterValidator(absolute)] | None = None


class SystemdConfig(Strict):
    """The systemd of this host, whose units are watched."""

    units: Annotated[list[UnitConfig], Field(min_length=1)]

    def rules(self) -> tuple[UnitRule, ...]:
        """Give the list as rules."""
        return tuple(UnitRule(Role(one.role), one.unit, tuple(one.channels), one.log) for one in self.units)
