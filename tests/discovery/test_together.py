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
