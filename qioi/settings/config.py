"""The configuration file: YAML, checked strictly, and every problem reported at once.

A problem is one line: file, key, value, and what is accepted. The daemon does not start with a wrong file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator

from qioi.controller.laws.thresholds import AUTO
from qioi.controller.policy import Policy
from qioi.discovery.recognise import organisation
from qioi.model import MAX_SHARES, MIN_SHARES, Component, Credentials, Role
from qioi.model.counting import Count
from qioi.settings.contradictions import contradictions, shares_apart
from qioi.settings.documents import MAPPING, ConfigError, check, describe, read_json, read_yaml
from qioi.settings.kubernetes import KubernetesConfig
from qioi.settings.salvage import Place, sift
from qioi.settings.sections import (
    DISCOVERIES,
    Channel,
    ContainerdConfig,
    DockerConfig,
    File,
    Name,
    PodmanConfig,
    RoleName,
    Strict,
    SystemdConfig,
    inside_the_mount,
    web_address,
)

Shares = Annotated[int, Field(ge=MIN_SHARES, le=MAX_SHARES)]

STATE_DIR = Path("/run/qioi")
RECORD_DIR = Path("/var/lib/qioi")


def groups_pattern(pattern: str) -> str:
    """Accept a shell pattern for cgroup paths. ``**`` within a part looks as if it fitted further levels, too."""
    inside_the_mount(pattern)
    if any("**" in part and part != "**" for part in pattern.split("/")):
        raise ValueError("accepted is `*` within a part of the path, and `**` as a whole part, for any levels")
    return pattern


def metric_name(name: str) -> str:
    """Accept the name of a Prometheus metric."""
    if not re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", name):
        raise ValueError("accepted is a metric's name, as its page shows it")
    return name


def owed(value: object) -> float | str:
    """Accept a number of transactions per second, or the word for a learned one."""
    if value == AUTO:
        return AUTO
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ValueError(f"accepted is greater than 0 (transactions per second), or {AUTO}")
    return float(value)


def label_values(value: object) -> str | list[str]:
    """Accept a text, or some of them: each by itself would be a problem of its own to pydantic."""
    if isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        return value
    raise ValueError("accepted is a text, or a list of texts (quote numbers)")


class TlsConfig(Strict):
    """How an https endpoint is asked: trusted authorities, our certificate and its key."""

    ca: File | None = None
    certificate: File | None = None
    key: File | None = None


class ComponentConfig(Strict):
    """One component of a fixed list, or of lab.json."""

    name: Name
    role: RoleName
    cgroup: Annotated[str, AfterValidator(inside_the_mount)]
    log: File | None = None
    log_format: Literal["plain", "docker-json", "cri"] = "plain"
    metrics_url: Annotated[str, AfterValidator(web_address)] | None = None
    metrics_tls: TlsConfig = TlsConfig()
    source: Literal["log", "metrics", "auto"] = "auto"
    channels: list[Channel] = Field(default_factory=list)
    organisation: Name | None = None


class ThroughputConfig(Strict):
    """What counts as a channel's commits: a counter on the pages of its components' ``metrics_url``."""

    metric: Annotated[str, AfterValidator(metric_name)]
    labels: dict[str, Annotated[str | list[str], PlainValidator(label_values)]] = Field(default_factory=dict)
    combine: Literal["sum", "max"] = "sum"

    def count(self) -> Count:
        """Give it as the monitor takes it."""
        labels = {name: (value,) if isinstance(value, str) else tuple(value) for name, value in self.labels.items()}
        return Count(self.metric, labels, self.combine)


class PolicyConfig(Strict):
    """A channel's policy. What it leaves out comes from ``defaults``, and then from the law."""

    threshold: Annotated[float | str, PlainValidator(owed)] | None = None
    law: Literal["proportional", "adaptive"] | None = None
    k: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] | None = None
    default: Shares | None = None
    floor: Shares | None = None
    ceiling: Shares | None = None
    priority: Annotated[int, Field(ge=-1000, le=1000)] | None = None
    beyond: Literal["neighbours", "ledger"] | None = None
    throughput: ThroughputConfig | None = None


class MetricsConfig(Strict):
    """Where Prometheus finds the metrics; port 0 is off."""

    listen: Name = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 9464


class OwnConfig(Strict):
    """The daemon's own protection: its priority, and the shares of the group that it runs in."""

    nice: Annotated[int, Field(ge=-20, le=19)] | None = -10
    realtime: bool = True
    shares: Shares | None = None


def switched_off(value: object) -> object:
    """Turn YAML's ``off``, which is a boolean, back into the word."""
    return "off" if value is False else value


def said(value: object) -> object:
    """Refuse a section's name with nothing behind it: its writer meant to have that section."""
    if value is None:
        raise ValueError(f"accepted is {MAPPING}, {{}} for none")
    return value


class FileConfig(Strict):
    """The file's keys, as users write them."""

    period: Annotated[float, Field(ge=0.1, le=60, allow_inf_nan=False)] = 1.0
    lab: File | None = None
    components: list[ComponentConfig] = Field(default_factory=list)
    docker: Annotated[DockerConfig | None, BeforeValidator(said)] = None
    podman: Annotated[PodmanConfig | None, BeforeValidator(said)] = None
    containerd: Annotated[ContainerdConfig | None, BeforeValidator(said)] = None
    systemd: Annotated[SystemdConfig | None, BeforeValidator(said)] = None
    kubernetes: Annotated[KubernetesConfig | None, BeforeValidator(said)] = None
    channels: dict[Channel, PolicyConfig] = Field(default_factory=dict)
    defaults: PolicyConfig = PolicyConfig()
    actuator: Literal["auto", "libcgroup", "files", "docker"] = "auto"
    state_dir: File = str(STATE_DIR)  # in memory: a disk may take seconds to answer when its threads starve
    record_dir: File | None = None
    socket: File | None = None
    metrics: MetricsConfig = MetricsConfig()
    own: OwnConfig = OwnConfig()
    boost_cap: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] | None = None
    neighbours_keep: Annotated[float, Field(ge=0, le=0.9, allow_inf_nan=False)] = 0.1
    slices: Annotated[Literal["off", "auto", "required"], BeforeValidator(switched_off)] = "off"
    slices_before_6_15: bool = False
    best_effort: list[Annotated[str, AfterValidator(groups_pattern)]] = Field(default_factory=list)
    mine: list[Annotated[str, AfterValidator(groups_pattern)]] = Field(default_factory=list)
    on_exit: Literal["restore", "keep"] = "restore"
    dry_run: bool = False


class LabFile(BaseModel):
    """The part of a lab's lab.json that the daemon reads."""

    model_config = ConfigDict(extra="ignore", strict=True)

    components: list[ComponentConfig]


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration as the daemon uses it: with the lab's components, and every policy complete."""

    file: Path
    period: float
    components: tuple[Component, ...]
    docker: DockerConfig | None
    podman: PodmanConfig | None
    containerd: ContainerdConfig | None
    systemd: SystemdConfig | None
    kubernetes: KubernetesConfig | None
    policies: Mapping[str, Policy]
    throughput: Mapping[str, Count]
    defaults: PolicyConfig
    actuator: str
    state_dir: Path
    record_dir: Path
    socket: Path
    metrics: MetricsConfig
    own: OwnConfig
    boost_cap: float | None
    neighbours_keep: float
    slices: str
    slices_before_6_15: bool
    best_effort: tuple[str, ...]
    mine: tuple[str, ...]
    on_exit: str
    dry_run: bool

    @property
    def discovers(self) -> bool:
        """Whether components are found while running, beside those that are listed."""
        return discovers(self) or bool(self.mine)


def load_config(path: Path) -> Config:
    """Read and check a configuration file; ConfigError names every problem found."""
    config, problems = survey(path)
    if config is None or problems:
        raise ConfigError(problems)
    return config


def survey(path: Path) -> tuple[Config | None, list[str]]:
    """Read a file and name every problem. What is wrong is left out of the configuration; ``None``: nothing is left."""
    try:
        document = read_yaml(path)
    except ConfigError as error:
        return None, list(error.problems)
    raw, wrong, left_out = sift(FileConfig, document)
    problems = [describe(path, one, FileConfig) for one in wrong]
    if raw is None:
        return None, problems
    listed = list(raw.components)
    if raw.lab is not None:
        try:
            listed += read_lab(path.parent / raw.lab)
        except ConfigError as error:
            problems, left_out = [*problems, *error.problems], {*left_out, ("lab",)}
    components = tuple(component(one, path.parent) for one in listed)
    policies = {
        channel: policy(channel, raw.channels.get(channel, PolicyConfig()), raw.defaults)
        for channel in dict.fromkeys([*raw.channels, *(name for one in components for name in one.channels)])
    }
    found = [*contradictions(components, policies, discovers(raw), left_out)]
    named_later = discovers(raw) or any(not one.channels for one in components)  # or logs may name a channel
    found += shares_apart(policies, policy("", PolicyConfig(), raw.defaults) if named_later else None, left_out)
    problems += [f"{path}: {problem}" for problem in (*found, *conflicts(raw, listed, left_out))]
    return complete(path, raw, components, policies), problems


def conflicts(raw: FileConfig, listed: Iterable[ComponentConfig], left_out: Set[Place]) -> Iterator[str]:
    """Find keys that exclude or need each other. Keys in ``left_out`` were wrong by themselves, and count as given."""
    elsewhere = (raw.docker, raw.podman, raw.containerd, raw.systemd)
    alone = (*listed, *raw.channels, *raw.mine, *(one for one in elsewhere if one is not None))
    if raw.kubernetes is not None and (alone or raw.defaults != PolicyConfig()):
        others = "components, lab, docker, podman, containerd, systemd, channels, defaults and mine"
        yield f"kubernetes: {others}: accepted without a cluster only: there, components are pods, clients too, and " \
              "channels IsolationPolicy objects"  # fmt: skip
    metered = [one for one in listed if one.metrics_url is not None and one.source != "log"]
    for channel in counted(raw, raw.channels) if listed and not discovers(raw) and not left_out else ():
        if not any(not one.channels or channel in one.channels for one in metered):
            yield f"channels.{channel}.throughput: no component with a `metrics_url` serves it: accepted is one or more"
    if raw.actuator == "docker" and raw.docker is None and ("docker",) not in left_out:
        yield "actuator: docker: accepted together with a section `docker` only"
    for one in listed if not any(place[-1] in ("log", "metrics_url") for place in left_out) else ():
        if one.source == "metrics" and one.metrics_url is None:
            yield f"components: {one.name}: source metrics: accepted together with a `metrics_url` only"
        if one.source == "log" and one.log is None:
            yield f"components: {one.name}: source log: accepted together with a `log` only"
        if one.metrics_tls != TlsConfig() and not (one.metrics_url or "").startswith("https://"):
            yield f"components: {one.name}: metrics_tls: accepted together with a `metrics_url` of https only"
        if (one.metrics_tls.certificate is None) != (one.metrics_tls.key is None):
            yield f"components: {one.name}: metrics_tls: certificate and key: accepted together only"


def complete(path: Path, raw: FileConfig, components: tuple[Component, ...], policies: Mapping[str, Policy]) -> Config:
    """Put everything into one value. Relative paths begin at the file's folder."""
    state_dir = path.parent / raw.state_dir
    return Config(
        file=path,
        period=float(raw.period),
        components=components,
        docker=raw.docker,
        podman=raw.podman,
        containerd=raw.containerd,
        systemd=raw.systemd,
        kubernetes=raw.kubernetes and beside(path.parent, raw.kubernetes),
        policies=policies,
        throughput=counted(raw, policies),
        defaults=raw.defaults,
        actuator=raw.actuator,
        state_dir=state_dir,
        record_dir=path.parent / raw.record_dir if raw.record_dir else default_record_dir(state_dir),
        socket=path.parent / raw.socket if raw.socket else state_dir / "qioi.sock",
        metrics=raw.metrics,
        own=raw.own,
        boost_cap=raw.boost_cap,
        neighbours_keep=float(raw.neighbours_keep),
        slices=raw.slices,
        slices_before_6_15=raw.slices_before_6_15,
        best_effort=tuple(raw.best_effort),
        mine=tuple(raw.mine),
        on_exit=raw.on_exit,
        dry_run=raw.dry_run,
    )


def beside(folder: Path, section: KubernetesConfig) -> KubernetesConfig:
    """Have the section's relative paths begin at a folder."""
    named = {key: getattr(section, key) for key in ("ca", "token")}
    return section.model_copy(update={key: str(folder / path) for key, path in named.items() if path})


def default_record_dir(state_dir: Path) -> Path:
    """Give the folder for what must outlive a power cut: the default one, or a state folder that was named."""
    return RECORD_DIR if state_dir == STATE_DIR else state_dir


def component(raw: ComponentConfig, folder: Path) -> Component:
    """Make a component. A relative log path begins at the file that names it."""
    log = str(folder / raw.log) if raw.log and raw.source != "metrics" else None
    tls = {key: str(folder / file) for key, file in raw.metrics_tls.model_dump(exclude_none=True).items()}
    return Component(
        raw.name,
        Role(raw.role),
        raw.cgroup,
        tuple(raw.channels),
        log,
        raw.log_format,
        metrics_url=raw.metrics_url if raw.source != "log" else None,
        metrics_tls=Credentials(**tls),
        organisation=raw.organisation or organisation(raw.name, {}, {}),
    )


def policy(channel: str, own: PolicyConfig, defaults: PolicyConfig) -> Policy:
    """Complete a channel's policy."""
    given = {**defaults.model_dump(exclude_none=True), **own.model_dump(exclude_none=True)}
    given.pop("throughput", None)
    learned = given.get("threshold") == AUTO
    if learned:
        del given["threshold"]
    return Policy(channel, law=given.pop("law", "adaptive"), auto=learned, **given)


def counted(raw: FileConfig, channels: Iterable[str]) -> dict[str, Count]:
    """Give what counts for each channel that has a counter of its own, or by the defaults."""
    given = {name: raw.channels.get(name, PolicyConfig()).throughput or raw.defaults.throughput for name in channels}
    return {name: one.count() for name, one in given.items() if one is not None}


def discovers(config: FileConfig | Config) -> bool:
    """Whether parts of the ledger are found while running, beside those that are listed."""
    return any(getattr(config, section) is not None for section in DISCOVERIES)


def read_lab(folder: Path) -> list[ComponentConfig]:
    """Read the components of a running lab."""
    path = folder / "lab.json"
    try:
        document = read_json(path)
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror}: accepted is the folder of a lab that is up"]) from None
    except ValueError as error:
        raise ConfigError([f"{path}: {error}: accepted is the file that `qioi lab up` writes"]) from None
    return check(LabFile, document, path).components
