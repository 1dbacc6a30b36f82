"""Contradictions: what is wrong with a configuration of which each single value is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set

from qioi.controller.policy import Policy
from qioi.model import MAX_SHARES, MIN_SHARES, Component
from qioi.settings.salvage import Place
from qioi.settings.sections import DISCOVERIES


def contradictions(
    components: tuple[Component, ...], policies: Mapping[str, Policy], discovering: bool, left_out: Set[Place]
) -> Iterator[str]:
    """Name them. When ``discovering``, more components may be found later.

    Of what was ``left_out``, since it was wrong by itself, nothing is said to be missing.
    """
    discovering = discovering or any(place[0] in DISCOVERIES for place in left_out)
    whole = not any(place[0] in ("components", "channels", "defaults", "lab") for place in left_out)
    if whole and not components and not discovering:
        sections = " or ".join(f"`{section}`" for section in DISCOVERIES)
        yield f"components: none: accepted is at least one, here, in the folder named by `lab`, or a section {sections}"
    for key, names in (("name", [c.name for c in components]), ("cgroup", [c.cgroup for c in components])):
        for name in (name for name, count in Counter(names).items() if count > 1):
            yield f"components: {key} {name!r}: more than once: accepted is one component each"
    if whole and components and not policies and not discovering:
        yield "channels: none: accepted is at least one, here or among the channels of a component"
    for channel, one in policies.items():
        key = f"channels.{channel}"
        owed = one.threshold is not None or one.auto or spoilt(channel, left_out, "law", "threshold")
        if not discovering and one.kind.needs_threshold and not owed:
            yield f"{key}.threshold: missing: law {one.law} needs a number of transactions per second > 0"
        logged = [c for c in components if (c.log or c.metrics_url) and (not c.channels or channel in c.channels)]
        if whole and components and not discovering and not logged:
            yield f"{key}: no component with a `log` serves it, nor one with a `metrics_url`: accepted is either"


def shares_apart(policies: Mapping[str, Policy], defaults: Policy | None, left_out: Set[Place]) -> Iterator[str]:
    """Name policies of which the floor, the default and the ceiling are not in this order.

    ``defaults`` is the policy of channels that may be found later; a channel that has its shares repeats no problem.
    """
    if defaults is not None and not spoilt("", left_out, "floor", "default", "ceiling"):
        yield from (f"defaults.{problem}" for problem in out_of_order(defaults))
    for channel, one in policies.items():
        known = defaults is not None and shares(one) == shares(defaults)
        if not known and not spoilt(channel, left_out, "floor", "default", "ceiling"):
            yield from (f"channels.{channel}.{problem}" for problem in out_of_order(one))


def out_of_order(one: Policy) -> Iterator[str]:
    """Name the share of a policy that is above its ceiling, or else below its floor."""
    least, most = one.floor or MIN_SHARES, one.ceiling or MAX_SHARES
    if least > most:
        yield f"floor: {least}: accepted is at most the ceiling, {most}"
    elif one.default is not None and one.default > most:
        yield f"default: {one.default}: accepted is at most the ceiling, {most}"
    elif one.default is not None and one.default < least:
        yield f"default: {one.default}: accepted is at least the floor, {least}"


def shares(one: Policy) -> tuple[int | None, ...]:
    """Give what a policy says of shares."""
    return one.floor, one.default, one.ceiling


def spoilt(channel: str, left_out: Set[Place], *keys: str) -> bool:
    """Whether one of a policy's values was left out, its own or that of the defaults."""
    places: list[Place] = [("defaults",), ("channels",), ("channels", channel)]
    places += [place for key in keys for place in (("defaults", key), ("channels", channel, key))]
    return any(place in left_out for place in places)
