"""When another node's words in a policy's status are taken for those of a lost one."""

from __future__ import annotations

from typing import Any

from k8s_objects import policy_object

from qioi.kubernetes.absence import LOST, SPREAD, Absences
from qioi.kubernetes.policies import Judged, judge


def judged(nodes: dict[str, str], components: tuple[str, ...] = ()) -> tuple[Judged, ...]:
    status: dict[str, Any] = {"nodes": [{"name": name, "observedAt": stamp} for name, stamp in nodes.items()],
                              "components": [{"name": f"p-{node}", "node": node} for node in components]}  # fmt: skip
    return judge([{**policy_object(), "status": status}])


def lost(absences: Absences, now: float, nodes: dict[str, str], components: tuple[str, ...] = ()) -> list[str]:
    return [node for _, node in absences.lost(judged(nodes, components), now)]


def test_who_renews_is_there() -> None:
    absences = Absences("n1", 0.0)
    for number in range(20):
        assert lost(absences, number * 300.0, {"n2": f"t{number}"}) == []


def test_who_does_not_is_lost_once_until_tried_again() -> None:
    absences, nodes = Absences("n1", 0.0), {"n1": "t", "n2": "t"}
    assert lost(absences, 0.0, nodes) == []
    assert lost(absences, LOST - 1, nodes) == []
    assert lost(absences, LOST, nodes) == ["n2"]
    assert lost(absences, LOST + 1, nodes) == []
    assert lost(absences, 2 * LOST, nodes) == ["n2"]


def test_a_component_without_its_nodes_entry_is_seen_too() -> None:
    absences = Absences("n1", 0.0)
    lost(absences, 0.0, {}, ("n3",))
    assert lost(absences, LOST, {}, ("n3",)) == ["n3"]


def test_its_age_counts_from_when_it_came() -> None:
    absences = Absences("n1", 0.0)
    lost(absences, 0.0, {"n2": "1970-01-01T00:00:00Z"})
    lost(absences, 500.0, {"n2": "t"})
    assert lost(absences, LOST, {"n2": "t"}) == []
    assert lost(absences, LOST + 500, {"n2": "t"}) == ["n2"]


def test_nodes_wait_differently() -> None:
    early, late = Absences("n1", 0.0), Absences("n3", 1.0)
    for one in (early, late):
        lost(one, 0.0, {"n2": "t"})
    assert lost(early, LOST, {"n2": "t"}) == ["n2"]
    assert lost(late, LOST + SPREAD - 1, {"n2": "t"}) == []
    assert lost(late, LOST + SPREAD, {}) == []  # the early one has done it
