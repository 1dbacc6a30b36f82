"""The few calls to systemd that QiOi makes, over the system's D-Bus, with errors in one line.

The library (package ``jeepney``, pure Python, the extra ``qioi[systemd]``) is imported when systemd is first spoken to.
Calls are those of `systemctl`, without a process for each. Source: org.freedesktop.systemd1(5).
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from qioi.discovery.records import NoRecordError, RecordError, RefusedError
from qioi.kernel.extras import installs

#: Seconds that one call may take.
TIMEOUT = 10.0
#: A number property that is not set (UINT64_MAX).
UNSET = (1 << 64) - 1

#: States of a unit whose processes run.
ACTIVE = ("active", "reloading", "refreshing")

_NAME, _ROOT = "org.freedesktop.systemd1", "/org/freedesktop/systemd1"
_MANAGER, _UNIT = f"{_NAME}.Manager", f"{_NAME}.Unit"
#: Signals that are kept until they are looked at; when there are more, everything may have changed.
_SIGNALS = 256


class SystemdError(RecordError):
    """systemd does not answer, or refuses; the message is one line."""


class SystemdRefusedError(SystemdError, RefusedError):
    """systemd answers, but not this one question."""


class NoUnitError(NoRecordError):
    """systemd knows no such unit."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit and where D-Bus has it."""

    name: str
    active: bool
    path: str

    @property
    def interface(self) -> str:
        """Name of the interface that has what is special to units of its type."""
        return f"{_NAME}.{self.name.rpartition('.')[2].capitalize()}"


class Systemd:
    """A connection. Not to be shared between threads, except for :meth:`hang_up`."""

    def __init__(self) -> None:
        try:
            from jeepney.io.blocking import open_dbus_connection
        except ImportError:
            raise SystemdError(f"the D-Bus library is not installed: {installs('systemd')}") from None
        self._signals: deque[Any] = deque(maxlen=_SIGNALS)
        with translated():
            self._bus = open_dbus_connection("SYSTEM", auth_timeout=TIMEOUT)

    def close(self) -> None:
        """Close the connection."""
        with suppress(OSError):
            self._bus.close()

    def hang_up(self) -> None:
        """Have whoever waits for signals end, from another thread."""
        with suppress(OSError):
            self._bus.sock.shutdown(socket.SHUT_RDWR)

    def units(self, patterns: Iterable[str]) -> list[Unit]:
        """List the units in memory whose names match one of the shell patterns."""
        (rows,) = self._call(_ROOT, _MANAGER, "ListUnitsByPatterns", "asas", ([], list(patterns)))
        return [Unit(str(row[0]), row[3] in ACTIVE, str(row[6])) for row in rows]

    def unit(self, name: str) -> Unit:
        """Find one unit, also one that is not running, or whose properties cannot be set as it is masked."""
        (path,) = self._call(_ROOT, _MANAGER, "LoadUnit", "s", (name,))
        if self.get(Unit(name, False, str(path)), "LoadState", _UNIT) == "not-found":
            raise NoUnitError
        return Unit(name, self.get(Unit(name, False, str(path)), "ActiveState", _UNIT) in ACTIVE, str(path))

    def get(self, unit: Unit, name: str, interface: str | None = None) -> Any:
        """Give one property of a unit."""
        arguments = (interface or unit.interface, name)
        ((_, value),) = self._call(unit.path, "org.freedesktop.DBus.Properties", "Get", "ss", arguments)
        return value

    def set(self, name: str, numbers: Mapping[str, int]) -> None:
        """Set number properties until the next boot, as `systemctl set-property --runtime` does.

        On return the unit's group has them.
        """
        properties = [(key, ("t", value)) for key, value in numbers.items()]
        self._call(_ROOT, _MANAGER, "SetUnitProperties", "sba(sv)", (name, True, properties))
        # It answers this call before it writes the group, and the next one after that: the write waits in a queue that
        # is emptied before another message is looked at (systemd's src/core/cgroup.c, manager_loop in manager.c).
        self._call(_ROOT, "org.freedesktop.DBus.Peer", "Ping", "", ())

    def subscribe(self) -> None:
        """Ask for signals about all units."""
        from jeepney import MatchRule, message_bus

        jobs = MatchRule(type="signal", interface=_MANAGER, member="JobRemoved", path=_ROOT)
        states = MatchRule(
            type="signal",
            interface="org.freedesktop.DBus.Properties",
            member="PropertiesChanged",
            path_namespace=f"{_ROOT}/unit",
        )
        states.add_arg_condition(0, _UNIT)
        reloads = MatchRule(type="signal", interface=_MANAGER, member="Reloading", path=_ROOT)
        for rule in (jobs, states, reloads):
            self._bus.filter(rule, queue=self._signals)
            with translated():
                self._check(self._bus.send_and_get_reply(message_bus.AddMatch(rule), timeout=TIMEOUT))
        self._call(_ROOT, _MANAGER, "Subscribe", "", ())

    def wait(self, seconds: float, matters: Callable[[str], bool]) -> bool:
        """Wait until something has happened to a unit that ``matters``, at most so long; say whether it has.

        After a daemon-reload it may have happened to any.
        """
        deadline = time.monotonic() + seconds
        with translated():
            while True:
                many = len(self._signals) == _SIGNALS
                names = [name_of(signal) for signal in self._signals]
                self._signals.clear()
                if many or any(name is None or matters(name) for name in names):
                    return True
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return False
                with suppress(TimeoutError):
                    self._bus.recv_messages(timeout=remaining)

    def _call(self, path: str, interface: str, method: str, signature: str, body: tuple[Any, ...]) -> tuple[Any, ...]:
        from jeepney import DBusAddress, new_method_call

        message = new_method_call(DBusAddress(path, _NAME, interface), method, signature or None, body)
        with translated():
            return self._check(self._bus.send_and_get_reply(message, timeout=TIMEOUT))

    def _check(self, reply: Any) -> tuple[Any, ...]:
        from jeepney import HeaderFields, MessageType

        if reply.header.message_type is MessageType.error:
            name = reply.header.fields.get(HeaderFields.error_name, "")
            if name == f"{_NAME}.NoSuchUnit":
                raise NoUnitError
            text = reply.body[0] if reply.body else name
            # The bus itself answers where systemd is away.
            of_bus = reply.header.fields.get(HeaderFields.sender) == "org.freedesktop.DBus"
            kind = SystemdError if of_bus else SystemdRefusedError
            raise kind(f"systemd: {(str(text).splitlines() or [''])[0][:200]}")
        return tuple(reply.body)


@contextmanager
def translated() -> Iterator[None]:
    """Turn the library's errors into ours."""
    try:
        yield
    except TimeoutError:
        raise SystemdError(f"systemd: no answer over D-Bus in {TIMEOUT:g} s") from None
    except OSError as error:
        raise SystemdError(f"systemd: D-Bus: {error.strerror or error}") from None
    except (ValueError, KeyError) as error:
        raise SystemdError(f"systemd: D-Bus: {type(error).__name__}: {str(error)[:160]}") from None


def name_of(signal: Any) -> str | None:
    """Name the unit that a signal is about; ``None`` where it is about all of them."""
    from jeepney import HeaderFields

    member = signal.header.fields[HeaderFields.member]
    if member == "Reloading":
        return None
    if member == "JobRemoved":
        return str(signal.body[2])
    return unescape(str(signal.header.fields[HeaderFields.path]).rpartition("/")[2])


def unescape(label: str) -> str:
    """Turn the last part of an object path into a unit's name: ``_2e`` stands for a dot."""
    parts = label.split("_")
    return parts[0] + "".join(chr(int(part[:2], 16)) + part[2:] for part in parts[1:])
