"""What each group of a component has when the component has so many shares."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace
from toy_wants import Tree, want

from qioi.controller.levels.wants import found_of, groups_of


def test_groups_above_have_the_same_odds_within_their_limits(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.held("docker", "docker/p")
    raised = want("docker/p", 4096, "docker/p", "docker", "not/held")
    assert dict(groups_of(tree.guard, raised, 4096)) == {"docker/p": 4096, "docker": 4096}
    limited = replace(raised, limits={"docker": 2000})
    assert dict(groups_of(tree.guard, limited, 4096)) == {"docker/p": 4096, "docker": 2000}
    assert dict(groups_of(tree.guard, raised, 10)) == {"docker/p": 10, "docker": 1024}  # others are in it too


def test_the_groups_of_a_pod_whose_request_is_moved_follow_the_share_that_it_has_now(tmp_path: Path) -> None:
    """Its shares are absolute. What the kubelet wrote last, for 2000 of them, the guard takes as found."""
    tree = Tree(tmp_path)
    tree.held("pod", "pod/p")
    one = want("pod/p", 4000, "pod")
    moved = replace(one, decision=replace(one.decision, previous=2000), request=500)
    assert dict(groups_of(tree.guard, moved, 4000)) == {"pod/p": 1024, "pod": 2048}
    assert dict(groups_of(tree.guard, moved, 2000)) == {"pod/p": 1024, "pod": 1024}
    for shares in (500, 400):  # the pod never has less than it was found with
        assert dict(groups_of(tree.guard, moved, shares))["pod"] == 256
    assert dict(groups_of(tree.guard, replace(moved, placement=want("pod/p", 1).placement), 500)) == {"pod/p": 256}
    assert found_of(tree.guard, moved) == 500
    assert found_of(tree.guard, one) == 1024


def test_a_component_that_is_acted_at_above_has_in_its_own_group_what_it_was_found_with(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.held("docker", "docker/p")
    above = want("docker/p", 4096, "docker")
    assert dict(groups_of(tree.guard, above, 4096)) == {"docker/p": 1024, "docker": 4096}
