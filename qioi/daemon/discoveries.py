"""Make the discoveries that a configuration asks for, combined into one."""

from __future__ import annotations

import time
from collections.abc import Iterable
from importlib.util import find_spec

from qioi.discovery.base import Discovery, Found, Together
from qioi.discovery.containerd import ContainerdDiscovery
from qioi.discovery.docker import DockerDiscovery
from qioi.discovery.engine import PODMAN
from qioi.discovery.mine import OwnGroups
from qioi.discovery.units import UnitDiscovery
from qioi.kernel.extras import installs
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Owner
from qioi.settings.config import Config

#: Seconds that an engine has to answer at the start, where the configuration requires it.
ENGINE_PATIENCE = 10.0
#: The module that each section of the configuration needs, and its name for people.
LIBRARIES = {
    "docker": ("docker", "the Docker SDK"),
    "podman": ("docker", "the Docker SDK"),
    "systemd": ("jeepney", "the D-Bus library"),
}


class UnwatchableError(Exception):
    """A section of the configuration cannot be used on this host; the message is one line."""


def libraries(config: Config) -> Iterable[str]:
    """Give one line for each section whose library is not installed."""
    for section, (module, words) in LIBRARIES.items():
        if getattr(config, section) is not None and find_spec(module) is None:
            extra = "systemd" if section == "systemd" else "docker"
            yield f"{config.file}: {section}: {words} is not installed: {installs(extra)}"


def watch(config: Config, hierarchy: Hierarchy, own: OwnGroups, *, owned: bool, owners: Iterable[Owner]) -> Discovery:
    """Begin to watch; the caller closes the discovery. UnwatchableError.

    ``owned``: owners are told of shares. ``owners`` are those of groups that an earlier daemon left raised.
    """
    missing = list(libraries(config))
    if missing:
        raise UnwatchableError(missing[0])
    parts: list[Discovery] = []
    if config.docker is not None:
        section = config.docker
        engine = DockerDiscovery(section.socket, hierarchy.version, section.rules(), fabric=section.fabric, owned=owned)
        parts.append(engine)
        if config.actuator == "docker" and not engine.answers(ENGINE_PATIENCE):
            engine.close()
            raise UnwatchableError(f"{config.file}: actuator docker: {'; '.join(engine.found().problems.values())}")
    if config.podman is not None:
        section = config.podman
        rules = section.rules()
        parts.append(DockerDiscovery(section.socket, hierarchy.version, rules, kind=PODMAN, fabric=section.fabric))
    if config.containerd is not None:
        tasks = config.containerd
        parts.append(ContainerdDiscovery(tasks.state, hierarchy.version, tasks.rules(), fabric=tasks.fabric))
    if config.systemd is not None:
        parts.append(UnitDiscovery(hierarchy, config.systemd.rules(), owned=owned, owners=owners))
    return Together(*parts, own)


def look(config: Config, hierarchy: Hierarchy, seconds: float) -> Found:
    """Give what is found now; a source that does not answer within ``seconds`` is among the problems."""
    own = OwnGroups(hierarchy.mount, config.mine)
    discovery = watch(config, hierarchy, own, owned=False, owners=())
    deadline = time.monotonic() + seconds
    try:
        while not discovery.found().complete:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        return discovery.found()
    finally:
        discovery.close()
