"""Whose values in pods' groups are taken as found: the kubelet's, and nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from k8s_objects import ID, pod_object
from k8s_site import KEY, Site

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Journal
from qioi.controller.levers.files import Files
from qioi.kernel.hierarchy import Hierarchy
from qioi.kubernetes.actuators import Means, Offer
from qioi.kubernetes.choice import Choice
from qioi.kubernetes.reports import KUBELET
from qioi.kubernetes.roster import RESIZE, ClusterRoster
from qioi.model import ChannelReading
from qioi.settings.config import load_config
from qioi.show.snapshot import ComponentState

GROUP = "kubepods/burstable/poduid-of-peer0"
CONTAINER = f"{GROUP}/{ID}"
NOTHING = ChannelReading(KEY, None, None)


class Node(Site):
    """A node whose peer's groups are files, so that the test is the kubelet."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        super().__init__(folder)
        self.folder = folder
        self.hierarchy = Hierarchy(1, folder)
        self.hierarchy.folder(CONTAINER).mkdir(parents=True)
        for group in (GROUP, CONTAINER):
            self.write(group, 102)
        self.guard = Guard(self.hierarchy, Files(self.hierarchy), journal)

    def write(self, group: str, value: int) -> None:
        (self.hierarchy.folder(group) / "cpu.shares").write_text(f"{value}\n")

    def raise_to(self, value: int) -> None:
        for group in (GROUP, CONTAINER):
            self.guard.look(group)
        list(self.guard.apply(dict.fromkeys((GROUP, CONTAINER), value)))

    def see(self, now: float, asked: str, actual: str) -> None:
        """Have the API show what somebody asks for, and what the kubelet has applied."""
        self.show(now, [resized(asked, actual)])

    def retaken(self, now: float) -> list[str]:
        return [group for _, group in self.roster.retaken(now, self.guard)]


def resized(asked: str, actual: str) -> dict[str, Any]:
    one = pod_object(labels={"qioi.io/role": "peer"})
    one["spec"]["containers"][0]["resources"] = {"requests": {"cpu": asked}}
    one["status"]["containerStatuses"][0]["resources"] = {"requests": {"cpu": actual}}
    return one


@pytest.fixture
def node(tmp_path: Path, journal: Journal) -> Iterator[Node]:
    node = Node(tmp_path, journal)
    yield node
    node.close()


def test_what_is_wrong_with_a_pod_is_said_to_the_policies_of_its_namespace(node: Node) -> None:
    boss, other = (pod_object("peer1", space, labels={"qioi.io/role": "boss"}) for space in ("fab", "other"))
    node.show(0.0, [pod_object(labels={"qioi.io/role": "peer"}), other])
    assert node.sight(0.0, NOTHING).problem is None
    node.show(1.0, [boss, other])
    said = node.sight(1.0, NOTHING)
    assert str(said.problem).startswith("pod fab/peer1: label qioi.io/role: 'boss': accepted are ")
    assert (said.rows, said.concerned) == ((), True)


def test_that_no_groups_are_found_is_said_to_the_policies_of_the_pods_there(node: Node) -> None:
    for space, expected in (("fab", "kubelet: no group"), ("other", None)):
        node.show(0.0, [pod_object("peer1", space, labels={"qioi.io/role": "peer"})], layout=None)
        node.cluster.told = replace(node.cluster.told, problems={"pod fab/peer9": "its label", KUBELET: "no group"})
        node.roster.attend(0.0)
        assert node.sight(0.0, NOTHING).problem == expected


@pytest.mark.parametrize(("on_exit", "told"), [("restore", ["InterferenceReleased"]), ("keep", [])])
def test_the_end_tells_that_interference_is_released_unless_shares_are_kept(
    node: Node, on_exit: str, told: list[str]
) -> None:
    node.see(0.0, "100m", "100m")
    (name,) = (one.name for one in node.components)
    raised = ComponentState(name, "peer", CONTAINER, share=400, original=102, reason="waits")
    node.roster.tell(0.0, node.snapshot(0.0, NOTHING, (raised,)), ())
    assert [one.reason for one in node.reporter._told] == ["InterferenceDetected"]
    file = node.folder / "qioi.yaml"
    file.write_text(f"{{kubernetes: {{node: n1}}, on_exit: {on_exit}, state_dir: {node.folder}}}")
    node.roster.adopt(load_config(file))
    node.roster.end()
    assert [one.reason for one in node.reporter._told] == ["InterferenceDetected", *told]


class ToyResizer:
    """Has records of pods whose request it moves, or has not restored yet; by uid."""

    powerless = False

    def __init__(self) -> None:
        self.records: dict[str, object] = {}

    def record(self, uid: str) -> object | None:
        return self.records.get(uid)


@pytest.mark.parametrize("on_exit", ["restore", "keep"])
@pytest.mark.parametrize(("moved", "restored"), [(True, True), (True, False), (False, True)])
def test_the_end_tells_of_requests_once_they_are_restored_whatever_is_kept(
    tmp_path: Path, on_exit: str, moved: bool, restored: bool
) -> None:
    """Requests are put back in any case, where the server does not refuse it; groups' shares may be kept."""
    site, resizer = Site(tmp_path, offers=(Offer(Means.RESIZE, True, "pods' requests"),)), ToyResizer()
    more: Any = {"choice": Choice((Offer(Means.RESIZE, True, "pods' requests"),), site.cluster.api)}
    toy: Any = resizer
    site.roster = ClusterRoster(site.cluster, site.channels, site.reporter, resizer=toy, **more)
    site.show(0.0, [pod_object(labels={"qioi.io/role": "peer"})])
    ((name, pod),) = site.cluster.told.pods.items()
    file = tmp_path / "qioi.yaml"
    file.write_text(f"{{kubernetes: {{node: n1}}, on_exit: {on_exit}, state_dir: {tmp_path}}}")
    site.roster.adopt(load_config(file))
    if moved:
        resizer.records[pod.uid] = "its record"
    raised = ComponentState(name, "peer", CONTAINER, share=400, original=102, reason="waits")
    site.roster.tell(0.0, site.snapshot(0.0, NOTHING, (raised,)), ())
    if restored:
        resizer.records.clear()
    site.roster.end()
    told = ["InterferenceReleased"] if restored and (moved or on_exit == "restore") else []
    assert [one.reason for one in site.reporter._told] == ["InterferenceDetected", *told]
    site.close()


@pytest.mark.parametrize("put_off", [0.0, RESIZE - 1, RESIZE + 1, 3600.0])
def test_a_resize_is_gone_on_from_however_long_the_kubelet_puts_it_off(node: Node, put_off: float) -> None:
    node.see(0.0, "100m", "100m")
    node.raise_to(400)
    node.see(1.0, "200m", "100m")  # somebody asks
    assert node.retaken(1.0) == []
    assert node.retaken(put_off) == []
    for group in (GROUP, CONTAINER):
        node.write(group, 204)  # the kubelet applies it, and says so later
    node.raise_to(500)
    node.see(put_off + 10.0, "200m", "200m")
    assert node.retaken(put_off + 10.0) == [CONTAINER, GROUP]


def test_a_resize_counts_for_the_pods_other_containers_too(node: Node) -> None:
    couchdb = f"{GROUP}/{'cd' * 32}"
    node.hierarchy.folder(couchdb).mkdir()
    node.write(couchdb, 51)
    for now, asked in enumerate(("50m", "100m")):
        one = pod_object(labels={"qioi.io/role": "peer"}, containers=("peer", "couchdb"))
        one["spec"]["containers"][1]["resources"] = {"requests": {"cpu": asked}}
        one["status"]["containerStatuses"][1]["containerID"] = f"containerd://{'cd' * 32}"
        node.show(now, [one])
        node.guard.look(couchdb)
    list(node.guard.apply({couchdb: 400}))
    node.write(couchdb, 102)  # the kubelet applies it
    list(node.guard.apply({couchdb: 500}))
    assert node.retaken(2.0) == [couchdb]


def test_any_other_value_is_left_alone(node: Node) -> None:
    node.see(0.0, "100m", "100m")
    node.raise_to(400)
    node.write(GROUP, 5000)
    node.raise_to(500)
    for now, actual in enumerate(("100m", "2930m", "5860m", "5860m")):  # ours, by the runtime's record
        node.see(now, "100m", actual)
        assert node.retaken(now) == []


def test_a_request_that_we_move_leaves_groups_that_we_have_not_written_as_they_are(node: Node) -> None:
    node.see(0.0, "100m", "100m")
    for group in (GROUP, CONTAINER):
        node.guard.look(group)
    for now, (asked, actual, shares) in enumerate((("4", "100m", 102), ("4", "4", 4096), ("100m", "100m", 102))):
        for group in (GROUP, CONTAINER):
            node.write(group, shares)
            node.guard.look(group)
        node.see(now, asked, actual)
        assert node.retaken(now) == []
    assert [node.guard.found(group) for group in (GROUP, CONTAINER)] == [102, 102]
