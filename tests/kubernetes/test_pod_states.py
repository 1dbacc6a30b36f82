"""What becomes of a pod's state, by what happens to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from k8s_objects import pod_object

from qioi.kubernetes.pod_states import NEVER, UNKNOWN, Failure, PodState, PodStates
from qioi.kubernetes.pods import read_pod, slim
from qioi.kubernetes.resizes import Record

RECORD = Record("fab", "peer0", "u", "main", "100m", ours=(100, 400), wanted=400)
FULL = PodState(RECORD, (9.0, "why"), Failure(1.0), True, True, True, True, True, True, True, "problem")


def test_what_is_dropped_leaves_what_others_have_done_to_the_pod() -> None:
    assert FULL.drop() == PodState(refused=FULL.refused, foreign=True, erased=True, untold=True)
    assert FULL.succeed() == replace(FULL, failed=NEVER, forbidden=False, kept=False, restored=False, problem=None)


@pytest.mark.parametrize("there", [True, False])
def test_of_a_pod_that_is_gone_only_its_record_stays(there: bool) -> None:
    """The record goes with the round that finds it gone."""
    seen = FULL.see(there, noted=False)
    assert (seen.record, seen.refused is not None, seen.foreign) == (RECORD, there, there)
    assert (seen.erased, seen.untold) == (False, False)
    states = PodStates()
    states.set("u", problem="the journal cannot be written")
    states.change_all(lambda uid, one: one.see(there, noted=False))
    assert bool(states.all()) == there


@pytest.mark.parametrize("field", ["foreign", "forbidden", "kept", "failed"])
def test_what_the_server_or_the_kubelet_refuses_is_not_waited_for(field: str) -> None:
    restoring = PodState(RECORD)
    assert restoring.is_restoring
    hindered = {"foreign": True, "forbidden": True, "kept": True, "failed": Failure(0.0, refused=True)}[field]
    assert not replace(restoring, **{field: hindered}).is_restoring  # type: ignore[arg-type]
    assert not UNKNOWN.is_restoring


def test_what_is_wanted_meanwhile_stays() -> None:
    states = PodStates()
    states.set("u", record=RECORD)
    states.change("u", PodState.let_go)
    states.change("u", lambda one: one.keep(replace(RECORD, noted=True)))
    assert states.of("u").record == replace(RECORD, noted=True, wanted=None)
    states.change("u", lambda one: one.take_up(RECORD, stray=True))  # what its annotation says is older
    assert states.of("u") == PodState(replace(RECORD, noted=True, wanted=None))


def test_a_pod_that_is_wanted_is_no_stray_and_one_that_nobody_wants_has_no_state() -> None:
    pod = read_pod(slim(pod_object(labels={"qioi.io/role": "peer"})))
    assert pod is not None
    assert PodState(RECORD, stray=True).want(pod, 200) == PodState(replace(RECORD, wanted=196))
    assert PodState(RECORD, restored=True).want(pod, 200) == PodState(replace(RECORD, wanted=196))
    assert PodState(RECORD, restored=True).want(pod, None).restored
    assert UNKNOWN.want(pod, None) == UNKNOWN
    states = PodStates()
    states.set("u", record=RECORD, stray=True)
    assert states.entries() == []
    states.change("u", PodState.drop)
    assert states.all() == {}
