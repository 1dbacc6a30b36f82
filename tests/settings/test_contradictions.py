"""Settings of which each is right by itself, and which do not go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from settings_file import GOOD, problems, write

from qioi.settings.config import load_config

METERED = {**GOOD["components"][0], "metrics_url": "https://h:9443/metrics"}


def of_red(**policy: object) -> dict[str, Any]:
    return {"channels": {"red": {**GOOD["channels"]["red"], **policy}}}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (of_red(floor=5000, ceiling=4000), ["channels.red.floor: 5000: accepted is at most the ceiling, 4000"]),
        (of_red(default=5000, ceiling=4000), ["channels.red.default: 5000: accepted is at most the ceiling, 4000"]),
        (of_red(default=500, floor=1024), ["channels.red.default: 500: accepted is at least the floor, 1024"]),
        (
            {"defaults": {"ceiling": 4000}, **of_red(default=5000)},
            ["channels.red.default: 5000: accepted is at most the ceiling, 4000"],
        ),
        (
            {"docker": {}, "defaults": {"default": 5000, "ceiling": 4000}},
            ["defaults.default: 5000: accepted is at most the ceiling, 4000"],
        ),
        (
            {"docker": {}, "defaults": {"floor": 5000, "ceiling": 4000}, **of_red(floor=6000)},
            [
                "defaults.floor: 5000: accepted is at most the ceiling, 4000",
                "channels.red.floor: 6000: accepted is at most the ceiling, 4000",
            ],
        ),
        (
            {"defaults": {"default": 500, "floor": 1024}, "components": [{**GOOD["components"][0], "channels": []}]},
            ["defaults.default: 500: accepted is at least the floor, 1024"],
        ),
        (of_red(threshold=None), ["channels.red.threshold: missing: law proportional needs a number"]),
        ({"actuator": "docker"}, ["actuator: docker: accepted together with a section `docker` only"]),
        (
            {"docker": {}, "kubernetes": {}},
            ["kubernetes: components, lab, docker, podman, containerd, systemd, channels"],
        ),
        (of_red(throughput={"metric": "a_total"}), ["channels.red.throughput: no component with a `metrics_url`"]),
        (
            {"docker": {}, "components": [{**GOOD["components"][0], "source": "metrics"}]},
            ["components: peer0: source metrics: accepted together with a `metrics_url` only"],
        ),
        (
            {"docker": {}, "components": [{**METERED, "log": None, "source": "log"}]},
            ["components: peer0: source log: accepted together with a `log` only"],
        ),
        (
            {"components": [{**METERED, "metrics_tls": {"key": "k"}}]},
            ["components: peer0: metrics_tls: certificate and key: accepted together only"],
        ),
    ],
)
def test_settings_that_contradict(tmp_path: Path, change: dict[str, Any], expected: list[str]) -> None:
    found = problems(tmp_path, {**GOOD, **change})
    assert len(found) == len(expected), found
    assert all(one.startswith(f"qioi.yaml: {said}") for one, said in zip(found, expected, strict=True)), found


@pytest.mark.parametrize(
    "change",
    [
        of_red(floor=4000, default=4000, ceiling=4000),
        of_red(default=20_000),  # without a stated ceiling it is never lower than where a share rests
        of_red(floor=2048),  # a default that was found is raised to the floor
        {"defaults": {"floor": 5000, "ceiling": 4000}, **of_red(ceiling=6000)},  # no channel has both
        {"components": [{**METERED, "source": "log"}]},
    ],
)
def test_settings_that_go_together(tmp_path: Path, change: dict[str, Any]) -> None:
    load_config(write(tmp_path, {**GOOD, **change}))


def test_channels_are_named_where_nothing_tells_of_a_commit(tmp_path: Path) -> None:
    """A log tells which channels a component serves that names none."""
    listed = {"name": "peer0", "role": "peer", "cgroup": "g/p"}
    document = {"components": [listed], "channels": {}}
    missing = "channels: none: accepted is at least one, here or among the channels of a component"
    assert problems(tmp_path, document) == [f"qioi.yaml: {missing}"]
    node = {"role": "replica", "metrics_url": "http://127.0.0.1:9104/metrics"}  # which counts, and names no channel
    assert problems(tmp_path, {"components": [{**listed, **node}]}) == [f"qioi.yaml: {missing}"]
    assert load_config(write(tmp_path, {"components": [{**listed, "log": "peer.log"}]})).policies == {}
