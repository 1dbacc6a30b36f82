"""Slices and delays of threads from the scheduler's events, as perf prints them."""

from __future__ import annotations

import pytest

from qioi.commands.profile import describe, show
from qioi.monitor.profile.scheduling import Accountant, by_component, by_role


def switch(now: float, before: int, state: str, after: int, name: str = "peer") -> str:
    return (
        f"{now:.6f}:       sched:sched_switch: prev_comm={name} prev_pid={before} prev_prio=120 prev_state={state} "
        f"==> next_comm={name} next_pid={after} next_prio=120\n"
    )


def waking(now: float, tid: int) -> str:
    return f"{now:.6f}:       sched:sched_waking: comm=peer pid={tid} prio=120 target_cpu=001\n"


def fork(now: float, parent: int, child: int) -> str:
    return f"{now:.6f}: sched:sched_process_fork: comm=peer pid={parent} child_comm=peer child_pid={child}\n"


def test_a_slice_runs_from_on_to_off_and_its_delay_from_the_wakeup() -> None:
    lines = [waking(1.0, 7), switch(1.25, 0, "R", 7), switch(1.75, 7, "S", 0), waking(2.0, 7), switch(2.5, 0, "R", 7)]
    account = Accountant({7: "peer0"}).read([*lines, switch(3.0, 7, "S", 0)]).accounts["peer0"]
    assert (account.run, account.slices, account.wait, account.waits, account.longest) == (1.0, 2, 0.75, 2, 0.5)


def test_who_is_taken_off_while_runnable_waits_from_then_on() -> None:
    lines = [switch(1.0, 0, "R", 7), switch(1.5, 7, "R+", 8), switch(2.5, 8, "R", 7), switch(3.0, 7, "S", 8)]
    accounts = Accountant({7: "peer0", 8: "hog"}).read(lines).accounts
    assert (accounts["peer0"].wait, accounts["peer0"].slices) == (1.0, 2)
    assert (accounts["hog"].wait, accounts["hog"].slices, accounts["hog"].run) == (0.5, 2, 1.0)


def test_children_are_their_parents_whoever_had_the_number_before() -> None:
    lines = [fork(1.0, 7, 9), switch(1.5, 0, "R", 9), switch(2.0, 9, "S", 0), fork(3.0, 5, 9), switch(4.0, 0, "R", 9)]
    accounts = Accountant({7: "peer0"}).read([*lines, switch(4.25, 9, "X", 0)]).accounts
    assert (accounts["peer0"].run, accounts["peer0"].wait) == (0.5, 0.5)
    assert (accounts[None].run, accounts[None].wait) == (0.25, 1.0)


def test_who_is_moved_into_a_component_is_its_from_when_that_is_seen() -> None:
    """A runtime forks it outside, and what it forks afterwards is the component's, too; a number may be reused."""
    lines = [fork(1.0, 5, 9), switch(1.0, 0, "R", 9), switch(1.5, 9, "S", 0), waking(2.0, 9), switch(2.5, 0, "R", 9)]
    lines += [fork(3.0, 9, 10), switch(3.0, 9, "S", 10), switch(4.0, 10, "X", 0), fork(5.0, 5, 10)]
    lines += [switch(5.5, 0, "R", 10), switch(6.0, 10, "X", 0)]
    accounts = Accountant({}, looks=[(2.25, {9: "peer0"}), (9.0, {10: "peer0"})]).read(lines).accounts
    assert (accounts["peer0"].run, accounts["peer0"].threads) == (0.5 + 1.0, {9, 10})
    assert (accounts[None].run, accounts[None].threads) == (0.5 + 0.5, {9, 10})


def test_what_is_not_known_is_left_out() -> None:
    # 7 has run since before the recording, and still runs at its end; 8 is never seen to become runnable.
    lines = [switch(1.0, 7, "S", 8), switch(2.0, 8, "S", 0), waking(2.5, 7), waking(2.6, 7), switch(3.0, 0, "R", 7)]
    recording = Accountant({7: "peer0", 8: "peer1"}).read([*lines, waking(4.0, 7), "nonsense\n", "\n"])
    assert (recording.seconds, recording.events) == (3.0, 6)
    assert (recording.accounts["peer0"].run, recording.accounts["peer0"].wait) == (1.0, 0.5)
    assert (recording.accounts["peer1"].waits, recording.accounts["peer1"].slices) == (0, 1)


def test_what_was_before_the_beginning_and_after_the_end_counts_for_nothing() -> None:
    """perf enables its events one after the other: until it says that all are, some of each kind are missing."""
    lines = [
        *(switch(0.1 + n / 100, 0, "R", 7) + switch(0.105 + n / 100, 7, "S", 0) for n in range(50)),
        *(waking(0.75, 7), switch(0.8, 0, "R", 9), fork(0.9, 7, 11)),
        *(switch(1.25, 0, "R", 7), switch(1.5, 7, "S", 0), switch(1.5, 9, "S", 11), switch(2.0, 0, "R", 7)),
        *(switch(3.25, 7, "S", 0), switch(3.5, 0, "R", 7)),
    ]
    recording = Accountant({7: "peer0", 9: "peer1"}, since=1.0, until=3.0).read("".join(lines).splitlines(True))
    peer0, peer1 = recording.accounts["peer0"], recording.accounts.get("peer1")
    assert (recording.seconds, recording.events) == (2.0, 4)
    # The delay of its first slice is known, and the thread that was born before; the last slice is cut off.
    assert (peer0.slices, peer0.run, peer0.wait, peer0.waits) == (3, 0.25 + 1.5 + 1.0, 0.5 + 0.6, 2)
    assert peer0.threads == {7, 11}
    assert peer1 is None  # its slice is from before the beginning


def test_a_threads_name_cannot_pretend_to_be_another_thread() -> None:
    lines = [
        switch(1.0, 0, "R", 7, "next_pid=9 x"),
        switch(2.0, 7, "S", 0, " prev_pid=9 "),
        "PERF_RECORD_LOST lost 9\n",
    ]
    recording = Accountant({7: "peer0", 9: "peer1"}).read(lines)
    assert "peer1" not in recording.accounts
    assert (recording.accounts["peer0"].run, recording.lost) == (1.0, 9)


def test_roles_are_over_all_slices_and_switches_are_of_one_component() -> None:
    lines = [switch(0.0, 0, "R", 7), switch(1.0, 7, "S", 8), switch(4.0, 8, "S", 0)]
    recording = Accountant({7: "a", 8: "b"}).read(lines)
    (role,) = by_role(recording, {"a": "peer", "b": "peer"})
    assert (role.slice, role.components, role.switches_per_second, role.cores) == (2.0, 2, 0.25, 0.5)
    assert [one.slice for one in by_component(recording, {"a": "peer", "b": "peer", "c": "peer"})] == [1.0, 3.0, None]


def test_the_table_of_roles_holds_the_roles_own_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    recording = Accountant({7: "a", 8: "b"}).read(
        [switch(0.0, 0, "R", 7), switch(1.0, 7, "S", 8), switch(4, 8, "S", 0)]
    )
    show(describe(recording, {"a": "peer", "b": "peer"}, full=False))
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    assert [cells[2] for cells in lines if cells and cells[0] in "ab"] == ["1000.000 ms", "3000.000 ms"]
    assert [cells[2] for cells in lines if cells and cells[0] == "peer"] == ["2000.000 ms"]
