"""A client for the few calls that the daemon makes to an API server: HTTPS with the service account's token.

The daemon needs four verbs on four resources. The official client library would cost some 50 MB of memory in every
node's daemon, more than all the rest of it. Every request is counted for the metrics.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from weakref import WeakSet

from qioi.kubernetes.trust import Trust, TrustError

log = logging.getLogger("qioi")

#: Where the kubelet mounts a pod's own identity (Kubernetes: "Accessing the API from within a Pod").
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: Seconds that a request may take.
TIMEOUT = 10.0
#: Seconds of silence after which a watch that has begun is given up; the server sends a bookmark about once a minute.
WATCH_SILENCE = 100.0
#: Most bytes that are read of an answer, and of one change. Decoded they take up to twenty times as much until the next
#: one is read, and the daemon's pod has 192 MB. Objects have at most 1.5 MB in etcd; as JSON most have that, too.
MAX_ANSWER = 4 * 1024 * 1024
#: Most objects of a page: 100 pods have about 2 MB.
PAGE = 100

METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
APPLY = "application/apply-patch+yaml"  # JSON is YAML
STRATEGIC = "application/strategic-merge-patch+json"
#: Most seconds for which a server is left alone that asks for it (RFC 9110: Retry-After).
MOST_WAIT = 30.0

Object = Mapping[str, Any]


class ApiError(Exception):
    """The API server did not answer, or refused. ``status`` is the HTTP status, 0 without an answer.

    ``wait``: the seconds for which the server wants to be left alone, at most :data:`MOST_WAIT`; 0 if it does not say.
    """

    def __init__(self, message: str, status: int = 0, wait: float = 0.0) -> None:
        self.status = status
        self.wait = wait
        super().__init__(message)


class TooLargeError(ApiError):
    """An answer has more than MAX_ANSWER bytes."""


@dataclass(frozen=True, slots=True)
class Access:
    """The address of an API server, which may have a path before the API's own, and the identity.

    Both files change: the token's is read for every request, the authority's for every new connection.
    """

    server: str
    ca: Path | None = None
    token: Path | None = None


def in_cluster(environment: Mapping[str, str] = os.environ, account: Path = SERVICE_ACCOUNT) -> Access | None:
    """Give the access that a pod has to its API server; ``None`` outside of a pod."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (account / "token").exists():
        return None
    return Access(f"https://{f'[{host}]' if ':' in host else host}:{port}", account / "ca.crt", account / "token")


class Api:
    """Connections to one API server: one that stays open for requests, and one for each watch."""

    def __init__(self, access: Access) -> None:
        self._access = access
        address = urlsplit(access.server)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ApiError(f"server {access.server!r}: accepted is a URL such as https://10.96.0.1:443")
        self._secure, self._host = address.scheme == "https", address.hostname
        self._port = address.port or (443 if self._secure else 80)
        self._root = address.path.rstrip("/")
        try:
            self._trust = Trust(access.ca) if self._secure else None
        except TrustError as error:
            raise ApiError(str(error)) from None
        if access.token is not None:
            read_token(access.token)
        self._lock = threading.Lock()
        self._kept: http.client.HTTPConnection | None = None
        self._end = float("inf")  # the monotonic time by which requests have to end
        self._asking: threading.Thread | None = None
        self._turn = threading.Lock()  # of whom _asking names: who is to be cut off keeps the connection until then
        self._interrupted: WeakSet[threading.Thread] = WeakSet()
        #: Requests made, by verb and by the answer's status.
        self.requests: Counter[tuple[str, str]] = Counter()

    def request(
        self, verb: str, method: str, path: str, query: Mapping[str, str], body: object = None, kind: str = ""
    ) -> Any:
        """Make one request; give the document of the answer. ApiError.

        ``kind`` is the media type of the body, or, without a body, of the answer.
        """
        where = f"{self._root}{path}?{urlencode(query)}" if query else f"{self._root}{path}"
        data = None if body is None else json.dumps(body).encode()
        with self._alone():
            with self._turn:
                self._asking = threading.current_thread()
            try:
                answer = self._ask(method, where, data, kind)
                content = answer.read(MAX_ANSWER + 1)
                if len(content) > MAX_ANSWER:
                    self._hang_up()  # the rest of the answer is not read
            except (OSError, http.client.HTTPException) as error:
                self._hang_up()
                self.requests[verb, "unreachable"] += 1
                raise ApiError(f"{self._access.server}: {reason(error)}") from None
            finally:
                with self._turn:
                    self._asking = None
        self.requests[verb, str(answer.status)] += 1
        if answer.status >= 300:
            raise ApiError(f"{method} {path}: {answer.status} {refusal(content)}", answer.status, wait_of(answer))
        if len(content) > MAX_ANSWER:
            raise TooLargeError(f"{method} {path}: the answer has more than {MAX_ANSWER >> 20} MB")
        return decode(content)

    def list(
        self, path: str, query: Mapping[str, str], slim: Callable[[Object], Object] = lambda one: one
    ) -> tuple[list[Object], str]:
        """Read all objects, and give what ``slim`` keeps of each, with the version that a watch can start from.

        They are read page by page, so that only one page at a time is in memory as a whole. What a server has at hand
        (resourceVersion 0, or not older than another) it sends as one page: for the former whatever the limit, the
        latter by older servers only without one. Where that page is too large, the server is asked for pages, which it
        reads in etcd. An object that is too large by itself is left out. ApiError.
        """
        kept: list[Object] = []
        ask, limit = dict(query), PAGE
        while True:
            paged = {} if "resourceVersionMatch" in ask else {"limit": str(limit)}
            try:
                page = self.request("list", "GET", path, {**ask, **paged})
            except TooLargeError:
                ask.pop("resourceVersionMatch", None)
                if ask.pop("resourceVersion", None) is not None:
                    continue
                if limit > 1:
                    limit //= 2
                    continue
                page = self._pass_over(path, {**ask, "limit": "1"})
            kept += [slim(one) for one in page.get("items") or []]
            metadata = page.get("metadata", {})
            if not metadata.get("continue"):
                return kept, str(metadata.get("resourceVersion", ""))
            ask["continue"] = metadata["continue"]
            del page  # before the next one is read
            limit = min(PAGE, 2 * limit)  # what was too large may be behind: one by one, thousands would take minutes

    def _pass_over(self, path: str, query: Mapping[str, str]) -> Object:
        """Give a page without its object, which is too large. ApiError."""
        page: Object = self.request("list", "GET", path, query, kind=METADATA_ONLY)
        for one in page.get("items") or ():
            about = one.get("metadata", {})
            log.warning(
                "kubernetes: %s/%s has more than %d MB: left out",
                about.get("namespace", ""), about.get("name"), MAX_ANSWER >> 20,
            )  # fmt: skip
        return {**page, "items": []}

    def apply_status(self, path: str, body: Object, manager: str) -> None:
        """Apply a status as ``manager``; the server removes the manager's fields that it lacks. ApiError."""
        self.request("apply", "PATCH", f"{path}/status", {"fieldManager": manager, "force": "true"}, body, APPLY)

    def watch(self, path: str, query: Mapping[str, str]) -> Watch:
        """Begin to follow changes. ApiError."""
        where = f"{self._root}{path}?{urlencode({**query, 'watch': 'true', 'allowWatchBookmarks': 'true'})}"
        headers, connection = self._headers(), self._connection(self._left())
        try:
            connection.request("GET", where, headers=headers)
            stream = connection.sock  # the connection drops it for an answer that ends with the stream
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            self.requests["watch", "unreachable"] += 1
            raise ApiError(f"{self._access.server}: {reason(error)}") from None
        self.requests["watch", str(answer.status)] += 1
        if answer.status != HTTPStatus.OK:
            with closing(connection):
                why = refusal(read_refusal(answer)) or answer.reason
            raise ApiError(f"watch {path}: {answer.status} {why}", answer.status, wait_of(answer))
        stream.settimeout(WATCH_SILENCE)
        return Watch(connection, stream, answer)

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Give all requests together this many seconds in the block's time; those that begin later are refused."""
        self._end = time.monotonic() + seconds
        try:
            yield
        finally:
            self._end = float("inf")

    def interrupt(self, thread: threading.Thread) -> None:
        """Have a thread that ends make no more requests; one that waits for its answer fails."""
        self._interrupted.add(thread)
        with self._turn:
            if self._asking is thread:
                self._cut()

    def close(self) -> None:
        """Close the connection for requests; a request that another thread waits for fails."""
        self._end = float("-inf")
        self._cut()
        if self._lock.acquire(blocking=False):  # otherwise, the other thread closes it
            self._hang_up()
            self._lock.release()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait for the connection, for no longer than a request may take. ApiError."""
        if not self._lock.acquire(timeout=self._left()):
            raise ApiError(f"{self._access.server}: not asked: another request waits for its answer")
        try:
            yield
        finally:
            self._lock.release()

    def _ask(self, method: str, where: str, data: bytes | None, kind: str) -> http.client.HTTPResponse:
        """Ask over the open connection, or over a new one if the server has closed it."""
        for fresh in (False, True):
            left = self._left()
            if self._kept is None or fresh:
                self._hang_up()
                self._kept, fresh = self._connection(left), True
            self._kept.timeout = left  # of a new connection, which it makes where the server has closed this one
            if self._kept.sock is not None:
                self._kept.sock.settimeout(left)
            try:
                self._kept.request(
                    method, where, data, self._headers(kind, "Accept" if data is None else "Content-Type")
                )
                return self._kept.getresponse()
            except (ConnectionError, http.client.BadStatusLine):
                if fresh:
                    raise
        raise AssertionError("unreachable")

    def _headers(self, kind: str = "", of: str = "Accept") -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "qioi"}
        if kind:
            headers[of] = kind
        if self._access.token is not None:
            headers["Authorization"] = f"Bearer {read_token(self._access.token)}"
        return headers

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._trust is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._trust.context())

    def _left(self) -> float:
        """Give the seconds that a request may take that begins now. ApiError."""
        left = min(TIMEOUT, self._end - time.monotonic())
        if left <= 0 or threading.current_thread() in self._interrupted:
            raise ApiError(f"{self._access.server}: not asked: no time is left")
        return left

    def _cut(self) -> None:
        """Have the request that waits for an answer fail. Any thread may call this."""
        kept = self._kept
        connection = None if kept is None else kept.sock  # read once: the thread that asks may close it meanwhile
        if connection is not None:
            cut(connection)

    def _hang_up(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None


class Watch:
    """One stream of changes."""

    def __init__(
        self, connection: http.client.HTTPConnection, stream: socket.socket, answer: http.client.HTTPResponse
    ) -> None:
        self._connection = connection
        self._socket = stream
        self._answer = answer

    def events(self) -> Iterator[Object]:
        """Yield changes until the stream ends. ApiError if it breaks; 410 if the objects have to be listed anew."""
        try:
            while line := self._answer.readline(MAX_ANSWER + 1):
                if len(line) > MAX_ANSWER:
                    raise ApiError(f"watch: a change has more than {MAX_ANSWER >> 20} MB", HTTPStatus.GONE)
                event = decode(line)
                del line
                if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
                    raise ApiError("the API server sent something that is no change")
                yield event
        except (OSError, http.client.HTTPException, AttributeError, ValueError) as error:  # the latter two: closed
            raise ApiError(f"watch: {reason(error)}") from None

    def close(self) -> None:
        """End the stream; another thread may call this while the stream is read."""
        cut(self._socket)
        self._connection.close()


def cut(connection: socket.socket) -> None:
    """End a connection that another thread may be waiting at, also below TLS, which that thread is in the midst of."""
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def read_token(file: Path) -> str:
    """Read the token of an identity. ApiError."""
    try:
        return file.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ApiError(f"token {file}: {reason(error)}") from None


def decode(content: bytes) -> Any:
    """Read a JSON document. ApiError."""
    try:
        return json.loads(content)
    except ValueError:
        raise ApiError("the API server sent no JSON") from None


def read_refusal(answer: http.client.HTTPResponse) -> bytes:
    """Read what a refusal says, or as much of it as comes: its status is known without it."""
    try:
        return answer.read(64 * 1024)
    except http.client.IncompleteRead as error:
        return error.partial
    except (OSError, http.client.HTTPException):
        return b""


def wait_of(answer: http.client.HTTPResponse) -> float:
    """Give the seconds for which a server wants to be left alone. A date is not gone by: clocks may differ."""
    told = answer.getheader("Retry-After", "")
    return min(MOST_WAIT, float(told)) if told.isdecimal() else 0.0


def refusal(content: bytes) -> str:
    """Give the message of a Status object, or the first 200 bytes of any other content."""
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content[:200].decode(errors="replace").strip()


def reason(error: Exception) -> str:
    """Describe a failed connection, or a file that cannot be read."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
