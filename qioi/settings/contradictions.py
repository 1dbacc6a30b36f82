"""Contradictions: what is wrong with a configuration of which each single value is right.

There is a rule for each. Keys that were left out, since they were wrong by themselves, count as given: nothing is said
to be missing because of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from qioi.controller.policy import Policy
from qioi.model import MAX_SHARES, MIN_SHARES, Component, Role
from qioi.settings.file import ComponentConfig, FileConfig, PolicyConfig, TlsConfig, counted
from qioi.settings.salvage import Place
from qioi.settings.sections import DISCOVERIES


@dataclass(frozen=True, slots=True)
class Watched:
    """What a configuration has the daemon watch.

    ``discovers`` says that more components may be found later, and ``left_out`` are places in the file. ``later`` is
    the policy of channels that may be found later; ``None``: none will be.
    """

    components: tuple[Component, ...]
    policies: Mapping[str, Policy]
    discovers: bool
    left_out: Set[Place] = field(default_factory=frozenset)
    later: Policy | None = None

    @property
    def may_grow(self) -> bool:
        """Whether components may be found later, or would be if what was left out were right."""
        return self.discovers or any(place[0] in DISCOVERIES for place in self.left_out)

    @property
    def is_whole(self) -> bool:
        """Whether all components and policies of the file are here."""
        return not any(place[0] in ("components", "channels", "defaults", "lab") for place in self.left_out)


@dataclass(frozen=True, slots=True)
class Written:
    """A file's keys, and all components that it lists, those of its lab included."""

    keys: FileConfig
    listed: tuple[ComponentConfig, ...]
    discovers: bool
    left_out: Set[Place]

    @property
    def sourced(self) -> tuple[ComponentConfig, ...]:
        """Give the listed components; none where a ``log`` or a ``metrics_url`` was left out, which might be theirs."""
        return () if any(place[-1] in ("log", "metrics_url") for place in self.left_out) else self.listed


def contradictions(watched: Watched) -> Iterator[str]:
    """Name what is wrong with what is watched."""
    for rule in RULES:
        yield from rule(watched)


def conflicts(written: Written) -> Iterator[str]:
    """Name the keys of a file that exclude or need each other."""
    for rule in KEY_RULES:
        yield from rule(written)


# ---- what is watched


def components_missing(watched: Watched) -> Iterator[str]:
    """There is a component, or one may be found."""
    if watched.is_whole and not watched.components and not watched.may_grow:
        sections = " or ".join(f"`{section}`" for section in DISCOVERIES)
        yield f"components: none: accepted is at least one, here, in the folder named by `lab`, or a section {sections}"


def components_alike(watched: Watched) -> Iterator[str]:
    """No two components have a name or a group in common."""
    for key in ("name", "cgroup"):
        for value, count in Counter(getattr(one, key) for one in watched.components).items():
            if count > 1:
                yield f"components: {key} {value!r}: more than once: accepted is one component each"


def channels_missing(watched: Watched) -> Iterator[str]:
    """There is a channel, or one may be found: another component's, or by what tells of a component's commits."""
    peers = (one for one in watched.components if one.role is Role.PEER and not one.channels)
    may_grow = watched.may_grow or any(one.log or one.metrics_url for one in peers)
    if watched.is_whole and watched.components and not watched.policies and not may_grow:
        yield "channels: none: accepted is at least one, here or among the channels of a component"


def thresholds_missing(watched: Watched) -> Iterator[str]:
    """A law that raises by what a channel is owed is told that."""
    for channel, one in watched.policies.items():
        owed = one.threshold is not None or one.auto or spoilt(channel, watched.left_out, "law", "threshold")
        if not watched.may_grow and one.kind.needs_threshold and not owed:
            need = f"law {one.law} needs a number of transactions per second > 0"
            yield f"channels.{channel}.threshold: missing: {need}"


def channels_unserved(watched: Watched) -> Iterator[str]:
    """A channel's commits are to be seen somewhere."""
    if not watched.is_whole or not watched.components or watched.may_grow:
        return
    sources = [one for one in watched.components if one.log or one.metrics_url]
    for channel in watched.policies:
        if not any(not one.channels or channel in one.channels for one in sources):
            yield (
                f"channels.{channel}: no component with a `log` serves it, nor one with a `metrics_url`: accepted is "
                "either"
            )


def shares_apart(watched: Watched) -> Iterator[str]:
    """The floor, the default and the ceiling are in this order; a channel with the defaults' repeats no problem."""
    later, left_out = watched.later, watched.left_out
    if later is not None and not spoilt("", left_out, "floor", "default", "ceiling"):
        yield from (f"defaults.{problem}" for problem in out_of_order(later))
    for channel, one in watched.policies.items():
        known = later is not None and shares(one) == shares(later)
        if not known and not spoilt(channel, left_out, "floor", "default", "ceiling"):
            yield from (f"channels.{channel}.{problem}" for problem in out_of_order(one))


RULES: tuple[Callable[[Watched], Iterator[str]], ...] = (
    components_missing,
    components_alike,
    channels_missing,
    thresholds_missing,
    channels_unserved,
    shares_apart,
)


# ---- the file's keys


def cluster_not_alone(written: Written) -> Iterator[str]:
    """A cluster says itself what a file says elsewhere."""
    keys = written.keys
    elsewhere = (one for one in (keys.docker, keys.podman, keys.containerd, keys.systemd) if one is not None)
    alone = (*written.listed, *keys.channels, *keys.mine, *elsewhere)
    if keys.kubernetes is not None and (alone or keys.defaults != PolicyConfig()):
        others = "components, lab, docker, podman, containerd, systemd, channels, defaults and mine"
        yield (
            f"kubernetes: {others}: accepted without a cluster only: there, components are pods, clients too, and "
            "channels IsolationPolicy objects"
        )


def counters_unserved(written: Written) -> Iterator[str]:
    """A counter of commits is on some component's page."""
    if not written.listed or written.discovers or written.left_out:
        return
    metered = [one for one in written.listed if one.metrics_url is not None and one.source != "log"]
    for channel in counted(written.keys, written.keys.channels):
        if not any(not one.channels or channel in one.channels for one in metered):
            yield f"channels.{channel}.throughput: no component with a `metrics_url` serves it: accepted is one or more"


def actuator_unknown(written: Written) -> Iterator[str]:
    """The engine that is to move shares is named."""
    if written.keys.actuator == "docker" and written.keys.docker is None and ("docker",) not in written.left_out:
        yield "actuator: docker: accepted together with a section `docker` only"


def sources_missing(written: Written) -> Iterator[str]:
    """A component has the source that it is to be read from."""
    for one in written.sourced:
        if one.source == "metrics" and one.metrics_url is None:
            yield f"components: {one.name}: source metrics: accepted together with a `metrics_url` only"
        if one.source == "log" and one.log is None:
            yield f"components: {one.name}: source log: accepted together with a `log` only"


def tls_unused(written: Written) -> Iterator[str]:
    """What https takes is given for https only, and a certificate with its key."""
    for one in written.sourced:
        if one.metrics_tls != TlsConfig() and not (one.metrics_url or "").startswith("https://"):
            yield f"components: {one.name}: metrics_tls: accepted together with a `metrics_url` of https only"
        if (one.metrics_tls.certificate is None) != (one.metrics_tls.key is None):
            yield f"components: {one.name}: metrics_tls: certificate and key: accepted together only"


KEY_RULES: tuple[Callable[[Written], Iterator[str]], ...] = (
    cluster_not_alone,
    counters_unserved,
    actuator_unknown,
    sources_missing,
    tls_unused,
)


# ---- what the rules share


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
