"""The configuration file: YAML, checked strictly, and every problem reported at once.

A problem is one line: file, key, value, and what is accepted. The daemon does not start with a wrong file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from qioi.controller.laws.thresholds import AUTO
from qioi.controller.policy import Policy
from qioi.discovery.recognise import organisation
from qioi.model import Component, Credentials, Role
from qioi.model.counting import Count
from qioi.settings.contradictions import Watched, Written, conflicts, contradictions
from qioi.settings.documents import ConfigError, check, describe, read_json, read_yaml
from qioi.settings.file import STATE_DIR, ComponentConfig, FileConfig, MetricsConfig, OwnConfig, PolicyConfig, counted
from qioi.settings.kubernetes import KubernetesConfig
from qioi.settings.salvage import sift
from qioi.settings.sections import DISCOVERIES, ContainerdConfig, DockerConfig, PodmanConfig, SystemdConfig

RECORD_DIR = Path("/var/lib/qioi")


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


def load_config(path: Path, *, regular: bool = False) -> Config:
    """Read and check a configuration file; ConfigError names every problem found.

    ``regular``: what is no regular file is refused, and not waited for.
    """
    config, problems = survey(path, regular=regular)
    if config is None or problems:
        raise ConfigError(problems)
    return config


def survey(path: Path, *, regular: bool = False) -> tuple[Config | None, list[str]]:
    """Read a file and name every problem. What is wrong is left out of the configuration; ``None``: nothing is left."""
    try:
        document = read_yaml(path, regular=regular)
    except ConfigError as error:
        return None, list(error.problems)
    raw, wrong, left_out = sift(FileConfig, document)
    problems = [describe(path, one, FileConfig) for one in wrong]
    if raw is None:
        return None, problems
    listed = list(raw.components)
    if raw.lab is not None:
        try:
            listed += read_lab(path.parent / raw.lab, regular=regular)
        except ConfigError as error:
            problems, left_out = [*problems, *error.problems], {*left_out, ("lab",)}
    components = tuple(component(one, path.parent) for one in listed)
    policies = {
        channel: policy(channel, raw.channels.get(channel, PolicyConfig()), raw.defaults)
        for channel in dict.fromkeys([*raw.channels, *(name for one in components for name in one.channels)])
    }
    named_later = discovers(raw) or any(not one.channels for one in components)  # or logs may name a channel
    later = policy("", PolicyConfig(), raw.defaults) if named_later else None
    watched = Watched(components, policies, discovers(raw), left_out, later)
    written = Written(raw, tuple(listed), discovers(raw), left_out)
    problems += [f"{path}: {problem}" for problem in (*contradictions(watched), *conflicts(written))]
    return complete(path, raw, components, policies), problems


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


def discovers(config: FileConfig | Config) -> bool:
    """Whether parts of the ledger are found while running, beside those that are listed."""
    return any(getattr(config, section) is not None for section in DISCOVERIES)


def read_lab(folder: Path, *, regular: bool = False) -> list[ComponentConfig]:
    """Read the components of a running lab. ConfigError."""
    path = folder / "lab.json"
    try:
        document = read_json(path, regular=regular)
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror}: accepted is the folder of a lab that is up"]) from None
    except ValueError as error:
        raise ConfigError([f"{path}: {error}: accepted is the file that `qioi lab up` writes"]) from None
    return check(LabFile, document, path).components
