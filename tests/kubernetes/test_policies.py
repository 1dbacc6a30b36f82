"""From IsolationPolicy objects to policies in force, and to the pods that they speak of."""

from __future__ import annotations

import json
from typing import Any

import pytest
from deciding import decide
from k8s_objects import pod_object, policy_object

from qioi.controller.deciding import Controller
from qioi.kubernetes.cgroups import Driver, Layout
from qioi.kubernetes.cluster import look
from qioi.kubernetes.pods import read_pod
from qioi.kubernetes.policies import Judge, judge, slim_policy

#: A requirement that a pod without labels does not meet.
EXISTS = {"key": "a", "operator": "Exists"}
#: One with an operator that there is not.
IS = {"key": "a", "operator": "Is"}
BAD_OPERATOR = "selectors: operator 'Is': accepted are In, NotIn, Exists, DoesNotExist"


def test_a_policy_is_read() -> None:
    bounds = {"floor": 512, "ceiling": 8192}
    spec = {"threshold": 400, "law": "proportional", "k": 2, "bounds": bounds, "beyond": "ledger"}
    (one,) = judge([policy_object(**spec)])
    assert one.policy is not None
    assert (one.policy.channel, one.policy.threshold, one.policy.law) == ("fab/payments", 400.0, "proportional")
    assert (one.policy.k, one.policy.floor, one.policy.ceiling, one.policy.auto) == (2.0, 512, 8192, False)
    assert one.policy.beyond == "ledger"
    assert (one.reason, one.accepted) == ("InForce", True)


def test_what_is_left_out_is_as_the_schema_says() -> None:
    (one,) = judge([policy_object()])
    assert one.policy is not None
    assert (one.policy.law, one.policy.k, one.policy.ceiling, one.policy.auto) == ("adaptive", 4.0, None, True)
    assert one.policy.beyond == "neighbours"


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        ({"threshold": "fast"}, "BadThreshold", "threshold 'fast': accepted is a number"),
        ({"threshold": 0}, "BadThreshold", "threshold 0: accepted"),
        ({"threshold": True}, "BadThreshold", "threshold True: accepted"),
        ({"threshold": "inf"}, "BadThreshold", "threshold 'inf': accepted"),
        ({"channel": ""}, "BadChannel", "channel '': accepted is a channel's name"),
        ({"channel": "a/b"}, "BadChannel", "channel 'a/b': accepted"),
        ({"law": "pid"}, "BadLaw", "law 'pid': accepted are adaptive, proportional"),
        ({"beyond": "nobody"}, "BadBeyond", "beyond 'nobody': accepted are neighbours, ledger"),
        ({"k": 0}, "BadGain", "k 0: accepted is a number above 0 and up to 1000"),
        ({"k": 1001}, "BadGain", "k 1001: accepted"),
        ({"k": 10**400}, "BadGain", "accepted"),
        ({"k": "4"}, "BadGain", "k '4': accepted"),
        ({"bounds": {"floor": 1}}, "BadBounds", "bounds 1: accepted are shares from 2 to 262144"),
        ({"bounds": {"floor": 4096, "ceiling": 2048}}, "BadBounds", "floor 4096: accepted is at most the ceiling"),
        ({"bounds": {"ceiling": "big"}}, "BadBounds", "bounds 'big': accepted"),
        ({"selectors": {"peers": {"matchExpressions": [IS]}}}, "BadSelector", BAD_OPERATOR),
        ({"selectors": {"peers": {"matchExpressions": [{"operator": "In"}]}}}, "BadSelector",
         "selectors: 'key': accepted is what the schema says"),
        ({"selectors": {"peers": {"matchExpressions": [EXISTS, IS]}}}, "BadSelector", BAD_OPERATOR),
        ({"selectors": {"peers": {"matchLabels": {"a": "b"}, "matchExpressions": [IS]}}}, "BadSelector", BAD_OPERATOR),
        ({"selectors": {"peers": {"matchLabels": ["a"], "matchExpressions": [EXISTS]}}}, "BadSelector",
         "selectors: 'list' object has no attribute 'items': accepted is what the schema says"),
    ],
)  # fmt: skip
def test_a_bad_one_is_said_and_the_others_go_on(spec: dict[str, Any], reason: str, message: str) -> None:
    bad, good = judge([policy_object("bad", **spec), policy_object("good", channel="other", priority=-1)])
    assert (bad.reason, bad.accepted) == (reason, False)
    assert message in bad.message
    assert good.accepted


@pytest.mark.parametrize(("size", "reason"), [(317, "InForce"), (2_000_000, "TooLarge")])
def test_of_a_specification_that_is_too_large_only_that_is_kept(size: int, reason: str) -> None:
    kept = slim_policy(policy_object(selectors={"peers": {"matchLabels": {"k" * size: "v"}}}))
    (one,) = judge([kept])
    assert (one.namespace, one.name, one.reason) == ("fab", "pay", reason)
    assert one.accepted or "accepted are at most" in one.message
    assert len(json.dumps(kept)) < 1_000


def test_what_the_schema_takes_at_most_is_kept() -> None:
    expressions = [{"key": "k" * 317, "operator": "NotIn", "values": ["v" * 63] * 64}] * 16
    labels = {f"{number:0>317}": "v" * 63 for number in range(32)}
    selector = {"matchLabels": labels, "matchExpressions": expressions}
    one = policy_object(channel="c" * 249, selectors=dict.fromkeys(("peers", "orderers", "chaincodes"), selector))
    assert slim_policy(one) == one


def test_one_channel_has_one_policy() -> None:
    young, old, important = (
        policy_object("young", age=1),
        policy_object("old", age=50),
        policy_object("important", priority=1),
    )
    assert [one.name for one in judge([young, old]) if one.accepted] == ["old"]
    assert [one.name for one in judge([young, old, important]) if one.accepted] == ["important"]
    refused = next(one for one in judge([young, old]) if not one.accepted)
    assert (refused.reason, refused.message) == (
        "ChannelTaken",
        "channel payments is old's: accepted is one policy for each channel",
    )


@pytest.mark.parametrize(("spec", "priority"), [({}, 0), ({"priority": 7}, 7), ({"priority": "high"}, 0)])
def test_what_is_more_important_keeps_its_boost_longer(spec: dict[str, Any], priority: int) -> None:
    (one,) = judge([policy_object(**spec)])
    assert one.policy is not None
    assert one.policy.priority == priority


def test_tenants_may_call_their_channels_alike() -> None:
    assert all(one.accepted for one in judge([policy_object(), policy_object(namespace="other")]))


PEER, ORDERER = {"qioi.io/role": "peer"}, {"qioi.io/role": "orderer"}


@pytest.mark.parametrize(
    ("spec", "labels", "namespace", "served"),
    [
        ({}, PEER, "fab", True),
        ({}, PEER, "elsewhere", False),
        ({}, {**PEER, "qioi.io/channel": "payments"}, "fab", True),
        ({}, {**PEER, "qioi.io/channel": "other"}, "fab", False),
        ({}, {"qioi.io/role": "client"}, "fab", False),
        ({}, {"qioi.io/role": "broker"}, "fab", True),
        ({"selectors": {"peers": {"matchLabels": {"org": "one"}}}}, {**PEER, "org": "one"}, "fab", True),
        ({"selectors": {"peers": {"matchLabels": {"org": "one"}}}}, {**PEER, "org": "two"}, "fab", False),
        ({"selectors": {"peers": {"matchLabels": {"org": "one"}}}}, ORDERER, "fab", True),
        ({"selectors": {"orderers": {}}}, {**ORDERER, "qioi.io/channel": "other"}, "fab", True),
        ({"selectors": {"peers": {"matchExpressions": [{"key": "org", "operator": "In", "values": ["one", "two"]}]}}},
         {**PEER, "org": "two"}, "fab", True),
        ({"selectors": {"peers": {"matchExpressions": [{"key": "org", "operator": "NotIn", "values": ["two"]}]}}},
         PEER, "fab", True),
        ({"selectors": {"peers": {"matchExpressions": [{"key": "org", "operator": "Exists"}]}}}, PEER, "fab", False),
        ({"selectors": {"peers": {"matchExpressions": [{"key": "org", "operator": "DoesNotExist"}]}}},
         PEER, "fab", True),
    ],
)  # fmt: skip
def test_which_pods_a_policy_speaks_of(
    spec: dict[str, Any], labels: dict[str, str], namespace: str, served: bool
) -> None:
    pod = read_pod(pod_object(labels=labels, namespace=namespace))
    assert pod is not None
    view = look((pod,), judge([policy_object(**spec)]), Layout(Driver.CGROUPFS), "/logs")
    assert [one.channels for one in view.components] == ([("fab/payments",)] if served else [])


@pytest.mark.parametrize(("main", "runs"), [("peer", True), ("couchdb", False)])
def test_a_pod_that_no_policy_covers_runs_if_its_main_container_does(main: str, runs: bool) -> None:
    raw = pod_object(labels={"qioi.io/role": "peer"}, containers=("couchdb", "peer"))
    raw["status"]["containerStatuses"] = [one for one in raw["status"]["containerStatuses"] if one["name"] == main]
    pod = read_pod(raw)
    assert pod is not None
    assert look((pod,), (), Layout(Driver.CGROUPFS), "/logs").running == ({pod.uid} if runs else set())


def test_shared_orderers_serve_every_channel() -> None:
    pod = read_pod(pod_object("orderer0", labels=ORDERER))
    assert pod is not None
    judged = judge([policy_object("a", channel="red"), policy_object("b", channel="blue", dryRun=True)])
    view = look((pod,), judged, Layout(Driver.CGROUPFS), "/logs")
    assert sorted(view.components[0].channels) == ["fab/blue", "fab/red"]
    assert view.dry_run == {"fab/blue"}


def test_a_pod_is_dry_only_where_all_its_policies_are() -> None:
    """What is asked for alike is the first one's, by name."""
    pod = read_pod(pod_object("orderer0", labels=ORDERER))
    assert pod is not None
    for real, expected in (({"resize": True}, "fab/red"), ({"resize": True, "dryRun": True}, "fab/blue")):
        judged = judge([policy_object("a", channel="blue", dryRun=True), policy_object("b", channel="red", **real)])
        view = look((pod,), judged, Layout(Driver.CGROUPFS), "/logs")
        decision = decide(Controller(view.policies), 1.0, view.components[0], 1024, 1024, {}, None, None)
        assert decision is not None
        assert decision.channel == expected
        assert view.resized == {"fab/red"} - view.dry_run


@pytest.mark.parametrize(
    "spec", [None, {"channel": "payments", "bounds": [1]}, {"channel": "x", "selectors": 1}, {"priority": "high"}, [1]]
)
def test_an_object_of_another_shape_is_refused_and_stops_no_other(spec: object) -> None:
    """The API server holds objects against the schema, but that may be an older one."""
    judged = judge([{**policy_object("odd"), "spec": spec}, policy_object("good", channel="red")])
    assert {one.name: one.accepted for one in judged} == {"odd": False, "good": True}


def test_what_has_not_changed_is_not_read_again() -> None:
    first, second = policy_object("pay", threshold=40), policy_object("bill", channel="bills", age=1)
    judging = Judge()
    before = {one.name: one for one in judging.judge([first, second])}
    changed = policy_object("pay", threshold=80)
    after = {one.name: one for one in judging.judge([changed, second])}
    assert after["bill"] is before["bill"]
    assert after["pay"].policy is not None
    assert after["pay"].policy.threshold == 80


def test_a_channel_is_free_again_once_the_policy_that_had_it_is_gone() -> None:
    older, newer = policy_object("older", age=9), policy_object("newer", age=1)
    judging = Judge()
    assert [(one.name, one.reason) for one in judging.judge([older, newer])] == [
        ("older", "InForce"),
        ("newer", "ChannelTaken"),
    ]
    assert [(one.name, one.reason) for one in judging.judge([newer])] == [("newer", "InForce")]
