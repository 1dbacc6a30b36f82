"""Which policies a node watches, and what it makes of those that it only lists, against a real API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pytest
from demo_k8s.control_plane import PATIENCE, ControlPlane, until
from demo_k8s.objects import add_policy, policies_path, policy_path
from k8s_node import stop_server
from k8s_policy_objects import change_policy

import qioi.kubernetes.policy_watch
from qioi.kubernetes.client import Api
from qioi.kubernetes.policy_watch import Looks, PolicyWatch, size
from qioi.kubernetes.reflector import Reflector

pytestmark = pytest.mark.slow
NEVER = 3600.0


@pytest.fixture
def other(plane: ControlPlane, namespace: str) -> str:
    """A second namespace."""
    name = f"{namespace}-other"
    plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return name


def add(plane: ControlPlane, namespace: str, name: str = "red") -> None:
    add_policy(plane, namespace, name, threshold=50)
    # Lists are of what the server has at hand, which is a little behind.
    until(lambda: plane.call("GET", f"{policies_path(namespace)}?resourceVersion=0")["items"], "it is at hand")


class Copy:
    """The thresholds of the policies that were said last, by namespace and name, and when they were looked at."""

    def __init__(self) -> None:
        self.said: Mapping[str, Any] = {}
        self.looks = Looks()

    def take(self, objects: Mapping[str, Any], looks: Looks) -> None:
        self.looks = looks
        self.said = {
            f"{one['metadata']['namespace']}/{one['metadata']['name']}": one["spec"]["threshold"]
            for one in objects.values()
        }


@contextmanager
def watching(api: Api) -> Iterator[tuple[PolicyWatch, Copy]]:
    """Watch, from the first complete list on."""
    copy = Copy()
    with closing(PolicyWatch(api, copy.take)) as watch:
        watch.start()
        assert watch.wait(PATIENCE)
        yield watch, copy


def test_a_change_is_sent_to_the_nodes_with_pods_beside_it_and_to_no_other(
    plane: ControlPlane, namespace: str, other: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qioi.kubernetes.policy_watch, "LEAST", NEVER)
    add(plane, namespace)
    add(plane, other)
    with watching(api) as (watch, copy):
        assert (copy.said[f"{namespace}/red"], copy.said[f"{other}/red"]) == (50, 50)
        watch.follow({namespace})
        until(lambda: api.requests["watch", "200"] == 1, "one namespace is watched")
        change_policy(plane, other, "red", threshold=70)  # the first of the two
        change_policy(plane, namespace, "red", threshold=60)
        until(lambda: copy.said[f"{namespace}/red"] == 60, "the change beside its pods is seen")
        assert copy.said[f"{other}/red"] == 50
        plane.call("DELETE", policy_path(namespace, "red"))
        until(lambda: f"{namespace}/red" not in copy.said, "its end is seen")
        assert watch.problem is None


def test_all_others_are_seen_by_the_next_list(
    plane: ControlPlane, namespace: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qioi.kubernetes.policy_watch, "LEAST", 0.2)
    monkeypatch.setattr(qioi.kubernetes.policy_watch, "EACH", 0.0)
    with watching(api) as (_, copy):
        add(plane, namespace)
        until(lambda: copy.said.get(f"{namespace}/red") == 50, "the new one is seen")
        before = copy.looks.listed
        until(lambda: copy.looks.listed > before, "it is listed again")
        plane.call("DELETE", policy_path(namespace, "red"))
        until(lambda: f"{namespace}/red" not in copy.said, "its end is seen")
    assert api.requests["watch", "200"] == 0


def test_what_was_followed_last_stays_known_when_the_last_pod_has_gone(
    plane: ControlPlane, namespace: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qioi.kubernetes.policy_watch, "LEAST", NEVER)
    add(plane, namespace)
    with watching(api) as (watch, copy):
        watch.follow({namespace})
        change_policy(plane, namespace, "red", threshold=60)
        until(lambda: copy.said[f"{namespace}/red"] == 60, "the change is seen")
        assert copy.looks.watched == {namespace}
        watch.follow(())
        assert copy.looks.watched == frozenset()
        change_policy(plane, namespace, "red", threshold=70)
        watch.follow({f"{namespace}-none"})  # whose list says all policies again
        until(lambda: api.requests["watch", "200"] == 2, "another namespace is watched")
        assert copy.said[f"{namespace}/red"] == 60


def test_policies_of_a_namespace_that_was_followed_too_shortly_to_be_listed_stay_known(
    plane: ControlPlane, namespace: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod that comes back would be without a policy until the next list of all."""
    monkeypatch.setattr(qioi.kubernetes.policy_watch, "LEAST", NEVER)
    add(plane, namespace)
    with watching(api) as (watch, copy):
        until(lambda: copy.said.get(f"{namespace}/red") == 50, "it is listed")
        monkeypatch.setattr(Reflector, "start", lambda _: None)  # the server takes its time
        watch.follow({namespace})
        watch.follow(())
        assert copy.said[f"{namespace}/red"] == 50


def test_a_server_that_is_away_is_said_and_what_was_found_stays(
    plane: ControlPlane, namespace: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qioi.kubernetes.policy_watch, "LEAST", 0.2)
    monkeypatch.setattr(qioi.kubernetes.policy_watch, "EACH", 0.0)
    add(plane, namespace)
    with watching(api) as (watch, copy):
        stop_server(plane)
        try:
            until(lambda: watch.problem, "that it is away is said")
            assert "what was found stays" in str(watch.problem)
            assert copy.said[f"{namespace}/red"] == 50
        finally:
            plane.start_server()
        until(lambda: watch.problem is None, "that it is back is seen")


def test_a_namespace_that_is_followed_is_at_least_as_it_was_listed(
    plane: ControlPlane, namespace: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its watch has nothing yet to say while the server is away."""
    monkeypatch.setattr(qioi.kubernetes.policy_watch, "LEAST", NEVER)
    add(plane, namespace)
    with watching(api) as (watch, copy):
        stop_server(plane)
        try:
            watch.follow({namespace})
            until(lambda: watch.problem, "that it is away is said")
            assert copy.said[f"{namespace}/red"] == 50
        finally:
            plane.start_server()
        # Its problem is over once it has been listed, a moment before the watch is answered.
        until(lambda: api.requests["watch", "200"] == 1, "it is followed")
        assert watch.problem is None


def test_the_more_there_is_to_list_the_larger_its_size() -> None:
    node = {"name": "n", "observedAt": ""}
    assert size([]) == 0
    assert size([{"metadata": {}}, {"status": {}}, {"status": {"nodes": [node, node], "components": [node]}}]) == 6
