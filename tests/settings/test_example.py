"""deploy/systemd/qioi.example.yaml: accepted, with every key there is, its range and its default; shorter examples."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from qioi.controller.policy import Policy
from qioi.discovery.containerd import DEFAULT_STATE
from qioi.model import CEILING
from qioi.settings.config import load_config
from qioi.settings.file import (
    ComponentConfig,
    FileConfig,
    MetricsConfig,
    OwnConfig,
    PolicyConfig,
    ThroughputConfig,
)
from qioi.settings.kubernetes import KubernetesConfig
from qioi.settings.salvage import sift
from qioi.settings.sections import ContainerdConfig, DockerConfig, PodmanConfig, SelectConfig, SystemdConfig, UnitConfig

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "deploy" / "systemd" / "qioi.example.yaml"
#: Keys whose values in it are nobody's default.
EXAMPLES = ("components", "channels")


def test_it_is_accepted() -> None:
    config = load_config(EXAMPLE)
    assert [one.name for one in config.components] == ["peer0-org1", "orderer1"]
    assert config.policies["mychannel"].threshold == 500


def test_every_key_is_explained_and_no_other() -> None:
    written = set(re.findall(r"^[ #-]*([a-z0-9_]+):", EXAMPLE.read_text(), re.MULTILINE))
    models: list[type[BaseModel]] = [
        FileConfig, ComponentConfig, DockerConfig, PodmanConfig, ContainerdConfig, SelectConfig, SystemdConfig,
        UnitConfig, PolicyConfig, ThroughputConfig, MetricsConfig, OwnConfig, KubernetesConfig,
    ]  # fmt: skip
    assert written - {"mychannel"} == {key for model in models for key in model.model_fields}


def test_what_is_no_example_is_the_default() -> None:
    written = {key: value for key, value in yaml.safe_load(EXAMPLE.read_text()).items() if key not in EXAMPLES}
    usual = FileConfig().model_dump()
    assert {**written, "slices": "off"} == {key: usual[key] for key in written} | {
        "defaults": {"priority": Policy("x", law="adaptive").priority},
        "own": {key: value for key, value in usual["own"].items() if key in written["own"]},
    }
    commented = dict(re.findall(r"^ *# +(\w+): ([^\s#]+)", EXAMPLE.read_text(), re.MULTILINE))
    assert int(commented["ceiling"]) == CEILING
    assert (float(commented["k"]), commented["fabric"]) == (Policy("x", law="proportional").k, "true")
    assert [commented[key] for key in ("socket", "state")] == ["/run/qioi/qioi.sock", DEFAULT_STATE]


@pytest.mark.parametrize(
    "model", [FileConfig, PolicyConfig, MetricsConfig, OwnConfig], ids=lambda model: model.__name__
)
def test_every_range_is_given_where_its_key_is(model: type[BaseModel]) -> None:
    for key, schema in model.model_json_schema()["properties"].items():
        words = explanation(key)
        for one in (schema, *schema.get("anyOf", ())):
            for bound in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
                if bound in one:
                    assert re.search(rf"(?<!\d)(?<!\d\.){one[bound]:g}(?!\.?\d)", words), (key, bound, one[bound])


def explanation(key: str) -> str:
    """The lines of a key: its own, with the comment above it and the one that goes on below."""
    lines = [*EXAMPLE.read_text().splitlines(), ""]
    (first, *_) = [number for number, line in enumerate(lines) if re.match(rf"[ #-]*{key}:", line)]
    last = first + 1
    while re.match(r" *#", lines[first - 1]) and not re.match(r"[ #-]*[a-z0-9_]+:", lines[first - 1]):
        first -= 1
    while re.match(r" {20,}#", lines[last]):
        last += 1
    return " ".join(lines[first:last])


def test_the_other_examples_are_accepted() -> None:
    """What README has of a channel goes into the package's own file, after the line of the dry run has been removed."""
    (channel,) = re.findall(r"`(channels: \{.*?\}\})`", (ROOT / "README.md").read_text())
    package = (ROOT / "deploy" / "debian" / "qioi.yaml").read_text()
    live = package.replace("dry_run: true\n", f"{channel}\n")
    assert live != package
    for number, text in enumerate((package, live)):
        document = yaml.safe_load(text)
        config, wrong, _ = sift(FileConfig, document)
        assert config is not None, number
        assert not wrong
