"""What a node says in a policy's status, how rarely, and how long others believe it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from k8s_objects import policy_object
from msgspec.structs import replace

from qioi.controller.levels.placement import Placement
from qioi.kubernetes.policies import Judged, judge
from qioi.kubernetes.policy_watch import Looks
from qioi.kubernetes.remote import FORGET, FRESH, Reports
from qioi.kubernetes.reports import (
    ALIVE,
    HEARTBEAT,
    IDLE,
    MISSED,
    PAUSE,
    RENEW,
    SETTLED,
    LastDecision,
    Row,
    Said,
    Sight,
    body,
    due,
    is_active,
    stamp,
)
from qioi.show.snapshot import ChannelState, ComponentState

WALL = 1_800_000_000.0
WATCHED = Looks(0.0, frozenset({"fab"}), frozenset({"fab"}))
LISTED = Looks(0.0)
#: Right after a gap in the watch.
RESUMED = Looks(0.0, frozenset({"fab"}))


def judged(status: dict[str, Any] | None = None, **spec: Any) -> Judged:
    return judge([{**policy_object(**spec), "status": status or {}}])[0]


def sight(node: str = "n1", *, tps: float = 100.0, shares: int = 1024, age: float = 0.5, waiting: float = 0.1,
          status: dict[str, Any] | None = None, committing: bool = True,
          active_for: float = SETTLED, lost: bool = False) -> Sight:  # fmt: skip
    state = ComponentState("fab/peer0", "peer", "g", share=shares, original=1024, delay=0.001, waiting_share=waiting)
    channel = ChannelState("fab/payments", "adaptive", 120.0, tps, age, 7)
    rows = (Row("peer0", "peer", "Burstable", "pod", state),)
    alive = frozenset(() if lost else (one["name"] for one in (status or {}).get("nodes", ())))
    active_for = active_for if age < IDLE else 0.0
    return Sight(node, "files", judged(status), channel, rows, committing, active_for, alive=alive)


def said(one: Sight, at: float = 0.0) -> Said:
    return Said(body(one, WALL), one.rows, at)


def test_a_long_reason_for_a_means_is_cut() -> None:
    one = dataclasses.replace(sight(), actuator="x" * 5000)
    assert len(body(one, WALL)["status"]["nodes"][0]["actuator"]) == 1024


def test_a_problem_with_pods_is_said_where_there_is_no_component_and_taken_back() -> None:
    lost = dataclasses.replace(sight(committing=False), rows=(), problem="kubelet: no group")
    new = due(lost, None, 0.0, WALL)
    assert new is not None
    assert new["status"]["nodes"][0]["problem"] == "kubelet: no group"
    assert "components" not in new["status"]
    before = Said(new, (), 0.0)
    assert due(lost, before, HEARTBEAT - 1, WALL) is None
    assert due(lost, before, HEARTBEAT, WALL) is not None
    over = due(dataclasses.replace(lost, problem=None), before, PAUSE, WALL)
    assert over is not None
    assert "status" not in over


def test_the_first_word() -> None:
    status = body(sight(), WALL)["status"]
    assert status["throughput"] == 100.0
    assert status["threshold"] == 120.0
    assert status["interference"] == 10
    assert not status.keys() & {"observedGeneration", "conditions"}  # the verdict's, of all nodes
    assert status["nodes"] == [
        {"name": "n1", "observedAt": stamp(WALL), "actuator": "files", "interference": 10,
         "throughput": 100.0, "commitAgeSeconds": 0.5},
    ]  # fmt: skip
    assert status["components"][0] == {
        "name": "peer0", "node": "n1", "role": "peer", "qosClass": "Burstable", "level": "pod",
        "actuator": "files", "shares": 1024,
        "original": 1024, "delayMicroseconds": 1000, "waitingPercent": 10, "reason": "not looked at yet",
    }  # fmt: skip


def test_nothing_is_written_while_nothing_changes() -> None:
    idle = sight(age=RENEW)
    before = said(idle)
    assert due(idle, before, HEARTBEAT - 1, WALL + HEARTBEAT) is None
    assert due(idle, before, HEARTBEAT, WALL + HEARTBEAT) is not None
    restless_state = replace(idle.rows[0].state, delay=0.9, reason="x", placement=Placement(("g",), "beside g"))
    restless = dataclasses.replace(idle, rows=(dataclasses.replace(idle.rows[0], state=restless_state),))
    assert due(restless, before, HEARTBEAT - 1, WALL) is None


@pytest.mark.parametrize(
    ("looked", "taken", "there", "written"),
    [
        (MISSED, True, False, True),
        (MISSED - 0.1, True, False, False),  # what was written may not have been seen yet
        (None, True, False, False),
        (MISSED, False, False, False),  # the server has refused it for good
        (MISSED, True, True, False),
    ],
)
def test_entries_that_somebody_has_removed_are_written_again(
    looked: float | None, taken: bool, there: bool, written: bool
) -> None:
    status = {"nodes": [{"name": "n1", "observedAt": stamp(WALL)}]} if there else {}
    idle = dataclasses.replace(sight(age=RENEW, status=status), looked=looked)
    before = dataclasses.replace(said(idle), taken=taken)
    assert (due(idle, before, MISSED + 1, WALL) is not None) == written


def test_a_change_is_written_but_not_too_often() -> None:
    before = said(sight())
    raised = sight(shares=4096)
    assert due(raised, before, PAUSE - 0.1, WALL) is None
    assert due(raised, before, PAUSE, WALL) is not None
    before.again = 2 * PAUSE
    assert due(raised, before, 2 * PAUSE - 1, WALL) is None
    assert due(raised, before, 2 * PAUSE, WALL) is not None


def test_small_moves_are_no_change_and_large_ones_are() -> None:
    before = said(sight(tps=100.0, waiting=0.10))
    assert due(sight(tps=104.0, waiting=0.13), before, RENEW - 1, WALL) is None
    assert due(sight(tps=110.0), before, RENEW - 1, WALL) is not None
    assert due(sight(waiting=0.16), before, RENEW - 1, WALL) is not None


def test_a_rate_is_renewed_while_commits_are_seen() -> None:
    before = said(sight())
    assert due(sight(), before, RENEW - 0.1, WALL) is None
    assert due(sight(), before, RENEW, WALL) is not None
    assert due(sight(age=30.0), before, RENEW, WALL) is None
    assert due(sight(committing=False), said(sight(committing=False)), RENEW, WALL) is None


def test_what_a_killed_daemon_of_this_node_left_is_removed() -> None:
    """No other node may do it: to them this one is alive."""
    for left in ({"nodes": [{"name": "n9"}]}, {"components": [{"name": "peer0", "node": "n9"}]}):
        new = due(Sight("n9", "files", judged(left), None), None, 0.0, WALL)
        assert new is not None
        assert "status" not in new
        assert due(Sight("n8", "files", judged(left), None), None, 0.0, WALL) is None
        assert due(Sight("n9", "files", judged(left), None), Said(at=0.0), PAUSE, WALL) is None  # it was


def test_one_of_the_nodes_that_see_commits_speaks_for_the_channel() -> None:
    other = {"nodes": [{"name": "n0", "throughput": 90.0, "observedAt": stamp(WALL - 5)}]}
    assert "throughput" not in body(sight("n1", status=other), WALL)["status"]
    assert "throughput" in body(sight("n1", status=other, lost=True), WALL)["status"]
    assert "throughput" in body(sight("m", status=other), WALL)["status"]
    assert "throughput" not in body(sight(committing=False), WALL)["status"]


def reported(*names: str, at: float = WALL) -> dict[str, Any]:
    return {"nodes": [{"name": name, "throughput": 90.0, "observedAt": stamp(at)} for name in names]}


def test_two_of_the_nodes_that_see_commits_report_the_rate() -> None:
    assert "throughput" in body(sight("n2", status=reported("n1")), WALL)["status"]["nodes"][0]
    third = sight("n3", status=reported("n1", "n2"))
    assert "throughput" not in body(third, WALL)["status"]["nodes"][0]
    assert "throughput" not in body(third, WALL)["status"]
    assert "throughput" in body(sight("n0", status=reported("n1", "n2")), WALL)["status"]["nodes"][0]


def test_a_node_that_does_not_report_the_rate_renews_its_entry_rarely() -> None:
    third = sight("n3", status=reported("n1", "n2", at=WALL + HEARTBEAT))
    before = Said(body(sight("n3", status=reported("n1", "n2")), WALL), third.rows, 0.0)
    assert due(third, before, HEARTBEAT - 1, WALL + HEARTBEAT - 1) is None
    assert due(third, before, HEARTBEAT, WALL + HEARTBEAT) is not None


def test_the_next_node_reports_the_rate_once_one_of_the_two_is_lost() -> None:
    status = reported("n1", "n2")
    before = Said(body(sight("n3", status=status), WALL), sight().rows, 0.0)
    assert due(sight("n3", status=status), before, PAUSE, WALL) is None
    new = due(sight("n3", status=status, lost=True), before, PAUSE, WALL)
    assert new is not None
    assert new["status"]["nodes"][0]["throughput"] == 100.0


def test_nodes_whose_peers_stall_keep_nobody_from_reporting_the_rate() -> None:
    stalled = reported("n1", "n2")
    for one in stalled["nodes"]:
        one["throughput"] = 0
    status = body(sight("n3", status=stalled), WALL)["status"]
    assert status["throughput"] == status["nodes"][0]["throughput"] == 100.0
    stalled["nodes"][1]["throughput"] = 90.0
    status = body(sight("n3", status=stalled), WALL)["status"]
    assert status["nodes"][0]["throughput"] == 100.0
    assert "throughput" not in status  # n2 speaks for the channel
    idle = sight("n3", tps=0.0, status=stalled, age=RENEW)
    assert "throughput" not in body(idle, WALL)["status"]["nodes"][0]


@pytest.mark.parametrize(("rate", "pause"), [(0.0, IDLE), (90.0, HEARTBEAT)])
def test_nobody_takes_over_where_commits_begin_again(rate: float, pause: float) -> None:
    """Entries of before the pause, which still say 0 or are old, are not those of stalled or lost nodes."""
    status = reported("n1", "n2")
    for one in status["nodes"]:
        one["throughput"] = rate
    before = Said(body(sight("n3", status=status, age=IDLE), WALL), sight().rows, 0.0)
    assert "throughput" not in before.body["status"]["nodes"][0]
    for seconds in (0.0, 1.0, SETTLED - 0.1):
        resumed = sight("n3", status=status, active_for=seconds, lost=True)
        assert due(resumed, before, pause - 1, WALL + pause) is None
    resumed = sight("n3", status=status, active_for=SETTLED, lost=True)
    assert due(resumed, before, pause - 1, WALL + pause) is not None


@pytest.mark.parametrize(("age", "active"), [(None, False), (0.0, True), (IDLE - 0.1, True), (IDLE, False)])
def test_a_channel_is_active_while_its_last_commit_is_new(age: float | None, active: bool) -> None:
    """One of which no commit was seen yet is idle: its rate is not renewed."""
    assert is_active(ChannelState("fab/payments", "adaptive", None, 0.0, age)) is active
    assert not is_active(None)


def test_nobody_takes_over_while_the_channel_is_idle() -> None:
    idle = sight("n3", status=reported("n1", "n2"), age=10 * ALIVE)
    before = Said(body(idle, WALL), idle.rows, 0.0)
    assert due(idle, before, HEARTBEAT - 1, WALL + 10 * ALIVE) is None
    assert "throughput" not in before.body["status"]["nodes"][0]


def test_the_last_decision_is_the_newest_of_all_nodes() -> None:
    decision = LastDecision(WALL, "peer0", "shares 1024 -> 2048: waits")
    known = {"lastDecision": {"node": "n2", "time": stamp(WALL + 5)}}
    assert "lastDecision" in body(dataclasses.replace(sight(), decision=decision), WALL)["status"]
    assert "lastDecision" not in body(dataclasses.replace(sight(status=known), decision=decision), WALL)["status"]


def reports_of(node: str) -> Reports:
    """Give the reports at a node that has read the policy when nobody had reported yet."""
    reports = Reports(node)
    reports.take([judged()], 0.0, WATCHED)
    return reports


def heard(at: float, status: dict[str, Any], reports: Reports) -> None:
    reports.take([judged(status)], at, WATCHED)


@pytest.mark.parametrize("ahead", [0.0, -3600.0, 3600.0])
def test_a_node_is_alive_by_when_its_report_came_whatever_its_clock_says(ahead: float) -> None:
    reports = Reports("n3")
    for now in (100.0, 100.0 + RENEW):
        reports.take([judged(reported("n1", at=WALL + ahead + now))], now, WATCHED)
    assert reports.alive("fab/payments", 100.0 + RENEW + ALIVE - 1) == {"n1"}
    assert reports.alive("fab/payments", 100.0 + RENEW + ALIVE) == set()
    assert reports.alive("fab/other", 0.0) == set()


def test_what_another_node_reports_ages_from_when_it_came() -> None:
    reports = reports_of("n2")
    heard(100.0, body(sight("n1"), WALL)["status"], reports)
    new = reports.reading("fab/payments", 100.0 + FRESH)
    assert new is not None
    assert (new.throughput, new.age, new.height) == (100.0, 0.5, None)
    old = reports.reading("fab/payments", 100.0 + FRESH + 10)
    assert old is not None
    assert old.age == 10.5
    assert reports.reading("fab/payments", 100.1 + FORGET) is None


@pytest.mark.parametrize(
    ("ages", "came", "asked", "counts"),
    [
        ((7.0, 0.5), (105.0, 100.0), 110.0, "n2"),  # n1's peer stalls
        ((0.5, 0.5), (105.0, 100.0), 110.0, "n1"),  # alike: the newer one
        ((0.5, 0.5), (100.0, 105.0), 110.0, "n2"),
        ((0.5, 5.0), (100.0, 130.0), 130.0, "n2"),  # the other one was not renewed
        ((0.5, 90.0), (100.0, 150.0), 100.1 + FORGET, "n2"),  # the other one is forgotten
    ],
)
def test_the_report_with_the_least_age_counts(
    ages: tuple[float, float], came: tuple[float, float], asked: float, counts: str
) -> None:
    reports, rates = reports_of("n9"), {"n1": 10.0, "n2": 20.0}
    entries = {
        name: {"name": name, "observedAt": stamp(WALL + at), "throughput": rates[name], "commitAgeSeconds": age}
        for name, age, at in zip(rates, ages, came, strict=True)
    }
    known: dict[str, Any] = {}
    for name in sorted(entries, key=lambda one: came[list(rates).index(one)]):
        known[name] = entries[name]
        heard(came[list(rates).index(name)], {"nodes": list(known.values())}, reports)
    reading = reports.reading("fab/payments", asked)
    assert reading is not None
    assert reading.throughput == rates[counts]


@pytest.mark.parametrize("since", [0.0, 1.0, RENEW - 1.0])
def test_what_was_reported_before_the_start_counts_once_it_is_renewed(since: float) -> None:
    """It may be a dead node's of minutes ago. A living one renews it within a period."""
    reports = Reports("n2")
    for now in range(int(2 * RENEW)):
        renewals = (since + now) // RENEW
        heard(float(now), reported("n1", at=WALL + renewals * RENEW), reports)
        assert (reports.reading("fab/payments", float(now)) is not None) == (renewals > 0)
    dead = Reports("n2")
    for now in range(int(FORGET)):  # others write the status meanwhile
        heard(float(now), {**reported("n1"), "observedGeneration": now}, dead)
        assert dead.reading("fab/payments", float(now)) is None


@pytest.mark.parametrize("pause", [0.0, 5.0, 60.0])
def test_what_was_only_listed_counts_from_its_first_change_under_watch(pause: float) -> None:
    """A list is up to minutes apart from the one before, so what it brings is of any age, and so is a watch's first."""
    reports = Reports("n2")
    for at, stamped, looks in ((0.0, 0.0, LISTED), (100.0, 50.0, LISTED), (101.0, 60.0, WATCHED)):
        reports.take([judged(reported("n1", at=WALL + stamped))], at, looks)
        assert reports.reading("fab/payments", at) is None
    reports.take([judged(reported("n1", at=WALL + 101.0 + pause))], 101.0 + pause, WATCHED)
    assert reports.reading("fab/payments", 101.0 + pause) is not None


@pytest.mark.parametrize("looks", [LISTED, RESUMED])
def test_what_may_have_been_made_long_ago_is_not_new(looks: Looks) -> None:
    """What is known counts for as long as it would without it, and its node is alive."""
    reports = reports_of("n2")
    heard(100.0, {"nodes": [entry(20.0, WALL + 100.0)]}, reports)
    reports.take([judged({"nodes": [entry(30.0, WALL + 115.0)]})], 130.0, looks)
    reading = reports.reading("fab/payments", 130.0)
    assert reading is not None
    assert reading.throughput == 20.0
    assert reports.reading("fab/payments", 100.1 + FORGET) is None
    assert reports.alive("fab/payments", 130.0 + ALIVE - 1) == {"n1"}
    reports.take([judged({"nodes": [entry(40.0, WALL + 200.0)]})], 200.0, looks)
    assert reports.reading("fab/payments", 200.0) is None
    assert reports.alive("fab/payments", 200.0) == {"n1"}


def test_after_a_gap_in_the_watch_the_first_renewal_counts() -> None:
    reports = reports_of("n2")
    for at, looks in ((100.0, WATCHED), (190.0, RESUMED), (200.0, WATCHED)):
        reports.take([judged({"nodes": [entry(at, WALL + at)]})], at, looks)
        reading = reports.reading("fab/payments", at)
        assert (reading is not None) == (looks is WATCHED)
        assert reading is None or reading.throughput == at


def entry(throughput: float, at: float) -> dict[str, Any]:
    return {"name": "n1", "observedAt": stamp(at), "throughput": throughput, "commitAgeSeconds": 0.5}


def test_the_same_report_again_is_no_news() -> None:
    reports = reports_of("n2")
    status = body(sight("n1"), WALL)["status"]
    heard(100.0, status, reports)
    heard(150.0, status, reports)
    assert reports.reading("fab/payments", 100.1 + FORGET) is None
    heard(150.0, body(sight("n1"), WALL + 20)["status"], reports)
    assert reports.reading("fab/payments", 151.0) is not None


def test_a_policy_that_has_not_changed_keeps_its_reports() -> None:
    reports, told = reports_of("n2"), judged(body(sight("n1"), WALL)["status"])
    for at in (100.0, 150.0):
        reports.take([told], at, WATCHED)
    assert reports.reading("fab/payments", 100.0 + FORGET) is not None
    assert reports.reading("fab/payments", 100.1 + FORGET) is None
    reports.take([], 151.0, WATCHED)
    assert reports.reading("fab/payments", 101.0) is None


def test_a_node_does_not_believe_itself_nor_nonsense() -> None:
    reports = reports_of("n1")
    heard(0.0, body(sight("n1"), WALL)["status"], reports)
    assert reports.reading("fab/payments", 0.0) is None
    for nonsense in ({"throughput": -1}, {"throughput": "much"}, {"throughput": 1e12}, {}):
        heard(0.0, {"nodes": [{"name": "n3", "observedAt": "now", **nonsense}]}, reports)
        assert reports.reading("fab/payments", 0.0) is None
