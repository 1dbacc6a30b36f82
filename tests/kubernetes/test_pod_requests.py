"""Pods whose requests are moved instead of their groups' files: what the loop is told of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from k8s_objects import pod_object

from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce
from qioi.kubernetes.client import Access, Api
from qioi.kubernetes.cluster import View
from qioi.kubernetes.pod_requests import PodRequests
from qioi.kubernetes.pods import read_pod, slim
from qioi.kubernetes.requests import CpuRequest, shares_of
from qioi.kubernetes.resizer import Resizer
from qioi.model import Component, Decision, Role

FOUND = InForce(1024, 1024, Placement(("pod",), ""))  # as cgroup v2 has it, whatever was requested


def make(folder: Path, one: Component, followed: Callable[[], bool] = lambda: True) -> PodRequests:
    """A pod that requests a tenth of a CPU, and a resizer that does not run."""
    found = read_pod(slim(pod_object(labels={"qioi.io/role": "peer"})))
    assert found is not None
    pod = replace(found, cpu=CpuRequest(asked="100m"))
    api = Api(Access("http://127.0.0.1:9"))
    requests = PodRequests(Resizer(api, folder, lambda: {pod.uid: pod}, followed))
    requests.view = View((one,), pods={one.name: pod}, resized=frozenset({"red"}))
    return requests


def test_what_is_in_force_is_the_requests_and_said_to_be(tmp_path: Path) -> None:
    one = Component("peer0", Role.PEER, "pod/p", ("red",))
    requests = make(tmp_path, one)
    asked = shares_of(100)
    assert requests.in_force(one, FOUND) == InForce(asked, asked, FOUND.placement, by_request=True)


def test_a_pod_without_such_a_policy_has_what_its_groups_say(tmp_path: Path) -> None:
    one = Component("peer0", Role.PEER, "pod/p", ("blue",))
    requests = make(tmp_path, one)
    assert requests.in_force(one, FOUND) is FOUND


def test_until_a_request_is_restored_no_files_are_written(tmp_path: Path) -> None:
    """The kubelet refuses it, and may write the files at any time."""
    one = Component("peer0", Role.PEER, "pod/p", ("red",))
    requests = make(tmp_path, one)
    requests.in_force(one, FOUND)
    decision = Decision("peer0", 102, 400, "r", channel="red")
    assert requests.take([decision]).components == {"peer0"}
    (pod,) = requests.view.pods.values()
    record = requests._resizer.record(pod.uid)
    assert record is not None
    requests._resizer._refuse(record, "Deferred: no room")
    requests.in_force(one, FOUND)
    taken = requests.take([decision])
    said = "Deferred: no room: once its request is restored, its files are written instead"
    assert (taken.components, requests.why_files) == ({"peer0"}, {"peer0": said})


def test_once_a_request_is_restored_files_are_written(tmp_path: Path) -> None:
    """Also where its annotation cannot be erased."""
    one = Component("peer0", Role.PEER, "pod/p", ("red",))
    requests = make(tmp_path, one)
    requests.in_force(one, FOUND)
    decision = Decision("peer0", 102, 400, "r", channel="red")
    requests.take([decision])
    (pod,) = requests.view.pods.values()
    states = requests._resizer._states
    states.change(pod.uid, lambda state: state.refuse(float("inf"), "Deferred: no room").leave_noted())
    assert requests.in_force(one, FOUND) is FOUND
    taken = requests.take([decision])
    assert (taken.components, requests.moves(pod.uid)) == (frozenset(), False)
    assert taken.notes == {"peer0": "Deferred: no room: its files are written instead"}


def test_while_the_server_is_away_files_are_written(tmp_path: Path) -> None:
    """A pod whose request is moved already stays as it is."""
    one, followed = Component("peer0", Role.PEER, "pod/p", ("red",)), [False]
    requests = make(tmp_path, one, lambda: followed[0])
    decision = Decision("peer0", 102, 400, "r", channel="red")
    assert requests.in_force(one, FOUND) is FOUND
    taken = requests.take([decision])
    assert (taken.components, taken.notes) == (
        frozenset(),
        {"peer0": "the API server is away: its files are written instead"},
    )
    followed[0] = True
    requests.in_force(one, FOUND)
    assert requests.take([decision]).components == {"peer0"}
    followed[0] = False
    requests.in_force(one, FOUND)
    assert requests.take([decision]).components == {"peer0"}
