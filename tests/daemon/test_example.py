"""deploy/systemd/qioi.example.yaml: it is accepted, and it names every key there is."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel

from qioi.config import ComponentConfig, FileConfig, MetricsConfig, OwnConfig, PolicyConfig, load_config
from qioi.kubernetes.section import KubernetesConfig
from qioi.sections import ContainerdConfig, DockerConfig, PodmanConfig, SelectConfig, SystemdConfig, UnitConfig

EXAMPLE = Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "qioi.example.yaml"


def test_it_is_accepted() -> None:
    config = load_config(EXAMPLE)
    assert [one.name for one in config.components] == ["peer0-org1", "orderer1"]
    assert config.policies["mychannel"].threshold == 500


def test_every_key_is_explained_and_no_other() -> None:
    written = set(re.findall(r"^[ #-]*([a-z0-9_]+):", EXAMPLE.read_text(), re.MULTILINE))
    models: list[type[BaseModel]] = [
        FileConfig, ComponentConfig, DockerConfig, PodmanConfig, ContainerdConfig, SelectConfig, SystemdConfig,
        UnitConfig, PolicyConfig, MetricsConfig, OwnConfig, KubernetesConfig,
    ]  # fmt: skip
    assert written - {"mychannel"} == {key for model in models for key in model.model_fields}
