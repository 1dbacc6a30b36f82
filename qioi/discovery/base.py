"""What every discovery gives: the components that are there now. One implementation is a fixed list."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Protocol

from qioi.model import Component, Owner, Role, groups


@dataclass(frozen=True, slots=True)
class Found:
    """What is there at one time.

    ``thresholds`` are those that containers' labels name, by channel, in transactions per second.
    ``problems`` say, by what they are about, what could not be used and why; each is one line.
    ``owners`` name the records of groups above the components, by group. ``best_effort`` are groups of neighbours
    whose owners have labelled them so. ``complete`` says that whoever can name components has listed them once.
    """

    components: tuple[Component, ...] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    owners: Mapping[str, Owner] = field(default_factory=dict)
    best_effort: tuple[str, ...] = ()
    complete: bool = True


class Discovery(Protocol):
    """A source of components. It never lets the loop wait."""

    def found(self) -> Found:
        """Give what is there now: the same object as long as nothing has changed."""
        ...

    def close(self) -> None:
        """Stop looking."""
        ...


class Fixed:
    """The list that stands in the configuration."""

    def __init__(self, components: Iterable[Component]) -> None:
        self._found = Found(tuple(components))

    def found(self) -> Found:
        """Give the list."""
        return self._found

    def close(self) -> None:
        """Nothing is open."""


class Together:
    """Several discoveries as one. Who is named first wins, so a fixed list overrides what is found."""

    def __init__(self, *parts: Discovery) -> None:
        self._parts = parts
        self._last: tuple[Found, ...] = ()
        self._found = Found()

    def found(self) -> Found:
        """Join what all parts have found."""
        now = tuple(part.found() for part in self._parts)
        if len(now) != len(self._last) or any(new is not old for new, old in zip(now, self._last, strict=True)):
            self._last, self._found = now, join(now)
        return self._found

    def close(self) -> None:
        """Close every part."""
        for part in self._parts:
            part.close()


def join(parts: Iterable[Found]) -> Found:
    """Keep each control group once, and give each component a name of its own. A client holds no other component."""
    by_name: dict[str, Component] = {}
    taken: set[str] = set()
    thresholds: dict[str, float] = {}
    problems: dict[str, str] = {}
    owners: dict[str, Owner] = {}
    best_effort: dict[str, None] = {}
    complete = True
    for part in parts:
        for component in part.components:
            if component.cgroup in taken:
                continue
            taken.add(component.cgroup)
            name = free_name(component, by_name)
            by_name[name] = replace(component, name=name)
        for channel, threshold in part.thresholds.items():
            thresholds[channel] = max(threshold, thresholds.get(channel, threshold))
        problems.update(part.problems)
        owners.update(part.owners)
        best_effort.update(dict.fromkeys(part.best_effort))
        complete = complete and part.complete
    holders = set(holding(by_name.values()))
    problems.update({f"client {name}": "other components are in its group: it is none" for name in sorted(holders)})
    components = tuple(one for one in by_name.values() if one.name not in holders)
    return Found(components, thresholds, problems, owners, tuple(best_effort), complete)


def holding(components: Collection[Component]) -> Iterator[str]:
    """Name the clients in whose groups others than clients are: what a client uses is nobody's wait."""
    above = {group for one in components if one.role is not Role.CLIENT for group in groups.chain(one.cgroup)[1:]}
    return (one.name for one in components if one.role is Role.CLIENT and one.cgroup in above)


def free_name(component: Component, taken: Mapping[str, Component]) -> str:
    """Tell components of one name apart by their groups' ids (12 characters), or by a number where these are the same.

    An engine's group is called ``ID``, or ``docker-ID.scope`` with its own prefix.
    """
    if component.name not in taken:
        return component.name
    last = component.cgroup.rsplit("/", 1)[-1].removesuffix(".scope")
    name = f"{component.name}@{(last.rsplit('-', 1)[-1] or last)[:12]}"
    numbered = (f"{name}-{number}" for number in count(2))
    return next(one for one in chain((name,), numbered) if one not in taken)
