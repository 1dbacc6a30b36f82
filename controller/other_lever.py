"""A lever beside groups' files, which some components' shares are moved by instead: a pod's request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from qioi.controller.levels.wants import InForce
from qioi.model import Component, Decision


@dataclass(frozen=True, slots=True)
class Taken:
    """What another lever than groups' files has taken on.

    ``components`` are not for their groups' files; of those in ``made`` what is asked for has changed. The files of the
    groups in ``release`` are to be put back first. ``notes`` say why the files of some components are written after
    all.
    """

    components: frozenset[str] = frozenset()
    made: frozenset[str] = frozenset()
    release: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)


class OtherLever(Protocol):
    """Moves the shares of some components by other means than their groups' files: a pod's request."""

    def in_force(self, component: Component, force: InForce) -> InForce:
        """Give what is in force for a component, after what its groups say."""
        ...

    def take(self, decisions: Iterable[Decision]) -> Taken:
        """Carry out, soon, those of the decisions that are for it. Never waits."""
        ...


class NoOtherLever:
    """Where groups' files are all there is."""

    def in_force(self, component: Component, force: InForce) -> InForce:
        """As the groups say."""
        return force

    def take(self, decisions: Iterable[Decision]) -> Taken:
        """Take nothing."""
        return NOTHING_TAKEN


NOTHING_TAKEN = Taken()
NO_OTHER_LEVER = NoOtherLever()
