"""Which components serve a channel: looked up in every period, and found anew only when the components change."""

from __future__ import annotations

from collections.abc import Collection, Container

from qioi.model import Component, Role

#: Roles that are part of a ledger; a client only uses it.
PARTS = frozenset(Role) - {Role.CLIENT}


class Serving:
    """The names of the components that serve a channel and have one of ``roles``."""

    def __init__(self, roles: Container[Role] = PARTS) -> None:
        self._roles = roles
        self._components: Collection[Component] = ()
        self._names: dict[str, tuple[str, ...]] = {}

    def names(self, channel: str, components: Collection[Component]) -> tuple[str, ...]:
        """Name the components that serve a channel. The same object ``components`` is not searched twice."""
        if components is not self._components:
            self._components, self._names = components, {}
        if channel not in self._names:
            self._names[channel] = tuple(
                one.name
                for one in components
                if one.role in self._roles and (not one.channels or channel in one.channels)
            )
        return self._names[channel]
