"""The verdict on a policy: which node writes it, and when it is written again."""

from __future__ import annotations

from typing import Any

from k8s_objects import policy_object

from qioi.kubernetes.policies import Judged, judge, slim_policy
from qioi.kubernetes.reports import HEARTBEAT, PAUSE, Said, Sight, condition, due, due_verdict, verdict

WALL = 1_800_000_000.0


def judged(status: dict[str, Any] | None = None, **spec: Any) -> Judged:
    return judge([{**policy_object(**spec), "status": status or {}}])[0]


def test_a_node_adds_a_verdict_where_there_is_none() -> None:
    new = due_verdict(judged(), None, 0.0, WALL)
    assert new is not None
    status = new["status"]
    assert (status["observedGeneration"], status["conditions"][0]["reason"]) == (1, "InForce")
    assert set(status) == {"observedGeneration", "conditions"}
    assert due_verdict(judged({"conditions": status["conditions"]}), None, 0.0, WALL) is None
    assert due(Sight("n9", "files", judged(), None), None, 0.0, WALL) is None


def test_a_verdict_that_does_not_come_is_added_again_rarely_and_another_soon() -> None:
    before = Said(verdict(judged(), WALL), at=0.0)
    assert due_verdict(judged(), before, HEARTBEAT - 1, WALL) is None
    assert due_verdict(judged(), before, HEARTBEAT, WALL) is not None
    refused = judged(selectors={"peers": {"matchExpressions": [{"key": "a", "operator": "Never"}]}})
    assert due_verdict(refused, before, PAUSE - 1, WALL) is None
    assert due_verdict(refused, before, PAUSE, WALL) is not None


def test_a_refused_policy_names_the_one_that_has_its_channel_now() -> None:
    """Which one that is changes while the refused policy stays as it is."""
    first, second, refused = (policy_object(name, age=age) for name, age in (("a", 9), ("b", 5), ("c", 1)))
    before = condition(judge([first, second, refused])[2], WALL)
    assert before["message"].startswith("channel payments is a's:")
    kept = slim_policy({**refused, "status": {"conditions": [before]}})
    assert due_verdict(judge([first, second, kept])[2], None, 0.0, WALL) is None
    new = due_verdict(judge([second, kept])[1], None, 0.0, WALL + 500)
    assert new is not None
    (after,) = new["status"]["conditions"]
    assert after == {**before, "message": before["message"].replace("a's", "b's")}


def test_other_words_for_a_verdict_are_no_reason_to_write_it_again() -> None:
    """Else nodes of two versions would write over each other's, again and again."""
    known = {**condition(judged(), WALL), "message": "by another version"}
    assert due_verdict(judged({"conditions": [known]}), None, 0.0, WALL) is None


def test_a_verdict_that_stays_keeps_its_time() -> None:
    first = verdict(judged(), WALL)["status"]
    later = verdict(judged(first), WALL + 500)["status"]
    assert later["conditions"] == first["conditions"]
