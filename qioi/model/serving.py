"""Who serves which channel: asked for in every period, and found out anew only when the components are others."""

from __future__ import annotations

from collections.abc import Collection, Container

from qioi.model import Component, Role

#: All that a ledger is made of; a client only uses it.
PARTS = frozenset(Role) - {Role.CLIENT}


class Serving:
    """The names of those that serve a channel, as far as they have one of some roles."""

    def __init__(self, roles: Container[Role] = PARTS) -> None:
        self._roles = roles
        self._components: Collection[Component] = ()
        self._names: dict[str, tuple[str, ...]] = {}

    def names(self, channel: str, components: Collection[Component]) -> tuple[str, ...]:
        """Name those of these components; the very same tuple or list is not looked through again."""
        if components is not self._components:
            self._components, self._names = components, {}
        if channel not in self._names:
            self._names[channel] = tuple(
                one.name
                for one in components
                if one.role in self._roles and (not one.channels or channel in one.channels)
            )
        return self._names[channel]
