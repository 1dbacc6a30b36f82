"""What each group of a component has when the component has so many shares."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace
from toy_wants import Tree, want

from qioi.controller.levels.wants import groups_of


def test_groups_above_have_the_same_odds_within_their_limits(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.held("docker", "docker/p")
    raised = want("docker/p", 4096, "docker/p", "docker", "not/held")
    assert dict(groups_of(tree.guard, raised, 4096)) == {"docker/p": 4096, "docker": 4096}
    limited = replace(raised, limits={"docker": 2000})
    assert dict(groups_of(tree.guard, limited, 4096)) == {"docker/p": 4096, "docker": 2000}
    assert dict(groups_of(tree.guard, raised, 10)) == {"docker/p": 10, "docker": 1024}  # others are in it too


def test_a_component_that_is_acted_at_above_has_in_its_own_group_what_it_was_found_with(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.held("docker", "docker/p")
    above = want("docker/p", 4096, "docker")
    assert dict(groups_of(tree.guard, above, 4096)) == {"docker/p": 1024, "docker": 4096}
