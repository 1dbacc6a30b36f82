"""The components among an engine's containers, kept up to date by its events.

Two threads, so that the loop never waits for an engine: one reads the events into a bounded queue, the other
asks the engine about each container and publishes what is there as one value. When the queue overflows or
the engine goes away, everything is listed anew. Meanwhile what was found stays, because containers may
outlive their engine (`live-restore`), and the loop notices when a control group is gone. Where an engine
tells no events, its containers are listed at an interval.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from qioi.discovery.base import Found
from qioi.discovery.cgroups import FULL_ID, PROC, NoGroupError, container_group, is_of_user, unseen
from qioi.discovery.engine import (
    DOCKER,
    EVENTS,
    PODMAN,
    Engine,
    EngineError,
    EngineRefusedError,
    EngineUnsuitableError,
    Events,
    Kind,
    NoContainerError,
    SlowError,
)
from qioi.discovery.recognise import (
    LOGGED,
    Network,
    Recognised,
    Rule,
    may_support,
    organisation,
    recognise,
    state_database,
)
from qioi.discovery.seen_containers import SeenContainer, gather
from qioi.discovery.tracebacks import Tracebacks
from qioi.model import Component, Owner, OwnerKind, Role

log = logging.getLogger("qioi")

#: Events that wait for the second thread; beyond it they are thrown away, and everything is listed.
QUEUE = 1024
#: Seconds between attempts to reach an engine that is away: within a second of its return we are back.
RETRY = 0.3
#: Seconds after which everything is listed all the same: an engine drops events of a slow listener.
RELIST = 30.0
#: Seconds between two lists of an engine that tells no events, and seconds after which it is asked for them again.
POLL, POLLS = 2.0, 30.0
#: Streams of events in a row that end before they tell anything, until there is no waiting for the next: one may end
#: with its engine.
IN_VAIN = 2


class DockerDiscovery:
    """Watches one engine from construction until :meth:`close`."""

    def __init__(
        self,
        socket: str,
        cgroup_version: int,
        rules: Sequence[Rule] = (),
        *,
        kind: Kind = DOCKER,
        fabric: bool = True,
        owned: bool = True,
    ) -> None:
        self._socket = socket
        self._kind = kind
        self._version = cgroup_version
        self._rules = tuple(rules)
        self._fabric = fabric
        self._owned = owned and kind.records
        self._sights: dict[str, SeenContainer] = {}
        self._found = Found(problems={self._about: "it has not answered yet"}, complete=False)
        self._stop = threading.Event()
        self._answered = threading.Event()
        self._listed = threading.Event()
        self._events: Events | None = None
        self._in_vain = 0  # streams in a row that ended before they told anything
        self._deaf: str | None = None  # why containers are listed at an interval
        self._tracebacks = Tracebacks()
        self._thread = threading.Thread(target=self._run, name=f"qioi-{self._kind.name}", daemon=True)
        self._thread.start()

    @property
    def _about(self) -> str:
        return f"{self._kind.name} engine {self._socket}"

    def found(self) -> Found:
        """Give what is there now."""
        return self._found

    def answers(self, seconds: float) -> bool:
        """Wait for the engine to name its containers, at most so long; say whether it has."""
        return self._answered.wait(seconds)

    def wait(self, seconds: float) -> bool:
        """Wait for the first complete list, at most so long; say whether there is one."""
        return self._listed.wait(seconds)

    def close(self) -> None:
        """Stop listening. A thread that waits for an answer of the engine ends by itself."""
        self._stop.set()
        self._hang_up()
        self._thread.join(timeout=2.0)

    def _hang_up(self) -> None:
        events = self._events
        if events is not None:
            try:
                events.close()
            except Exception as error:  # the SDK reaches into three libraries to find its socket
                log.debug("closing the engine's events: %s", error)

    # ---- the second thread: engine -> what is there

    def _run(self) -> None:
        while not self._stop.is_set():
            pause = RETRY
            try:
                self._session()
                continue
            except EngineError as error:
                problem = str(error)
                pause = RELIST if isinstance(error, EngineUnsuitableError) else RETRY
            except Exception as error:  # an engine's answer is untrusted: nothing in it may end the watch
                self._tracebacks.say(self._about, error)
                problem = f"{self._socket}: {type(error).__name__}: {error}"
            self._complain(f"{problem}: asked again until it answers; what was found stays")
            self._stop.wait(pause)

    def _complain(self, problem: str) -> None:
        """Say what is wrong, beside what was seen; where that cannot be made one value of, beside what was found."""
        try:
            self._publish(problem)
        except Exception as error:  # it is said here, and asked again as after any other
            self._tracebacks.say(self._about, error)
            self._found = replace(self._found, problems={**self._found.problems, self._about: problem})

    def _session(self) -> None:
        """Listen, list, and follow for as long as the engine answers. EngineError."""
        engine = Engine(self._socket, kind=self._kind)
        try:
            there = PODMAN if engine.is_podman() else DOCKER
            if there is not self._kind:  # each wraps logs in its own way under names of drivers that both have
                who, section = there.name.capitalize(), there.name
                raise EngineUnsuitableError(
                    f"{self._socket}: {who} answers there: accepted is the section {section}, with this socket"
                )
            try:
                events = self._events = engine.events()
            except SlowError:
                self._poll(engine, frozenset())
            else:
                self._follow(engine, events)
        finally:
            self._hang_up()
            self._events = None
            engine.close()

    def _follow(self, engine: Engine, events: Events) -> None:
        """List, and follow until the stream ends."""
        waiting: queue.Queue[Mapping[str, Any] | None] = queue.Queue(QUEUE)
        missed = threading.Event()
        reader = threading.Thread(
            target=pump, args=(events, waiting, missed), name=f"qioi-{self._kind.name}-events", daemon=True
        )
        try:
            reader.start()
        except RuntimeError as error:  # the host or the service has no room for a thread
            raise EngineError(f"{self._socket}: no thread for its events: {error}") from None
        known = self._list(engine)  # after the subscription, so that nothing falls between the two
        next_list = time.monotonic() + RELIST
        while not self._stop.is_set():
            try:
                event = waiting.get(timeout=max(0.0, next_list - time.monotonic()))
            except queue.Empty:
                self._hears()
            else:
                if event is None:
                    self._ended(engine, known)
                    return
                self._hears()
                self._take(engine, event)
            if missed.is_set() or time.monotonic() >= next_list:
                missed.clear()
                known = self._list(engine)
                next_list = time.monotonic() + RELIST
            elif waiting.empty():
                self._publish(None)

    def _hears(self) -> None:
        """Take it that the engine tells events: its stream has told one, or is still open when a list is due."""
        self._in_vain, self._deaf = 0, None

    def _ended(self, engine: Engine, known: Set[str]) -> None:
        """See whether the engine has gone with its stream; else do without. A refusal of events comes as such an end.

        EngineError.
        """
        self._in_vain += 1
        if self._in_vain < IN_VAIN:
            raise EngineError(f"{self._socket}: it has closed the connection")
        self._poll(engine, known)

    def _poll(self, engine: Engine, known: Set[str]) -> None:
        """List at an interval.

        To ask about each of 2,000 containers takes an engine seconds, so between two whole lists only new ones are
        looked at.
        """
        self._deaf = (
            f"{self._socket}: it tells no events (Podman's events_logger is none, or a proxy keeps them back): its "
            f"containers are listed every {POLL:g} s"
        )
        known = self._list(engine, known)
        end = time.monotonic() + POLLS
        while not self._stop.wait(POLL) and time.monotonic() < end:
            known = self._list(engine, known)

    def _list(self, engine: Engine, known: Set[str] = frozenset()) -> Set[str]:
        """Look at every running container that is not known, forget those that do not run, and give all that do."""
        running = engine.running()
        self._answered.set()
        self._sights = {one: self._sights[one] for one in running if one in self._sights}
        new = (one for one in running if one not in known)
        for one in new:  # each is kept as it is seen: the engine may stop answering in between
            self._keep(one, self._look(engine, one))
        self._publish(None, complete=True)
        self._listed.set()
        return set(running)

    def _take(self, engine: Engine, event: Mapping[str, Any]) -> None:
        """Follow one event. It may be outdated, so the container itself is asked."""
        container = str(event.get("id") or event.get("Actor", {}).get("ID", ""))
        if not container:
            return
        sight = None
        if (
            event.get("Action", event.get("status")) not in ("die", "destroy", "died", "remove")
            or container in self._sights
        ):
            sight = self._look(engine, container)
        self._keep(container, sight)

    def _keep(self, container: str, sight: SeenContainer | None) -> None:
        if sight is None:
            self._sights.pop(container, None)
        else:
            self._sights[container] = sight

    def _look(self, engine: Engine, container: str) -> SeenContainer | None:
        """Recognise one container. One that the engine fails on stays as it was and affects no other."""
        try:
            return self._recognise(engine, container)
        except SlowError as error:
            engine.ping()  # one that answers nothing at all is asked again from the beginning
            self._publish(None)  # what was seen before does not wait for the others that are as slow
            why = str(error)
        except EngineRefusedError as error:
            why = str(error)
        except (AttributeError, LookupError, OSError, TypeError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
        known = self._sights.get(container) or SeenContainer(None, name=container[:12])
        return replace(known, problems=(f"it cannot be looked at: {why}",))

    def _recognise(self, engine: Engine, container: str) -> SeenContainer | None:
        """Recognise one container; ``None`` for one that is not running, or no part of the ledger."""
        try:
            facts = engine.inspect(container)
        except NoContainerError:
            return None
        if not facts["State"]["Running"] or not facts["State"]["Pid"]:
            return None
        name, config = str(facts["Name"]).lstrip("/"), facts["Config"]
        labels, image = config.get("Labels") or {}, str(config["Image"])
        what = recognise(name, image, labels, self._rules, self._fabric)
        possible = self._fabric and may_support(what, image, labels)
        if possible:
            what = Recognised(Role.SUPPORT)
        if what.role is None and not what.best_effort:
            return SeenContainer(None, problems=what.problems, name=name) if what.problems else None
        try:
            group = container_group(int(facts["State"]["Pid"]), container, self._version)
        except NoGroupError as error:
            return SeenContainer(None, problems=(*what.problems, str(error)), name=name)
        if group is None:
            return self._without_process(engine, container, name, what)
        if (user := self._user()) != 0 and not is_of_user(group, user):  # it says what it likes
            why = f"its control group {group} is not below user.slice/user-{user}.slice: the engine is user {user}'s"
            return SeenContainer(None, problems=(*what.problems, why), name=name)
        if what.role is None:
            return SeenContainer(None, problems=what.problems, name=name, best_effort=group)
        problems = what.problems
        log_path, log_format = self._log(container, facts) if what.role in LOGGED else (None, "plain")
        if what.role in LOGGED and log_path is None:
            driver = facts["HostConfig"]["LogConfig"]["Type"]
            accepted = ", ".join(self._kind.formats)
            problems += (f"log driver {driver}: its log cannot be followed: accepted are {accepted}",)
        owner = Owner(OwnerKind.DOCKER, container, self._socket) if self._owned else None
        environment = dict(str(one).split("=", 1) for one in config.get("Env") or () if "=" in str(one))
        component = Component(
            name, what.role, group, what.channels, log_path, log_format, owner,
            organisation=organisation(name, labels, environment),
        )  # fmt: skip
        database = state_database(environment) if what.role is Role.PEER else None
        return SeenContainer(
            component, what.threshold, problems, name,
            database=database, network=network_of(name, facts), possible=possible,
        )  # fmt: skip

    def _without_process(self, engine: Engine, container: str, name: str, what: Recognised) -> SeenContainer | None:
        """Tell a container that has ended meanwhile from one whose process cannot be seen."""
        try:
            pid = engine.inspect(container)["State"]["Pid"]
        except NoContainerError:
            return None
        if not pid or (PROC / str(pid)).exists():  # or it was started anew: an event tells of that
            return None
        return SeenContainer(None, problems=(*what.problems, unseen(pid)), name=name)

    def _log(self, container: str, facts: Mapping[str, Any]) -> tuple[str | None, str]:
        """Say where a container's lines are, and how they are wrapped."""
        log_format = self._kind.formats.get(facts["HostConfig"]["LogConfig"]["Type"], "plain")
        if log_format == "journald":
            if FULL_ID.fullmatch(container) is None:
                raise ValueError(f"{container!r} is no id of a container: journalctl would read options in it")
            # Lines are the engine's own: it writes as root, or a rootless one as the user whose socket it has.
            writers = " ".join(f"_UID={one}" for one in sorted({0, self._user()}))
            return f"CONTAINER_ID_FULL={container} {writers}", log_format
        return (facts.get("LogPath") or None) if log_format != "plain" else None, log_format

    def _user(self) -> int:
        """Give the user whose engine it is: a rootless one's socket belongs to them. OSError."""
        return Path(self._socket).stat().st_uid

    def _publish(self, problem: str | None, *, complete: bool = False) -> None:
        """Make one value of it; readers have the old one or the new one. What was complete once stays so."""
        complete = complete or self._found.complete
        found = gather(self._sights.values(), self._about, problem or self._deaf, complete=complete)
        if found != self._found:
            self._found = found


def network_of(name: str, facts: Mapping[str, Any]) -> Network:
    """Read how a container is reached: its names in its networks, and the host's ports that lead to it.

    One in the host's network has the host's name, and engines tell no ports of it but those that its image exposes.
    One in another container's (``container:ID``) has no networks of its own.
    """
    settings, config = facts.get("NetworkSettings") or {}, facts["Config"]
    mode, _, other = str((facts.get("HostConfig") or {}).get("NetworkMode") or "").partition(":")
    space, on_host = other if mode == "container" else str(facts.get("Id") or ""), mode == "host"
    everywhere = {name} if on_host else {name, str(config.get("Hostname") or name)}
    names: dict[str, frozenset[str]] = {}
    addresses = set()
    for title, one in (settings.get("Networks") or {}).items():
        aliases = (str(alias) for alias in (*(one.get("Aliases") or ()), *(one.get("DNSNames") or ())))
        names[str(one.get("NetworkID") or title)] = frozenset({*everywhere, *aliases})
        if one.get("IPAddress"):
            addresses.add(str(one["IPAddress"]))
    published = (settings.get("Ports") or {}).values()
    ports = {str(port["HostPort"]) for ports in published for port in ports or ()}
    if on_host:
        ports = {str(port).partition("/")[0] for port in config.get("ExposedPorts") or ()}
    return Network(names or {space: frozenset(everywhere)}, frozenset(ports), frozenset(addresses), space)


def pump(events: Events, waiting: queue.Queue[Mapping[str, Any] | None], missed: threading.Event) -> None:
    """Read events into the queue, at the end ``None``; say when one had to be thrown away."""
    try:
        for event in events:
            if event.get("Action", event.get("status")) not in EVENTS:
                continue
            try:
                waiting.put_nowait(event)
            except queue.Full:
                missed.set()
    except Exception as error:  # a stream that is cut off ends in whatever error its libraries have for that
        log.debug("the engine's events: %s", error)
    while True:  # who listens may have left with the queue full: nobody is to wait for room then
        try:
            waiting.put_nowait(None)
            return
        except queue.Full:
            missed.set()
            with suppress(queue.Empty):
                waiting.get_nowait()
