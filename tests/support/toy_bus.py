"""A system bus that answers as systemd does."""

from __future__ import annotations

from typing import Any

import jeepney
import pytest

from qioi.discovery.systemd import UNSET

NAME = "peer.service"
SYSTEMD, BUS = ":1.0", "org.freedesktop.DBus"


class ToyBus:
    """A system bus with one unit of systemd's, in real messages.

    Setting its properties fails with ``error``. systemd refuses to load a unit of the name ``refused``.
    """

    def __init__(self) -> None:
        self.state, self.weight = "loaded", 100
        self.error: tuple[str, str] | None = None
        self.sender = SYSTEMD
        self.refused = ""

    def send_and_get_reply(self, message: Any, timeout: float) -> Any:
        fields = jeepney.HeaderFields
        method, body = message.header.fields[fields.member], message.body
        message.header.serial = 1
        if method == "SetUnitProperties" and self.error is not None:
            return self._refuse(message, *self.error)
        if method == "SetUnitProperties":
            self.weight = dict(body[2])["CPUWeight"][1]
        if method == "LoadUnit" and body[0] == self.refused:
            return self._refuse(message, "org.freedesktop.DBus.Error.AccessDenied", "It is so.")
        if method == "LoadUnit":
            return jeepney.new_method_return(message, "o", ("/unit",))
        if method == "Get":
            weights = {"CPUWeight": ("t", self.weight), "CPUShares": ("t", UNSET)}
            values = {"LoadState": ("s", self.state), "ActiveState": ("s", "active"), **weights}
            return jeepney.new_method_return(message, "v", (values[body[1]],))
        return jeepney.new_method_return(message)

    def _refuse(self, message: Any, name: str, text: str) -> Any:
        reply = jeepney.new_error(message, name, "s", (text,))
        reply.header.fields[jeepney.HeaderFields.sender] = self.sender
        return reply

    def close(self) -> None: ...


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> ToyBus:
    """systemd, for whoever connects to the bus."""
    bus = ToyBus()
    monkeypatch.setattr("jeepney.io.blocking.open_dbus_connection", lambda *args, **kwargs: bus)
    return bus
