"""Components' Prometheus endpoints, asked off the loop's path: one thread each, and the loop takes what has come."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from qioi.model import ChannelReading, Component, Credentials, LeaderChange
from qioi.model.counting import Count
from qioi.model.names import in_one_line
from qioi.monitor.commits.counters import Skip
from qioi.monitor.commits.sources import Channels, SourceState
from qioi.monitor.commits.throughput import PEER_EXPIRY
from qioi.monitor.metrics.counted import CountedThroughput
from qioi.monitor.metrics.exposition import CHUNK, Page, PageReader
from qioi.monitor.metrics.page_throughput import PageThroughput
from qioi.monitor.metrics.short_heads import ShortHeaded

#: Seconds between two questions to one endpoint.
EVERY = 1.0
#: Seconds that an endpoint may take over any step of an answer, and over all of them.
TIMEOUT, LONGEST = 2.0, 5.0
#: So many times as long as it took to read a page, in CPU time, passes before the next question at the least: a page
#: that is made up may take seconds to take apart, of which the loop would have half. One of a thousand channels, of
#: 4 MB, takes less than a second: it is still asked for within the window that throughput is of.
REST = 3.0
#: Bytes of a page; a peer with a thousand channels has less.
MAX_PAGE = 16 * 1024 * 1024


class Key(NamedTuple):
    """A component's name, its endpoint's address, how it is asked, and the channels that the component serves."""

    component: str
    url: str
    credentials: Credentials
    channels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """One answer: when it came (monotonic), and the page, or why there is none."""

    time: float
    page: Page | None
    problem: str | None


class Endpoint:
    """Asks one component again and again, until closed. ``counted`` are the channels that it may count for."""

    def __init__(self, key: Key, counted: Mapping[str, Count], every: float = EVERY) -> None:
        self.component, self.url, self._credentials, _ = key
        self._counted = counted
        self._context: ssl.SSLContext | None = None  # made when it is needed, and anew after a failure: files change
        self._every = every
        self._looks: SimpleQueue[Look] = SimpleQueue()
        self._stop = threading.Event()
        self._asked: float | None = None  # when the answer that is waited for was asked for
        self._line: socket.socket | None = None
        self._begun = False
        self._begin()

    def _begin(self) -> None:
        """Begin to ask. Where the host or the service has no room for a thread, that is the answer."""
        thread = threading.Thread(target=self._run, name=f"metrics of {self.component}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._looks.put(Look(time.monotonic(), None, f"{self.url}: {error}"))
            return
        self._begun = True

    def take(self, now: float) -> list[Look]:
        """Give the answers that came since the last call; never waits. Who takes too long is hung up on."""
        if not self._begun:
            self._begin()
        looks = []
        with contextlib.suppress(Empty):
            while True:
                looks.append(self._looks.get_nowait())
        asked = self._asked  # once: the thread may have its answer meanwhile
        if asked is not None and now - asked > LONGEST:
            self._hang_up()
        return looks

    def close(self) -> None:
        """Stop asking and hang up. A request under way ends by itself; this call does not wait for it."""
        self._stop.set()
        self._hang_up()

    def _hang_up(self) -> None:
        line = self._line
        if line is not None:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        while not self._stop.is_set():
            before = time.thread_time()
            self._looks.put(self._look())
            self._stop.wait(max(self._every, REST * (time.thread_time() - before)))

    def _look(self) -> Look:
        """Ask once. Whatever goes wrong is the answer."""
        page, problem, asked = None, None, time.monotonic()
        self._asked = asked
        try:
            fetched = self._fetch()
            if time.monotonic() - asked > LONGEST:  # what came until it was hung up on may look like all
                raise TimeoutError
            page = fetched
        except Exception as error:  # unexpected errors too: this thread has no caller that would report them
            self._context = None
            late = time.monotonic() - asked > LONGEST
            words = getattr(error, "strerror", None) or str(error) or type(error).__name__
            why = f"no whole page in {LONGEST:g} s" if late else in_one_line(words)
            problem = f"{self.url}: {why}"
        finally:
            self._asked = self._line = None
        return Look(time.monotonic(), page, problem)

    def _fetch(self) -> Page:
        """Read a page as it comes. Neither proxies nor redirections are used."""
        url = urlsplit(self.url)
        secure = url.scheme == "https"
        connection = http.client.HTTPConnection(url.hostname or "", url.port or (443 if secure else 80), TIMEOUT)
        connection.response_class = ShortHeaded
        with contextlib.closing(connection):
            connection.connect()
            self._line = connection.sock
            if secure:
                self._context = self._context or trusting(self._credentials)
                line = self._context.wrap_socket(
                    connection.sock, do_handshake_on_connect=False, server_hostname=url.hostname
                )
                self._line = connection.sock = line
                line.do_handshake()
            connection.request("GET", (url.path or "/") + (f"?{url.query}" if url.query else ""))
            with connection.getresponse() as answer:
                if answer.status != 200:
                    raise ValueError(f"HTTP status {answer.status} {answer.reason}")
                packed = answer.headers.get("Content-Encoding", "identity")
                if packed != "identity":  # the request did not ask for that
                    raise ValueError(f"the page comes as {packed}")
                return self._read(answer)

    def _read(self, answer: http.client.HTTPResponse) -> Page:
        reader, room = PageReader(self._counted), MAX_PAGE
        while data := answer.read(min(CHUNK, room + 1)):
            room -= len(data)
            if room < 0:
                raise ValueError(f"a page of more than {MAX_PAGE} bytes")
            reader.feed(data)
        if answer.length:  # read() ends at a closed connection, too; without a length there is nothing to tell by
            raise ValueError(f"a page cut short by {answer.length} bytes")
        return reader.page()


def trusting(credentials: Credentials) -> ssl.SSLContext:
    """Make what TLS connections are made by. Fabric asks whoever wants its metrics over TLS for a certificate.

    It takes some milliseconds. ValueError names a file that cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=credentials.ca)
    except OSError as error:
        raise ValueError(f"metrics_tls: ca {credentials.ca}: {error.strerror or error}") from None
    if credentials.certificate:
        try:
            # An empty password makes a key that is protected by one an error instead of a prompt.
            context.load_cert_chain(credentials.certificate, credentials.key, password="")
        except OSError as error:
            files = f"certificate {credentials.certificate}, key {credentials.key}"
            raise ValueError(f"metrics_tls: {files}: {error.strerror or error}") from None
    return context


class MeteredChannels:
    """Endpoints and logs together: an endpoint with a fresh page takes precedence over the logs.

    The logs are followed all the time, so that they know a whole window when an endpoint goes away. ``counts`` are the
    channels that have a counter of their own: of those, logs say nothing.
    """

    def __init__(
        self,
        logs: Channels,
        components: Iterable[Component],
        every: float = EVERY,
        *,
        counts: Mapping[str, Count] | None = None,
    ) -> None:
        self._logs = logs
        self._every = every
        self._pages = PageThroughput()
        self._counted = CountedThroughput(counts or {})
        self._endpoints: dict[Key, Endpoint] = {}
        self._states: dict[Key, SourceState] = {}
        self._heard: dict[Key, float] = {}
        self._ask(components)

    def _ask(self, components: Iterable[Component]) -> None:
        wanted = dict.fromkeys(
            Key(one.name, one.metrics_url, one.metrics_tls, one.channels) for one in components if one.metrics_url
        )
        for key in [key for key in self._endpoints if key not in wanted]:
            self._endpoints.pop(key).close()
            self._states.pop(key)
            self._heard.pop(key, None)
            self._pages.forget(key.component)
            self._counted.forget(key.component)
        for key in wanted:
            if key not in self._endpoints:
                self._endpoints[key] = Endpoint(key, self._counts_of(key.channels), self._every)
                self._states[key] = SourceState(key.component, key.url, None, 0, 0, 0, "metrics")

    def _counts_of(self, serves: tuple[str, ...]) -> dict[str, Count]:
        """Give the counters that a page may show whose component serves these channels, or all without any."""
        return {name: count for name, count in self._counted.counts.items() if not serves or name in serves}

    def watch(self, components: Iterable[Component], channels: Iterable[str]) -> None:
        """Watch these components and channels from now on."""
        components = tuple(components)
        self._ask(components)
        self._logs.watch(components, channels)

    def read(self, now: float) -> dict[str, ChannelReading]:
        """Take in what the endpoints have answered; for each channel give their reading, or the logs'."""
        for key, endpoint in self._endpoints.items():
            for look in endpoint.take(now):
                self._take(key, look)
            if key in self._heard and now - self._heard[key] > PEER_EXPIRY:
                del self._heard[key]
                self._pages.forget(key.component)
        return {channel: self._choose(logged, now) for channel, logged in self._logs.read(now).items()}

    def _take(self, key: Key, look: Look) -> None:
        state = self._states[key]
        if look.page is None:
            self._states[key] = replace(state, problem=look.problem)
            return
        page, foreign = own(look.page, key.channels)
        self._heard[key] = look.time
        self._pages.observe(key.component, page, look.time)
        self._counted.observe(key.component, page.series, look.time)
        self._states[key] = replace(
            state,
            problem=None,
            lines=state.lines + 1,
            commits=round(sum(page.transactions.values()) + sum(page.counts.values())),
            skipped={str(Skip.FOREIGN_CHANNEL): foreign} if foreign else {},
        )

    def _choose(self, logged: ChannelReading, now: float) -> ChannelReading:
        if logged.channel in self._counted.counts:
            return self._counted.reading(logged.channel, now)
        metered = self._pages.reading(logged.channel, now)
        return logged if metered.throughput is None else metered

    def elections(self) -> list[LeaderChange]:
        """Give the Raft leader changes that orderers have logged since the call before."""
        return self._logs.elections()

    def seen(self) -> tuple[str, ...]:
        """Name the channels that commits were seen of, by either."""
        return tuple(dict.fromkeys([*self._counted.channels, *self._pages.channels, *self._logs.seen()]))

    def heard(self, since: float) -> tuple[str, ...]:
        """Name the channels that a commit came of at that monotonic time or later, by either."""
        return tuple(dict.fromkeys([*self._counted.heard(since), *self._pages.heard(since), *self._logs.heard(since)]))

    def states(self) -> list[SourceState]:
        """Say how each log and each endpoint is doing."""
        return [*self._logs.states(), *self._states.values()]

    def close(self) -> None:
        """Ask no more, and close every log."""
        for endpoint in self._endpoints.values():
            endpoint.close()
        self._logs.close()


def own(page: Page, channels: tuple[str, ...]) -> tuple[Page, int]:
    """Give what a page says of the channels that its component serves, and how many others it speaks of."""
    foreign = {*page.transactions, *page.heights}.difference(channels) if channels else set()
    if not foreign:
        return page, 0
    kept = Page(
        {name: count for name, count in page.transactions.items() if name not in foreign},
        {name: height for name, height in page.heights.items() if name not in foreign},
        page.series,
    )
    return kept, len(foreign)
