"""What this host offers to find components by: said by `qioi check`, whether the configuration asks for it or not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

from qioi.discovery.containerd import DEFAULT_STATE
from qioi.discovery.engine import DEFAULT_SOCKET, DOCKER, PODMAN, PODMAN_SOCKET, Engine, Kind
from qioi.discovery.records import RecordError
from qioi.discovery.systemd import Systemd
from qioi.kernel.extras import installs

#: Seconds that an engine has.
TIMEOUT = 3


def available() -> dict[str, str]:
    """Ask for each; a reason stands where there is none."""
    asked: dict[str, Callable[[], str]] = {
        "docker": lambda: engine(DEFAULT_SOCKET, DOCKER),
        "podman": lambda: engine(PODMAN_SOCKET, PODMAN),
        "containerd": tasks,
        "systemd": units,
    }
    return {name: ask() for name, ask in asked.items()}


def engine(socket: str, kind: Kind) -> str:
    """Ask an engine at its usual place."""
    try:
        Path(socket).stat()
    except (FileNotFoundError, NotADirectoryError):
        return f"no engine: no {socket}"
    except OSError as error:
        return f"not known: {socket}: {error.strerror}"
    if find_spec("docker") is None:
        return f"{socket}, but the Docker SDK is not installed: {installs('docker')}"
    try:
        with closing(Engine(socket, TIMEOUT, kind)) as one:
            there = PODMAN if one.is_podman() else DOCKER
            whose = "" if there is kind else f"{there.name.capitalize()}'s: "
            return f"{whose}{len(one.running())} running containers at {socket}"
    except RecordError as error:
        return str(error)


def tasks() -> str:
    """Look into containerd's folder."""
    try:
        namespaces = sorted(Path(DEFAULT_STATE).iterdir())
        counts = [f"{len(list(one.iterdir()))} in {one.name}" for one in namespaces]
    except OSError as error:
        return f"none: {DEFAULT_STATE}: {error.strerror}"
    return f"running tasks: {', '.join(counts) or 'none'}; {DEFAULT_STATE}"


def units() -> str:
    """Ask systemd; its units' logs need journalctl."""
    if find_spec("jeepney") is None:
        return f"the D-Bus library is not installed: {installs('systemd')}"
    try:
        with closing(Systemd()) as systemd:
            count = sum(one.active for one in systemd.units(["*.service"]))
    except RecordError as error:
        return f"none: {error}"
    journal = "journalctl is there" if shutil.which("journalctl") else "no journalctl: logs only from files"
    return f"{count} active services over D-Bus; {journal}"
