"""The configuration file's keys, as users write them, and what is accepted for each by itself.

What does not go together is in contradictions.py, what the daemon makes of it in config.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator

from qioi.controller.laws.thresholds import AUTO
from qioi.model import MAX_SHARES, MIN_SHARES
from qioi.model.counting import Count
from qioi.settings.documents import MAPPING
from qioi.settings.kubernetes import KubernetesConfig
from qioi.settings.sections import (
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
        raise ValueError(f"accepted is a number greater than 0 (transactions per second), or {AUTO}")
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
        raise ValueError(f"accepted is {MAPPING}, {{}} for one without keys")
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


def counted(raw: FileConfig, channels: Iterable[str]) -> dict[str, Count]:
    """Give what counts for each channel that has a counter of its own, or by the defaults."""
    given = {name: raw.channels.get(name, PolicyConfig()).throughput or raw.defaults.throughput for name in channels}
    return {name: one.count() for name, one in given.items() if one is not None}
