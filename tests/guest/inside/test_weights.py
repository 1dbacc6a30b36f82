"""The daemon on a host with cgroup v2 alone: real processes, the kernel's own cpu.weight."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from running import Site, end
from waiting import until

from qioi.kernel.hierarchy import find_hierarchy

#: What groups are found with: systemd's default, runc's old and its new conversion of 1024, and one of somebody's own.
FOUND = (100, 39, 100, 700)
#: Foreign work beside the components, for most of the time: a weight is moved where it meets foreign work.
NEIGHBOUR = """
import time
while True:
    begun = time.monotonic()
    while time.monotonic() < begun + 0.02: pass
    time.sleep(0.01)
"""


@pytest.fixture
def weights(site: Site) -> list[Path]:
    site.work("neighbour", NEIGHBOUR)
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


def problem(site: Site, number: int) -> str:
    """What the daemon says is wrong with a component."""
    return str((site.status() or {"components": [{}] * len(FOUND)})["components"][number].get("problem"))


def test_a_group_that_goes_while_it_is_raised_stops_nobody_and_is_met_anew(site: Site, weights: list[Path]) -> None:
    process = site.start()
    site.commit_until(lambda: raised(weights))
    gone = weights[3].parent
    gone.rmdir()
    until(lambda: "no such control group" in problem(site, 3))
    assert problem(site, 0) == "None"
    gone.mkdir()  # somebody else's by now: what the one before it was found with is not put into it
    site.commit_until(lambda: int(weights[3].read_text()) > 100)
    code, text = end(process)
    assert code == 0, text
    assert values(weights) == [*FOUND[:3], 100]
    assert not (site.state / "journal").exists()


@pytest.mark.parametrize("restorer", ["restore", "start"])
def test_a_group_that_goes_after_a_kill_is_no_obstacle(site: Site, weights: list[Path], restorer: str) -> None:
    process = site.start()
    site.commit_until(lambda: raised(weights))
    end(process, signal.SIGKILL)
    gone, anew = weights[2].parent, weights[3].parent
    left = weights[3].read_text()
    gone.rmdir()
    anew.rmdir()
    anew.mkdir()
    weights[3].write_text(left)  # the very value of ours, but in another group
    if restorer == "restore":
        done = site.qioi("restore", "--state-dir", str(site.state))
        assert done.returncode == 0, done.stderr
    else:
        del site.components[2]
        site.changes = {"channels": {"red": {"law": "adaptive"}}}
        code, text = end(site.start())
        assert code == 0, text
    assert values([*weights[:2], weights[3]]) == [*FOUND[:2], int(left)]
    assert not (site.state / "journal").exists()


def test_steps_of_the_clock_move_no_rate_and_stop_nothing(site: Site, weights: list[Path]) -> None:
    """By an hour forwards, by two backwards, and back: commits are stamped by the very clock that is set."""
    process = site.start()
    site.commit_until(lambda: raised(weights))
    before = values(weights)

    def periods() -> int:
        return int((site.status() or {"totals": {"periods": 0}})["totals"]["periods"])

    for step in (3600, -7200, 3600):
        time.clock_settime(time.CLOCK_REALTIME, time.time() + step)
        first = periods()

        def unmoved(first: int = first) -> bool:
            status = site.status()
            assert status is not None
            assert 0 < status["channels"][0]["throughput"] < 100  # some 20 are committed a second
            assert status["channels"][0]["age"] < 60
            # Algorithm 1 goes with the rate: a share that has moved by more has seen another one.
            assert all(abs(now - then) <= 0.1 * then for now, then in zip(values(weights), before, strict=True))
            return status["totals"]["periods"] >= first + 80

        site.commit_until(unmoved)
    code, text = end(process)
    assert code == 0, text
    assert values(weights) == list(FOUND)


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
