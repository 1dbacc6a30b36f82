"""The few calls to a container engine that QiOi makes, over the engine's Unix socket, with errors in one line.

Podman answers Docker's API too (`podman system service`), with differences that :class:`Kind` names.

The SDK (package ``docker``, the extra ``qioi[docker]``) is imported when an engine is first spoken to.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from qioi.discovery.records import NoRecordError, RecordError, RefusedError, UnsuitableError
from qioi.kernel.extras import installs

if TYPE_CHECKING:
    from docker import APIClient

DEFAULT_SOCKET = "/var/run/docker.sock"
PODMAN_SOCKET = "/run/podman/podman.sock"
#: Seconds that one call may take. On a host that is short of CPU the engine is, too.
TIMEOUT = 10
#: Seconds in which the answer to a subscription begins: an engine looks for nothing before. Events come when they do.
HEADERS = 5.0
#: Seconds for which an answer about runc's version is used again: dockerd runs runc for each. An upgraded runc is in
#: use at the next update, without a restart of the engine.
RUNC_HOLDS = 1.0
#: What may change the set of running containers, or a name; the last two are Podman's words.
EVENTS = ("start", "die", "rename", "destroy", "unpause", "died", "remove")


@dataclass(frozen=True, slots=True)
class Kind:
    """Which engine it is: how its log drivers wrap lines, and whether it keeps a record of shares that we can change.

    ``filters``: it can be asked for some events only. ``paused``: the running containers that it lists include those
    that are paused.
    """

    name: str
    formats: Mapping[str, str]
    records: bool
    filters: bool
    paused: bool


DOCKER = Kind("docker", {"json-file": "docker-json", "journald": "journald"}, records=True, filters=True, paused=True)
#: What Podman calls json-file is its k8s-file, which is the CRI's format. Its API has no update of shares (4.3), and it
#: writes a share only when it makes a group. Its filter for events has words of its own.
PODMAN = Kind(
    "podman",
    {"json-file": "cri", "k8s-file": "cri", "journald": "journald"},
    records=False,
    filters=False,
    paused=False,
)


class EngineError(RecordError):
    """The engine does not answer, or refuses; the message is one line."""


class EngineRefusedError(EngineError, RefusedError):
    """The engine answers, but not this one question."""


class EngineUnsuitableError(EngineRefusedError, UnsuitableError):
    """The engine answers, but is none that can be used, and stays so until it is another one."""


class SlowError(EngineError):
    """The engine has not answered this one question in time; others it may answer."""


class NoContainerError(NoRecordError):
    """The engine knows no such container."""


@dataclass(frozen=True, slots=True)
class OnEngine:
    """What an engine has on record of a container: its share in v1 units, 0 where none was ever given; its runtime."""

    shares: int
    runtime: str


class Events(Protocol):
    """A stream of events; closing it, from another thread, ends it."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Give one event after the other."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Engine:
    """A connection. Not to be shared between threads, except for closing what :meth:`events` gave."""

    def __init__(self, socket: str, timeout: int = TIMEOUT, kind: Kind = DOCKER) -> None:
        self.socket = socket
        self._kind = kind
        self._runc = ""
        self._runc_asked = -RUNC_HOLDS  # monotonic seconds
        try:
            import docker
        except ImportError:
            raise EngineError(f"the Docker SDK is not installed: {installs('docker')}") from None
        with self._translated():
            self._api = docker.APIClient(base_url=f"unix://{socket}", version="auto", timeout=timeout)
            mend(self._api, socket, timeout)

    def close(self) -> None:
        """Close the connection."""
        with suppress(Exception):
            self._api.close()

    def events(self) -> Events:
        """Subscribe to the start and the end of containers. SlowError: no answer begins."""
        words = {"event": list(EVENTS)} if self._kind.filters else {}
        with self._translated():
            stream = self._api.events(decode=True, filters={"type": "container", **words})
        return cast(Events, stream)

    def running(self) -> list[str]:
        """List the ids of all running containers."""
        states = {} if self._kind.paused else {"status": ["running", "paused"]}
        with self._translated():
            return [str(one["Id"]) for one in self._api.containers(filters=states)]

    def inspect(self, container: str) -> Mapping[str, Any]:
        """Give all that the engine knows about a container."""
        with self._translated(of_container=True):
            return cast(Mapping[str, Any], self._api.inspect_container(container))

    def ping(self) -> None:
        """Have it answer anything at all. EngineError: it does not."""
        with self._translated():
            self._api.ping()

    def record(self, container: str) -> OnEngine:
        """Give what is on record of a container."""
        host = self.inspect(container)["HostConfig"]
        return OnEngine(int(host["CpuShares"]), str(host.get("Runtime") or ""))

    def set_shares(self, container: str, shares: int) -> None:
        """Put a share on record; a running container gets it at once."""
        with self._translated(of_container=True):
            self._api.update_container(container, cpu_shares=shares)

    def runc_version(self) -> str:
        """Give the version of runc, at most a second old; empty where the engine has none."""
        if time.monotonic() >= self._runc_asked + RUNC_HOLDS:
            asked = time.monotonic()
            self._runc = self._versions().get("runc", "")
            self._runc_asked = asked
        return self._runc

    def is_podman(self) -> bool:
        """Whether Podman answers, by the API that it has for Docker's clients."""
        return "Podman Engine" in self._versions()

    def _versions(self) -> dict[str, str]:
        """Give the versions of what the engine is made of, by name."""
        with self._translated():
            parts = self._api.version().get("Components") or []
            return {str(one.get("Name")): str(one.get("Version")) for one in parts}

    @contextmanager
    def _translated(self, *, of_container: bool = False) -> Iterator[None]:
        """Turn the SDK's many errors into ours, and those of an answer that has another shape than an engine's."""
        import docker.errors
        import requests

        try:
            yield
        except docker.errors.NotFound as error:
            if of_container:
                raise NoContainerError from None
            raise EngineError(f"{self.socket}: {first_line(error.explanation or error)}: is it an engine?") from None
        except docker.errors.APIError as error:
            if error.status_code == 409 and "marked for removal" in str(error.explanation):
                raise NoContainerError from None
            why = first_line(error.explanation or error)
            # An engine that has been upgraded refuses all of a connection that was made before.
            kind = EngineError if why.startswith("client version ") else EngineRefusedError
            raise kind(f"{self.socket}: {why}") from None
        except requests.ReadTimeout:
            raise SlowError(f"{self.socket}: no answer in {self._api.timeout} s") from None
        except (docker.errors.DockerException, requests.RequestException, OSError, ValueError) as error:
            raise EngineError(f"{self.socket}: {reason(error)}") from None
        except (AttributeError, LookupError, TypeError) as error:
            said = f"{type(error).__name__}: {first_line(error)}"
            raise EngineError(f"{self.socket}: it does not answer as an engine does: {said}") from None


def mend(api: APIClient, socket: str, timeout: int) -> None:
    """Have all URLs share connections, and no answer awaited without end.

    The SDK keeps a connection for each URL, that is for each container ever asked about, up to 25; its own setting for
    that, ``num_pools``, it does not heed on Unix sockets (up to 7.1). It waits for events without any timeout, and for
    the beginning of that answer, too, which a proxy may keep back.
    """
    from docker.transport import UnixHTTPAdapter

    class Adapter(UnixHTTPAdapter):
        def get_connection(self, url: str | bytes, proxies: Any = None) -> Any:
            return super().get_connection("http+docker://localhost", proxies)

        def send(self, request: Any, stream: bool = False, timeout: Any = None, *more: Any, **named: Any) -> Any:
            if timeout is not None:
                return super().send(request, stream, timeout, *more, **named)
            response: Any = super().send(request, stream, HEADERS, *more, **named)
            response.raw._fp.fp.raw._sock.settimeout(None)  # found as the SDK does, where it closes a stream
            return response

    api.get_adapter("http+docker://").close()
    api.mount("http+docker://", Adapter(f"http+unix://{socket}", timeout))


def reason(error: BaseException) -> str:
    """Find the words of the operating system under the layers of libraries."""
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, OSError) and below.strerror:
            return below.strerror
        arguments = [one for one in below.args if isinstance(one, BaseException)]
        below = below.__cause__ or below.__context__ or (arguments[0] if arguments else None)
    return first_line(error)


def first_line(text: object) -> str:
    """Cut a message to one line of at most 200 characters."""
    return (str(text).splitlines() or ["unknown error"])[0][:200]
