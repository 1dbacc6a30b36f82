"""The calls to a container engine that a lab makes: images of one file, containers, their logs; errors in one line."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from qioi.discovery.engine import DEFAULT_SOCKET, Engine, EngineError, NoContainerError
from qioi.processes.errors import LabError

#: Seconds that one call may take: an engine makes images and containers on a host that is short of CPU.
PATIENCE = 120
#: Rotated by the engine: what a busy peer logs in some minutes.
LOG_SIZE, LOG_FILES = "10m", "3"
#: The one capability that is needed: files belong to the owner of the lab's folder.
CAPABILITIES = ["DAC_OVERRIDE"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A container to be made. ``folders`` of the host are mounted at their own paths, ``shown`` read-only."""

    name: str
    image: str
    command: Sequence[str]
    shares: int
    labels: Mapping[str, str]
    folders: Sequence[Path] = ()
    shown: Sequence[Path] = ()
    cwd: Path | None = None


def engine_socket() -> str:
    """Give the engine's Unix socket: $DOCKER_HOST, as for every client of Docker, or Docker's default."""
    host = os.environ.get("DOCKER_HOST", "")
    if not host:
        return DEFAULT_SOCKET
    if not host.startswith("unix:///"):
        raise LabError(f"DOCKER_HOST={host}: accepted is an engine on this host, as unix:///var/run/docker.sock")
    return host.removeprefix("unix://")


class NoImageError(LabError):
    """The engine has no image of that name."""


class LabEngine(Engine):
    """A connection for the lab. Unlike the daemon's it fails with the lab's error."""

    def __init__(self, socket: str) -> None:
        try:
            super().__init__(socket, PATIENCE)
        except EngineError as error:
            raise LabError(
                f"no container engine: {error} (package docker.io brings one: `apt-get install docker.io`; "
                "DOCKER_HOST names another socket)"
            ) from None

    @contextlib.contextmanager
    def _said(self, *, of_container: bool = False) -> Iterator[None]:
        try:
            with self._translated(of_container=of_container):
                yield
        except EngineError as error:
            raise LabError(f"the container engine: {error}") from None

    def make_image(self, name: str, path: str, content: bytes, label: str) -> None:
        """Make an image FROM scratch: one layer with one file, which it runs."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
        repository, _, tag = name.rpartition(":")
        changes = [f"LABEL {label}=image", f"ENTRYPOINT {json.dumps(['/' + path])}"]
        with self._said():
            answer = self._api.import_image_from_data(
                buffer.getvalue(), repository=repository, tag=tag, changes=changes
            )
        if "error" in str(answer):
            raise LabError(f"the container engine: image {name}: {answer}")

    def remove_images(self, label: str) -> None:
        """Remove the images with that label that no container uses."""
        with self._said():
            images = [str(one["Id"]) for one in self._api.images(all=True, filters={"label": f"{label}=image"})]
        for image in images:
            with contextlib.suppress(LabError), self._said():  # another lab may use it
                self._api.remove_image(image, force=False)

    def create(self, wanted: Wanted) -> str:
        """Make a container and give its id. NoImageError."""
        from docker.errors import ImageNotFound
        from docker.types import LogConfig

        api = self._api
        log = LogConfig(type="json-file", config={"max-size": LOG_SIZE, "max-file": LOG_FILES})
        binds = [f"{folder}:{folder}:rw" for folder in wanted.folders]
        binds += [f"{folder}:{folder}:ro" for folder in wanted.shown]
        with self._said():
            host_config = api.create_host_config(
                network_mode="host", binds=binds, cpu_shares=wanted.shares, log_config=log, read_only=True,
                cap_drop=["ALL"], cap_add=CAPABILITIES, security_opt=["no-new-privileges"],
            )  # fmt: skip
            program, *arguments = wanted.command
            try:
                made = api.create_container(
                    wanted.image, arguments, entrypoint=[program], name=wanted.name, labels=dict(wanted.labels),
                    working_dir=str(wanted.cwd) if wanted.cwd else None, host_config=host_config, user="0:0",
                )  # fmt: skip
            except ImageNotFound:
                raise NoImageError(f"the container engine has no image {wanted.image}") from None
            return str(made["Id"])

    def start(self, container: str) -> None:
        """Start a container that was made."""
        try:
            with self._said(of_container=True):
                self._api.start(container)
        except NoContainerError:
            raise LabError(f"container {container[:12]} was removed before it was started") from None

    def labelled(self, label: str, value: str) -> list[str]:
        """List the ids of all containers with that label, those that have ended too."""
        with self._said():
            return [str(one["Id"]) for one in self._api.containers(all=True, filters={"label": f"{label}={value}"})]

    def remove(self, container: str) -> None:
        """End a container at once and remove it; one that is gone is no error."""
        with contextlib.suppress(NoContainerError), self._said(of_container=True):
            self._api.remove_container(container, force=True, v=True)

    def inspect(self, container: str) -> Mapping[str, Any]:
        """Give all that the engine knows about a container. NoContainerError."""
        with self._said(of_container=True):
            return super().inspect(container)

    def state(self, container: str) -> Mapping[str, Any] | None:
        """Give a container's Running, Pid and ExitCode; ``None``: the engine knows no such container."""
        try:
            return cast(Mapping[str, Any], self.inspect(container)["State"])
        except NoContainerError:
            return None

    def logs(self, container: str) -> bytes:
        """Give what a container has written, of all its log's files."""
        try:
            with self._said(of_container=True):
                return self._api.logs(container, stdout=True, stderr=True)
        except NoContainerError:
            return b""

    def follow(self, container: str, *, error: bool) -> Iterator[bytes]:
        """Give what a container writes to standard output, or error, from its beginning to its end.

        It reads the log and does not attach: a client that attaches after the end waits for ever.
        """
        with self._said():
            stream = self._api.logs(container, stdout=not error, stderr=error, stream=True, follow=True)
        yield from stream
