"""Tell systemd the daemon's state by sd_notify(3): one datagram to the socket that systemd names.

Without systemd (no ``NOTIFY_SOCKET``) every call does nothing. A message that cannot be sent is dropped, so that the
loop never waits for systemd.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping


class Notifier:
    """Sends this process's state to systemd."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # A leading @ stands for the zero byte of the abstract namespace (sd_notify(3)).
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._watchdog = watchdog(environment) if address else None
        self._beaten = float("-inf")

    @property
    def pause(self) -> float:
        """The longest time in seconds between two beats: half of the watchdog's interval; infinite without one."""
        return self._watchdog / 2 if self._watchdog else float("inf")

    def ready(self, status: str) -> None:
        """Say that the daemon is ready, after its start or a reload."""
        self._send("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """Say that a reload begins; :meth:`ready` ends it."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Say that the daemon is stopping."""
        self._send("STOPPING=1", "STATUS=putting shares back")

    def beat(self, now: float) -> None:
        """Say that the loop is alive; at most four times per watchdog interval."""
        if self._watchdog and now - self._beaten >= self._watchdog / 4:
            self._beaten = now
            self._send("WATCHDOG=1")

    def _send(self, *assignments: str) -> None:
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.setblocking(False)
            line.sendto("\n".join(assignments).encode(), self._address)


def watchdog(environment: Mapping[str, str]) -> float | None:
    """Give the watchdog's interval in seconds (sd_watchdog_enabled(3)); ``None`` if this process has no watchdog."""
    try:
        if int(environment.get("WATCHDOG_PID", os.getpid())) != os.getpid():
            return None
        return int(environment["WATCHDOG_USEC"]) / 1e6 or None
    except (KeyError, ValueError):
        return None
