"""Several discoveries as one."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from qioi.discovery.base import Fixed, Found, Together, join
from qioi.discovery.docker import DockerDiscovery
from qioi.model import Component, Role


@pytest.mark.parametrize(("parts", "complete"), [((), True), ((True, True), True), ((True, False), False)])
def test_all_is_complete_once_everybody_was_asked(parts: tuple[bool, ...], complete: bool) -> None:
    assert join(Found(complete=one) for one in parts).complete is complete


def test_an_engine_that_does_not_answer_was_asked_all_the_same(tmp_path: Path) -> None:
    """What a daemon before this one has kept is not waited for until somebody starts that engine."""
    with closing(DockerDiscovery(str(tmp_path / "none.sock"), 1)) as engine:
        both = Together(Fixed([Component("p", Role.PEER, "g")]), engine)
        found = both.found()
        while not found.complete:
            assert list(found.problems.values()) == ["not asked yet"]
            found = both.found()
    assert "asked again until it answers" in next(iter(found.problems.values()))
    assert [one.name for one in found.components] == ["p"]


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
