"""What the daemon answers over HTTP: the newest snapshot in several forms, and orders to the loop."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from msgspec import to_builtins
from msgspec.structs import replace

from qioi.controller.laws.thresholds import AUTO
from qioi.kernel.hierarchy import Hierarchy
from qioi.model.groups import ROOT
from qioi.model.names import few
from qioi.show.explain import ACCEPTED, accepted, explain
from qioi.show.footnotes import no_longer, trouble
from qioi.show.foreign import why_not_mine
from qioi.show.http import TEXT, Query, RefusedError, Routes, StalledError, is_loopback
from qioi.show.metrics import CONTENT_TYPE, Meter, render
from qioi.show.snapshot import Snapshot, encode
from qioi.show.stalled import stalled
from qioi.show.trouble import Trouble
from qioi.show.troubles import Lasting, find

log = logging.getLogger("qioi")

JSON = "application/json"
#: Seconds between two looks for troubles: at 1,000 components one takes a millisecond.
EVERY = 5.0


@dataclass(frozen=True, slots=True)
class Orders:
    """What an operator may order over the socket; each takes effect in the loop's next period.

    ``set_threshold`` sets what a channel is owed, in transactions per second, or has it learned (``None``).
    ``take_as_mine`` has a foreign group counted as a client; it gives the patterns that do so for good, or ``None``
    where that is said otherwise. ``take_up`` has a component moved again whose share somebody else has changed.
    """

    set_threshold: Callable[[str, float | None], None]
    take_as_mine: Callable[[str], tuple[str, ...] | None]
    take_up: Callable[[str], None]


class Publisher:
    """The newest snapshot, for those who ask over HTTP."""

    def __init__(
        self,
        snapshot: Snapshot,
        hierarchy: Hierarchy,
        orders: Orders,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._published = clock()
        self._orders = orders
        self._hierarchy = hierarchy
        self._meter = Meter()
        self._lasting = Lasting()
        self._next_look = float("-inf")

    @property
    def snapshot(self) -> Snapshot:
        """The newest."""
        return self._snapshot

    def publish(self, snapshot: Snapshot) -> None:
        """Replace it, with the troubles that last; readers have the old one or the new one, never a mixture."""
        now, troubles = self._clock(), self._snapshot.troubles
        if now >= self._next_look:
            self._next_look = now + EVERY
            self._lasting, troubles = self._lasting.step(now, find(snapshot))
            tell(self._snapshot.troubles, troubles)
        self._snapshot = replace(snapshot, troubles=troubles)
        self._published = now
        self._meter.observe(self._snapshot)

    def routes(self) -> Routes:
        """Say what is served where; :mod:`qioi.show.openapi` describes each of them."""
        return {
            "GET /status": (JSON, lambda _: encode(self._aged())),
            "GET /explain": (JSON, self._explain),
            "POST /threshold": (JSON, self._order),
            "POST /mine": (JSON, self._mine),
            "POST /adopt": (JSON, self._adopt),
            "GET /openapi.json": (JSON, self._describe),
            "GET /metrics": (CONTENT_TYPE, lambda _: render(self._aged(), self._meter)),
            "GET /healthz": (TEXT, self._health),
        }

    def shown(self, address: str) -> Routes:
        """Say what is served over TCP: no orders, as any user of the host may connect; beyond it, metrics alone."""
        local = is_loopback(address)
        return {
            route: answer
            for route, answer in self.routes().items()
            if route in ("GET /metrics", "GET /healthz") or (local and route.startswith("GET "))
        }

    def _aged(self) -> Snapshot:
        """Give the newest with its age: that of a loop that stands still looks as well as any other."""
        return replace(self._snapshot, snapshot_age=self._clock() - self._published)

    def _health(self, query: Query) -> bytes:
        newest = self._aged()
        if said := stalled(newest.snapshot_age, newest.period):
            raise StalledError(said)
        return b"OK\n"

    def _explain(self, query: Query) -> bytes:
        try:
            document = explain(self._aged(), query.get("component", ""), self._hierarchy)
        except KeyError as error:
            raise RefusedError(str(error.args[0])) from None
        return encode(document)

    def _order(self, query: Query) -> bytes:
        channel, known = query.get("channel", ""), [one.name for one in self._snapshot.channels]
        if channel not in known:
            raise RefusedError(f"channel {channel!r}: not watched: accepted are {accepted(known)}")
        try:
            value = parse_threshold(query.get("tps", ""))
        except ValueError as error:
            raise RefusedError(f"threshold {error}") from None
        self._orders.set_threshold(channel, value)
        what = "is learned from now on" if value is None else f"is {value:g} tps"
        log.info("threshold of channel %s, over the socket: %s", channel, what)
        return encode({"message": f"{channel}: the threshold {what}, from the next period on"})

    def _mine(self, query: Query) -> bytes:
        """Take a foreign group for the operator's own."""
        group = query.get("group", "")
        group = group.strip("/") or group  # as /proc/PID/cgroup has it
        problem = why_not_mine(group, self._snapshot, self._hierarchy)
        if problem is not None:
            named = few((one.group for one in self._snapshot.foreigners if one.group != ROOT), ACCEPTED)
            such = f", such as {named}" if named else ""
            raise RefusedError(f"group {group!r}: {problem}: accepted is a foreign group{such}")
        patterns = self._orders.take_as_mine(group)
        if patterns is None:
            raise RefusedError("on Kubernetes a client is a pod that a policy names as such, not a group")
        log.info("group %s, over the socket: the operator's own", group)
        message = (
            f"{group}: counts as a client of the ledger and not as foreign work, until the daemon's next start. "
            f"This line in {self._snapshot.configuration.file} makes it last:\nmine: {json.dumps(patterns)}"
        )
        return encode({"message": message})

    def _adopt(self, query: Query) -> bytes:
        name, known = query.get("component", ""), {one.name: one for one in self._snapshot.components}
        if name not in known:
            raise RefusedError(f"component {name!r}: not watched: accepted are {accepted(known)}")
        self._orders.take_up(name)
        if not known[name].taken and known[name].problem is None:  # a problem may be a share left alone for a pause
            nothing = "nothing to take up: none of its shares was left alone in the last period"
            return encode({"message": f"{name}: {nothing}"})
        log.info("%s is to be taken up again, over the socket", name)
        return encode({"message": f"{name}: taken up again from the next period on, with what it has as its original"})

    def _describe(self, query: Query) -> bytes:
        from qioi.show.openapi import document  # the schemas take memory: only where somebody asks for them

        return encode(document(self.routes()))


def tell(before: Collection[Trouble], now: Collection[Trouble]) -> None:
    """Log the troubles that are new, and those that are over."""
    for one in now:
        if one not in before:
            log.warning("%s", trouble(to_builtins(one)))
    for one in before:
        if one not in now:
            log.info("%s", no_longer(to_builtins(one)))


def parse_threshold(text: str) -> float | None:
    """Read a threshold: a number of transactions per second, or ``auto`` (None). ValueError says what is accepted."""
    if text == AUTO:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ValueError(f"{text!r}: accepted is a number of transactions per second > 0, or {AUTO}")
    return value
