"""When another node's words in a policy's status are taken for those of a lost one."""

from __future__ import annotations

from typing import Any

from k8s_objects import policy_object

from qioi.kubernetes.absence import LOST, SPREAD, Absences
from qioi.kubernetes.policies import judge
from qioi.kubernetes.policy_watch import Looks
from qioi.kubernetes.reports import Sight


def sight(nodes: dict[str, str], components: tuple[str, ...], looked: float | None) -> Sight:
    status: dict[str, Any] = {"nodes": [{"name": name, "observedAt": stamp} for name, stamp in nodes.items()],
                              "components": [{"name": f"p-{node}", "node": node} for node in components]}  # fmt: skip
    (judged,) = judge([{**policy_object(), "status": status}])
    return Sight("n1", "files", judged, None, looked=looked)


def lost(absences: Absences, now: float, nodes: dict[str, str], components: tuple[str, ...] = ()) -> list[str]:
    """Look at the policy now, as at one that is watched."""
    return [node for _, node in absences.lost([sight(nodes, components, now)], now)]


def lost_by_list(absences: Absences, now: float, stamp: str, listed: float | None) -> list[str]:
    """Use what a list of long ago said; ``None``: what is known may be outdated."""
    return [node for _, node in absences.lost([sight({"n2": stamp}, (), listed)], now)]


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


def test_a_watched_policy_is_looked_at_now_and_a_listed_one_at_its_list() -> None:
    looks = Looks(7.0, frozenset({"fab"}))
    assert (looks.last("fab", 9.0), looks.last("other", 9.0)) == (9.0, 7.0)


def test_a_node_is_not_lost_because_nobody_looks() -> None:
    """On a large cluster a policy is listed more rarely than a node is waited for."""
    absences = Absences("n1", 0.0)
    every = LOST + SPREAD
    for number in range(5):
        listed = number * every
        for later in (1.0, LOST, every - 1):
            assert lost_by_list(absences, listed + later, f"t{number}", listed) == []


def test_two_lists_far_apart_tell_who_is_lost() -> None:
    absences = Absences("n1", 0.0)
    assert lost_by_list(absences, 1.0, "t", 0.0) == []
    assert lost_by_list(absences, LOST + 1, "t", LOST / 2) == []
    assert lost_by_list(absences, LOST + 2, "t", LOST + 1) == ["n2"]


def test_nobody_is_lost_by_an_outage() -> None:
    """While the server is away nobody can renew; afterwards each has its time again."""
    absences = Absences("n1", 0.0)
    assert lost_by_list(absences, 0.0, "t", 0.0) == []
    for now in (10.0, LOST, 2 * LOST):
        assert lost_by_list(absences, now, "t", None) == []
    back = 2 * LOST + 1
    assert lost(absences, back, {"n2": "t"}) == []
    assert lost(absences, back + LOST - 1, {"n2": "t"}) == []
    assert lost(absences, back + LOST, {"n2": "t"}) == ["n2"]


def test_what_is_forgotten_counts_anew() -> None:
    absences = Absences("n1", 0.0)
    lost(absences, 0.0, {"n2": "t"})
    absences.forget()
    assert lost(absences, LOST, {"n2": "t"}) == []
    assert lost(absences, 2 * LOST, {"n2": "t"}) == ["n2"]
