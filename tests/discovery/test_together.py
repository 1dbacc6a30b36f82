"""Several discoveries as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from waiting import until

from qioi.daemon.discoveries import look
from qioi.discovery.base import Discovery, Fixed, Found, Together, join
from qioi.discovery.containerd import ContainerdDiscovery
from qioi.discovery.docker import DockerDiscovery
from qioi.discovery.engine import PODMAN
from qioi.discovery.systemd import SystemdError
from qioi.discovery.units import UnitDiscovery, UnitRule
from qioi.kernel.hierarchy import Hierarchy
from qioi.model import Component, Role
from qioi.settings.config import load_config


@pytest.mark.parametrize(("parts", "complete"), [((), True), ((True, True), True), ((True, False), False)])
def test_all_is_complete_once_everybody_has_answered(parts: tuple[bool, ...], complete: bool) -> None:
    assert join(Found(complete=one) for one in parts).complete is complete


def never_listed(folder: Path) -> Mapping[str, Callable[[], Discovery]]:
    """Make sources whose engine, or systemd, is not there, by their kind."""
    return {
        "docker": lambda: DockerDiscovery(str(folder / "none.sock"), 1),
        "podman": lambda: DockerDiscovery(str(folder / "none.sock"), 1, kind=PODMAN),
        "containerd": lambda: ContainerdDiscovery(str(folder / "none"), 1),
        "systemd": lambda: UnitDiscovery(Hierarchy(2, folder), [UnitRule(Role.PEER, "*")], owned=False),
    }


@pytest.mark.parametrize("kind", ["docker", "podman", "containerd", "systemd"])
def test_a_source_that_does_not_answer_is_said_and_has_listed_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("qioi.discovery.units.Systemd", no_systemd)
    with closing(never_listed(tmp_path)[kind]()) as source:
        both = Together(Fixed([Component("p", Role.PEER, "g")]), source)
        until(lambda: "again" in next(iter(both.found().problems.values())))
        found = both.found()
    assert not found.complete
    assert [one.name for one in found.components] == ["p"]


def no_systemd() -> None:
    raise SystemdError("no bus")


def test_a_list_that_was_complete_stays_so_while_its_source_is_away(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks"
    source = ContainerdDiscovery(str(tasks), 1, every=0.0)
    assert not source.found().complete
    tasks.mkdir()
    assert source.found() == Found()
    tasks.rmdir()
    assert source.found().complete
    assert source.found().problems


def test_a_look_ends_without_an_answer_and_says_so(tmp_path: Path) -> None:
    config = tmp_path / "qioi.yaml"
    config.write_text(yaml.safe_dump({"docker": {"socket": str(tmp_path / "none.sock")}, "state_dir": str(tmp_path)}))
    found = look(load_config(config), Hierarchy(2, tmp_path), 0.5)
    assert not found.complete
    assert "No such file" in found.problems[f"docker engine {tmp_path / 'none.sock'}"]


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        (["docker/0123456789abcdef", "docker/fedcba9876543210"], ["p", "p@fedcba987654"]),
        (["a/docker-0123456789abcdef.scope", "a/docker-fedcba9876543210.scope"], ["p", "p@fedcba987654"]),
        (
            ["a/cri-containerd-0123456789.scope", "a/cri-containerd-fedcba987654321.scope", "cri-containerd-77.scope"],
            ["p", "p@fedcba987654", "p@77"],
        ),
        (["a/libpod-01.scope", "a/libpod-02.scope/payload", "a/libpod-03.scope/payload", "b/payload"],
         ["p", "p@payload", "p@payload-2", "p@payload-3"]),
        (["a/p.service", "b/fabric-peer.service", "b/-.scope"], ["p", "p@peer.service", "p@-"]),
    ],
)  # fmt: skip
def test_each_component_has_a_name_of_its_own(groups: list[str], names: list[str]) -> None:
    found = join([Found(tuple(Component("p", Role.PEER, group) for group in groups))])
    assert [(one.name, one.cgroup) for one in found.components] == list(zip(names, groups, strict=True))


def test_a_name_that_is_made_takes_no_component_its_own() -> None:
    components = (Component("p@02", Role.PEER, "a"), Component("p", Role.PEER, "01"), Component("p", Role.PEER, "02"))
    found = join([Found(components)])
    assert [(one.name, one.cgroup) for one in found.components] == [("p@02", "a"), ("p", "01"), ("p@02-2", "02")]


def test_a_client_in_whose_group_the_ledger_is_is_none() -> None:
    """A pattern of the operator's own groups that fits the ledger's parent took its share away, again and again."""
    peer, load = Component("p", Role.PEER, "ledger/p"), Component("one", Role.CLIENT, "load/one")
    parents = [Component(name, Role.CLIENT, name) for name in ("ledger", "load")]
    found = join([Found((peer,)), Found((*parents, load))])
    assert found.components == (peer, parents[1], load)
    assert found.problems == {"client ledger": "other components are in its group: it is none"}
