"""The level that matters: where a component meets foreign work, from CPU use alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qioi.controller.levels.placement import KeptBack, Level, Levels, Placement, foreign_by_parent, place
from qioi.model.groups import branches, chain, parent_of

PEER, ORDERER = "docker/peer", "docker/orderer"
POD = "kubepods/burstable/pod1/peer"


def kubernetes(all_of_it: float, burstable: float) -> dict[str, float]:
    """Of two CPUs, all are used; the peer and its pod use a tenth of one."""
    return {"": 2.0, "kubepods": all_of_it, "kubepods/burstable": burstable, "kubepods/burstable/pod1": 0.1, POD: 0.1}


def used(**cores: float) -> dict[str, float]:
    """CPUs by group; `_` stands for a slash, `host` for the mount's own."""
    return {"" if name == "host" else name.replace("_", "/"): number for name, number in cores.items()}


@pytest.mark.parametrize(
    ("groups", "cores", "expected", "words"),
    [
        # Interferers in /system.slice: Docker's group is what stands beside theirs.
        ([PEER], used(host=2.0, docker=0.2, docker_peer=0.2), ("docker",), "1.8 CPUs beside docker"),
        # Interferers are containers too.
        ([PEER], used(host=2.0, docker=2.0, docker_peer=0.2), (PEER,), "1.8 CPUs beside docker/peer"),
        # Both: each counts at its own level.
        ([PEER], used(host=2.0, docker=1.0, docker_peer=0.2), (PEER, "docker"), "0.8 CPUs beside docker/peer; "),
        # A little of the system's own work beside much interference is no level.
        ([PEER], used(host=2.0, docker=1.9, docker_peer=0.2), (PEER,), "1.7 CPUs beside docker/peer"),
        # Another component is no foreigner.
        ([PEER, ORDERER], used(host=2.0, docker=0.5, docker_peer=0.2, docker_orderer=0.3), ("docker",), "1.5 CPUs"),
        ([PEER, ORDERER], used(host=0.5, docker=0.5, docker_peer=0.2, docker_orderer=0.3), (PEER,), "no foreign work"),
        ([PEER], {}, (PEER,), "not known"),
        ([PEER], used(docker=2.0), (PEER,), "not known"),
        ([PEER], used(host=2.0, docker_peer=0.1), (PEER,), "not known"),
        # Kubernetes: beside the pod, beside a QoS class, beside all of Kubernetes; never a group that is rewritten.
        (
            [POD],
            kubernetes(2.0, 2.0),
            ("kubepods/burstable/pod1",),
            "1.9 CPUs beside kubepods/burstable/pod1",
        ),
        (
            [POD],
            kubernetes(2.0, 0.1),
            ("kubepods/burstable/pod1",),
            "kubepods/burstable, which the kubelet rewrites: kubepods/burstable/pod1 is acted at instead",
        ),
        (
            [POD],
            kubernetes(0.1, 0.1),
            ("kubepods/burstable/pod1",),
            "beside kubepods, which the kubelet rewrites",
        ),
        (["kubepods"], used(host=2, kubepods=0.1), ("kubepods",), "beside kubepods"),  # named as a component: as said
    ],
)  # fmt: skip
def test_where_it_is_acted_at(
    groups: list[str], cores: dict[str, float], expected: tuple[str, ...], words: str
) -> None:
    placed = Levels().step(0.0, groups, cores, 2, [])
    assert placed[groups[0]].groups == expected
    assert words in placed[groups[0]].why


@pytest.mark.parametrize(("foreign", "expected"), [(2.0, "docker"), (0.4, PEER)])
def test_on_a_host_of_many_cpus_few_of_them_show_a_level(foreign: float, expected: str) -> None:
    """Two that are pinned beside a pinned component are 3 % of 64 CPUs, and all that it waits for."""
    placed = Levels().step(0.0, [PEER], used(host=foreign + 0.2, docker=0.2, docker_peer=0.2), 64, [])
    assert placed[PEER].groups == (expected,)


@pytest.mark.parametrize(
    ("group", "rewritten"),
    [
        ("kubepods", True),
        ("kubepods.slice", True),
        ("kubelet.slice/kubelet-kubepods.slice", True),
        ("kubepods/besteffort", True),
        ("kubepods.slice/kubepods-burstable.slice", True),
        ("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice", False),
        ("kubepods/pod1", False),
        ("system.slice", False),
        ("mykubepods", False),
        ("burstable", False),
    ],
)
def test_what_the_kubelet_rewrites_is_never_acted_at(group: str, rewritten: bool) -> None:
    component = f"{group}/x"
    cores = {one: 0.1 for one in chain(component)} | {"": 2.0}
    for parent in chain(component)[1:]:  # the foreign work is beside the group in question
        cores[parent] = 0.1 if len(parent) >= len(group) else 2.0
    placed = Levels().step(0.0, [component], cores, 2, [])[component]
    assert (group in placed.groups) is not rewritten
    assert placed.groups


def test_a_level_stays_while_its_group_is_raised() -> None:
    levels = Levels()
    outside = used(host=2.0, docker=0.2, docker_peer=0.2)
    assert levels.step(0.0, [PEER], outside, 2, [])[PEER].groups == ("docker",)
    # Raised so much that the foreigners outside get nothing, while others show up inside.
    inside = used(host=2.0, docker=2.0, docker_peer=0.2)
    for second in range(1, 30):
        placed = levels.step(float(second), [PEER], inside, 2, ["docker"])[PEER]
    assert placed.groups == (PEER, "docker")
    assert levels.step(30.0, [PEER], inside, 2, [PEER])[PEER].groups == (PEER,)
    quiet = used(host=0.2, docker=0.2, docker_peer=0.2)
    for second in range(30, 60):
        placed = levels.step(float(second), [PEER], quiet, 2, ["docker", PEER])[PEER]
    assert placed.groups == (PEER, "docker")
    assert "no foreign work is left" in placed.why
    assert levels.step(60.0, [PEER], quiet, 2, [])[PEER].groups == (PEER,)


def test_who_comes_shows_their_level_within_a_second_beside_a_little_that_was_there_before() -> None:
    levels = Levels()
    for tenth in range(100):
        levels.step(tenth / 10, [PEER], used(host=0.5, docker=0.4, docker_peer=0.4), 2, [])
    come = used(host=2.0, docker=1.9, docker_peer=0.4)
    levels.step(10.0, [PEER], come, 2, [])
    assert levels.step(10.1, [PEER], come, 2, [])[PEER].groups == (PEER,)


def test_what_is_raised_from_the_beginning_is_gone_on_with() -> None:
    assert Levels().step(0.0, [PEER], {}, 2, ["docker", "other"])[PEER].groups == ("docker",)


def test_one_noisy_look_is_smoothed() -> None:
    levels = Levels()
    levels.step(0.0, [PEER], used(host=0.2, docker=0.2, docker_peer=0.2), 2, [])
    placed = levels.step(0.01, [PEER], used(host=2.0, docker=0.2, docker_peer=0.2), 2, [])[PEER]
    assert placed.groups == (PEER,)


NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join)


@given(st.sets(NAMES, min_size=1, max_size=4), st.dictionaries(NAMES | st.just(""), st.floats(0, 8)), st.sets(NAMES))
def test_every_component_is_acted_at_its_own_group_or_above_it(
    groups: set[str], cores: dict[str, float], raised: set[str]
) -> None:
    levels = Levels()
    for second in range(3):
        placed = levels.step(float(second), groups, cores, 2, raised)
        assert placed.keys() == groups
        for group, placement in placed.items():
            assert placement.groups
            assert set(placement.groups) <= set(chain(group))
            assert set(placement.groups) >= raised & set(chain(group))  # what is raised is never lost sight of
            assert [one.group for one in placement.levels] == list(chain(group))


#: Groups that the kubelet rewrites are among these.
LEVELS = st.sampled_from(["a", "b", "kubepods", "kubepods/burstable", "kubepods/burstable/pod1"])
BELOW = st.builds(lambda above, name: f"{above}/{name}", LEVELS, st.sampled_from("xyz"))


@given(
    st.sets(BELOW, min_size=1, max_size=6),
    st.dictionaries(LEVELS | BELOW | st.just(""), st.sampled_from([0.0, 0.01, 0.2, 1.0, 2.0])),
    st.sets(LEVELS | BELOW),
)
def test_siblings_that_are_looked_at_together_are_placed_as_each_by_itself(
    groups: set[str], cores: dict[str, float], raised: set[str]
) -> None:
    foreign = foreign_by_parent(branches(groups), cores)
    placed = Levels().step(0.0, groups, cores, 2, raised)
    for group in groups:
        levels = tuple(Level(level, foreign.get(parent_of(level))) for level in chain(group))
        assert placed[group] == place(levels, 2, raised)


RED, BLUE = "kubepods/pod1/red", "kubepods/pod2/blue"


@pytest.mark.parametrize(
    ("rivals", "expected"),
    [
        ({}, RED),
        ({RED: {BLUE}}, "kubepods/pod1"),  # they part at their pods
        ({BLUE: {RED}}, RED),
        ({RED: {"kubepods/pod1/beside"}}, RED),  # in the same pod
        ({RED: {"other/group"}}, "kubepods/pod1"),  # outside of all pods, whose group is the kubelet's
        ({RED: {f"{RED}/inside"}}, RED),  # its own
        ({RED: {"kubepods/pod2"}}, RED),  # a component that has another one in it
        ({RED: {"gone"}}, RED),
    ],
)
def test_what_keeps_a_component_back_shows_a_level_too(rivals: dict[str, set[str]], expected: str) -> None:
    groups = [RED, BLUE, "kubepods/pod1/beside", "kubepods/pod2", "other/group", f"{RED}/inside"]
    cores = {RED: 0.1, f"{RED}/inside": 0.9, "kubepods/pod1/beside": 0.9, "other/group": 0.9}
    cores |= {BLUE: 0.9, "kubepods/pod2": 0.9, "kubepods/pod1": 1.0, "kubepods": 1.9, "other": 0.9, "": 2.8}
    against = {group: KeptBack(frozenset(others)) for group, others in rivals.items()}
    placed = Levels().step(0.0, groups, cores, 2, [], against)[RED]
    assert placed.groups == (expected,)
    assert placed.kept_back is (RED in rivals)
    assert placed.against_tenants == ()
    if expected != RED:
        assert placed.why.startswith("work of others of 0.9 CPUs beside kubepods")


@pytest.mark.parametrize(
    ("by", "raised", "groups", "steps"),
    [
        (KeptBack(frozenset({BLUE}), True, True), [], ("kubepods/pod1",), ("kubepods/pod1",)),
        (KeptBack(frozenset(), True), ["kubepods/pod1"], ("kubepods/pod1",), ("kubepods/pod1",)),  # held
        (
            KeptBack(frozenset({BLUE}), True, True),
            [RED],
            (RED, "kubepods/pod1"),
            (RED, "kubepods/pod1"),
        ),
        (KeptBack(frozenset({BLUE})), [], ("kubepods/pod1",), ()),  # a burner: by the level's law
        (KeptBack(frozenset(), True), [], (RED,), ()),
    ],
)
def test_where_one_is_raised_by_steps(
    by: KeptBack, raised: list[str], groups: tuple[str, ...], steps: tuple[str, ...]
) -> None:
    cores = {RED: 0.5, "kubepods/pod1": 0.5, BLUE: 0.9, "kubepods/pod2": 0.9, "kubepods": 1.4, "": 1.4}
    placed = Levels().step(0.0, [RED, BLUE], cores, 2, raised, {RED: by})
    assert (placed[RED].groups, placed[RED].against_tenants) == (groups, steps)
    assert placed[RED].is_raised is by.is_raised
    assert not placed[BLUE].kept_back


@given(st.sets(NAMES, min_size=1, max_size=4), st.dictionaries(NAMES | st.just(""), st.floats(0, 8)))
def test_foreign_work_is_never_negative_and_known_only_for_parents(groups: set[str], cores: dict[str, float]) -> None:
    found = foreign_by_parent(branches(groups), cores)
    assert found.keys() <= branches(groups).keys()
    assert all(value >= 0 for value in found.values())


def test_the_names_of_levels() -> None:
    assert chain("a/b/c") == ("a/b/c", "a/b", "a")
    assert branches(["a/b", "a/c"]) == {"": {"a"}, "a": {"a/b", "a/c"}}
    assert Placement(("a",), "why").levels == ()
