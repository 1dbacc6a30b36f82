"""What the chart takes of the daemon's own file, by its schema."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from qioi.settings.config import load_config
from qioi.settings.file import FileConfig

CHART = Path(__file__).parents[2] / "deploy/k8s/chart"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
#: What the chart writes itself, by values of its own; the state folder is a mount of the pod's.
WRITTEN = {"kubernetes", "period", "metrics", "state_dir", "dry_run"}
#: What is for other hosts: components and channels are the cluster's, and no engine's record outlives a boot.
ELSEWHERE = {
    "components", "lab", "docker", "podman", "containerd", "systemd", "channels", "defaults", "mine", "record_dir",
    "socket",
}  # fmt: skip


def test_every_key_of_the_daemons_file_that_holds_on_a_cluster_can_be_set() -> None:
    assert set(SCHEMA["properties"]["config"]["properties"]) == set(FileConfig.model_fields) - WRITTEN - ELSEWHERE


def test_the_charts_own_values_are_accepted() -> None:
    assert Draft7Validator(SCHEMA).is_valid(DEFAULTS)


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"boost_cap": 0.8, "neighbours_keep": 0, "on_exit": "keep", "actuator": "files"},
        {"slices": "auto", "slices_before_6_15": True, "best_effort": ["batch.slice/*"]},
        {"slices": False, "own": {"nice": None, "realtime": False, "shares": 2048}},
    ],
)
def test_the_chart_takes_what_the_daemon_takes(keys: dict[str, Any], tmp_path: Path) -> None:
    assert Draft7Validator(SCHEMA).is_valid({**DEFAULTS, "config": keys})
    file = tmp_path / "qioi.yaml"
    file.write_text(yaml.safe_dump({"kubernetes": {}, **keys}))
    load_config(file)


@pytest.mark.parametrize(
    "keys",
    [
        {"boost_cap": 1},
        {"neighbours_keep": 0.91},
        {"on_exit": "leave"},
        {"actuator": "docker"},
        {"actuator": "libcgroup"},  # the image has none
        {"slices": True},
        {"best_effort": "batch"},
        *({key: {}} for key in sorted(WRITTEN | ELSEWHERE)),
    ],
)
def test_the_chart_refuses_what_is_wrong_or_has_a_value_of_its_own(keys: dict[str, Any]) -> None:
    assert not Draft7Validator(SCHEMA).is_valid({**DEFAULTS, "config": keys})


@pytest.mark.parametrize(
    "values",
    [
        {"cgroupRoot": None},
        {"logs": "pods"},
        {"metricsPort": 80},  # the pod's daemon has no right to it
        {"extraVolumes": {"name": "docker"}},
        {"extraVolumes": [{"hostPath": {"path": "/a"}}]},
        {"extraVolumeMounts": [{"name": "docker"}]},
        {"extraVolumeMounts": [{"name": "docker", "mountPath": "a"}]},
    ],
)
def test_the_chart_refuses_values_of_another_shape(values: dict[str, Any]) -> None:
    assert not Draft7Validator(SCHEMA).is_valid({**DEFAULTS, **values})


@pytest.mark.parametrize(
    "removed",
    [
        *((name,) for name in ("image", "period", "dryRun", "metricsPort", "logs", "nri")),
        *(("image", key) for key in ("repository", "tag", "pullPolicy")),
        *(("nri", key) for key in ("enabled", "socketFolder", "image")),
        *(("nri", "image", key) for key in ("repository", "tag")),
    ],
)
def test_a_value_that_the_templates_need_cannot_be_removed(removed: tuple[str, ...]) -> None:
    """Helm drops a key whose value is ``null``."""
    values = copy.deepcopy(DEFAULTS)
    place = values
    for key in removed[:-1]:
        place = place[key]
    del place[removed[-1]]
    assert not Draft7Validator(SCHEMA).is_valid(values)
