"""The daemon on a host with cgroup v2 alone: real processes, the kernel's own cpu.weight."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from running import Site, end
from waiting import until

from qioi.controller.hierarchy import find_hierarchy

#: What groups are found with: systemd's default, runc's old and its new conversion of 1024, and one of somebody's own.
FOUND = (100, 39, 100, 700)


@pytest.fixture
def weights(site: Site) -> list[Path]:
    files = [site.component(f"peer{number}") for number in range(len(FOUND))]
    for file, value in zip(files, FOUND, strict=True):
        file.write_text(str(value))
    return files


def values(weights: list[Path]) -> list[int]:
    return [int(file.read_text()) for file in weights]


def raised(weights: list[Path]) -> bool:
    return all(value > found for value, found in zip(values(weights), FOUND, strict=True))


def test_the_hierarchy_is_the_real_one() -> None:
    hierarchy = find_hierarchy()
    assert (hierarchy.version, hierarchy.mount, hierarchy.file) == (2, Path("/sys/fs/cgroup"), "cpu.weight")


@pytest.mark.parametrize("actuator", ["files", "libcgroup"])
def test_raised_in_ratio_to_what_was_found_and_put_back(site: Site, weights: list[Path], actuator: str) -> None:
    site.changes = {"actuator": actuator}
    process = site.start()
    site.commit_until(lambda: raised(weights))
    status = site.status()
    assert status is not None
    assert (status["actuator"], status["cgroup_version"]) == (actuator, 2)
    for component, found in zip(status["components"], FOUND, strict=True):
        # Shares are told in v1 units: 1024 is what was found. Half a weight is lost in rounding.
        assert component["original"] == 1024
        assert abs(component["share"] - component["wanted"]) <= 512 / found + 1
    assert end(process)[0] == 0
    assert values(weights) == list(FOUND)
    assert not (site.state / "journal").exists()


@pytest.mark.parametrize("restorer", ["restore", "start"])
def test_after_a_kill_everything_comes_back(site: Site, weights: list[Path], restorer: str) -> None:
    process = site.start()
    site.commit_until(lambda: raised(weights))
    weights[1].write_text("55")  # by somebody else
    end(process, signal.SIGKILL)
    left = values(weights)
    assert left[0] > FOUND[0]
    if restorer == "restore":
        done = site.qioi("restore", "--state-dir", str(site.state))
        assert done.returncode == 0, done.stderr
    else:
        site.changes = {"dry_run": False, "channels": {"red": {"law": "adaptive"}}}  # which raises nothing here
        end(site.start())
    assert values(weights) == [FOUND[0], 55, *FOUND[2:]]


def test_a_weight_of_somebody_else_is_left_alone(site: Site, weights: list[Path]) -> None:
    process = site.start()
    site.commit_until(lambda: raised(weights))
    weights[0].write_text("123")
    until(lambda: "somebody else" in str((site.status() or {"components": [{}]})["components"][0].get("problem")))
    assert end(process)[0] == 0
    assert values(weights) == [123, *FOUND[1:]]


def test_a_group_without_the_controller_is_refused_with_the_remedy(site: Site) -> None:
    outer = site.component("peer0")
    inner = outer.parent / "inner"
    inner.mkdir()
    site.components[0]["cgroup"] += "/inner"
    try:
        done = site.qioi("check", "-c", str(site.config()))
    finally:
        inner.rmdir()
    assert done.returncode == 1
    assert "inner has no cpu.weight: is `cpu` in its parent's cgroup.subtree_control?" in done.stderr
