"""What is made of a driver's words, of samples and of groups; whole cells are measured in test_experiment_run.py."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from qioi.experiment.charts import shade
from qioi.experiment.condense import (
    CellFigures,
    Evidence,
    Look,
    Traces,
    condense,
    is_early,
    raised_at,
    speed_of_reaction,
)
from qioi.experiment.drivers import (
    QUARTILES,
    Driven,
    client_flags,
    client_metrics,
    stages,
    together,
)
from qioi.experiment.measure import laid_over, set_by_hand, were_there
from qioi.experiment.metrics import known_metric, metric
from qioi.experiment.neighbours import Nobody, set_quota
from qioi.experiment.noise import Account, complaints, disturbance
from qioi.experiment.plan import Cell
from qioi.experiment.profiling import Profiler
from qioi.experiment.spec import ArmSpec, NeighbourSpec, Timing
from qioi.experiment.system import LoadSpec, NetworkSpec
from qioi.lab.figures import LoadFigures
from qioi.lab.flush_probe import Flush
from qioi.lab.load import LoadResult, read_result
from qioi.lab.machine import Snapshot
from qioi.lab.sampler import Sample
from qioi.model import DelayReading, Role
from qioi.monitor.profile.perf import LateError
from qioi.monitor.profile.scheduling import Recording
from qioi.processes.errors import BusyError, LabError
from qioi.processes.tree import Tree


def test_a_quota_caps_a_real_group(tree: Tree) -> None:
    group = tree.group("sysbench1").create()
    set_quota(group, 0.25)
    directory = group.directories[0]
    if tree.mounts.hierarchy.version == 1:
        assert int((directory / "cpu.cfs_quota_us").read_text()) == 25_000
        assert int((directory / "cpu.cfs_period_us").read_text()) == 100_000
    else:
        assert (directory / "cpu.max").read_text().split() == ["25000", "100000"]


def test_shares_by_hand_go_back_and_hide_no_error_where_their_group_is_gone(tree: Tree) -> None:
    stays, goes = (tree.group(name).create() for name in ("peer1", "peer2"))

    def measure() -> None:
        with contextlib.ExitStack() as stack:
            for group in (stays, goes):
                set_by_hand(stack, group, 4096)
            assert [group.shares() for group in (stays, goes)] == [4096, 4096]
            tree.remove((goes,))  # as an engine does where a container has ended
            raise LabError("peer2 ended")

    with pytest.raises(LabError, match="peer2 ended"):
        measure()
    assert stays.shares() == 1024


def test_what_an_arm_says_to_the_daemon_leaves_what_it_does_not_name() -> None:
    """A channel's T, too, which the arm's `beyond` had dropped."""
    base: dict[str, Any] = {
        "period": 1.0,
        "defaults": {"law": "adaptive"},
        "channels": {"one": {"threshold": 9.0}, "two": {}},
    }
    said = {"one": {"beyond": "neighbours"}, "three": {"threshold": "auto"}}
    over: dict[str, Any] = {"channels": said, "period": 0.5, "mine": ["x"]}
    channels: dict[str, Any] = {
        "one": {"threshold": 9.0, "beyond": "neighbours"},
        "two": {},
        "three": {"threshold": "auto"},
    }
    expected = {"period": 0.5, "defaults": {"law": "adaptive"}, "channels": channels, "mine": ["x"]}
    assert laid_over(base, over) == expected
    assert base["channels"] == {"one": {"threshold": 9.0}, "two": {}}


TIMING = Timing(warmup=4.0, duration=10.0, cooldown=2.0)


def test_stages_are_the_clients_and_the_nodes() -> None:
    of_orderers = [{"stage": "write", "share": 0.25}, {"stage": "apply", "share": 0.125}]
    document = {
        "committed": 1,
        "latency_ms": {"mean": 9.0},
        "stages_ms": {"endorse": {"mean": 1.5}},
        "kinds": {"get": {"committed": 4, "latency_ms": {"min": 1, "p25": 2, "p50": 3, "p75": 4, "max": 5, "mean": 3}}},
        "breakdown": {
            "stages": [{"stage": "order", "mean_ms": 2.5}],
            "busy": [{"stage": "verify", "share": 0.1}, {"stage": "verify", "share": 0.5}, *of_orderers],
        },
    }
    quartiles = {f"kind.get.{part}": value for part, value in zip(QUARTILES, (1, 2, 3, 4, 5), strict=True)}
    of_stages = {"stage.endorse": 1.5, "node.order": 2.5, "busy.verify": 50.0, "busy.write": 25.0, "busy.apply": 12.5}
    assert stages(document) == {**of_stages, "kind.get.count": 4, **quartiles}
    assert all(known_metric(name) and metric(name).title for name in stages(document))
    assert stages({"committed": 0, "stages_ms": {"endorse": {"mean": 0}}}) == {}


def test_ordering_is_what_the_other_stages_leave_of_the_latency() -> None:
    spent = {"endorse": 2.0, "order": 1.0, "validate": 4.0, "flush": 1.0}
    document: dict[str, Any] = {
        "committed": 5,
        "latency_ms": {"mean": 20.0},
        "stages_ms": {},
        "breakdown": {"stages": [{"stage": one, "mean_ms": ms} for one, ms in spent.items()], "busy": []},
    }
    found = {name: value for name, value in stages(document).items() if name.startswith("part.")}
    assert found == {"part.endorse": 10.0, "part.order": 65.0, "part.validate": 25.0}
    assert all(map(known_metric, found))
    document["committed"] = 0
    assert not any(name.startswith("part.") for name in stages(document))


def test_flags_are_spelled_once() -> None:
    spec = LoadSpec(rate=5.0, chaincode="kv", workload="ycsb50", accounts=1000, breakdown=True)
    assert client_flags(spec) == (*("--chaincode", "kv", "--workload", "ycsb50", "--accounts", "1000", "--breakdown"),)
    shell = LoadSpec(
        rate=0.1, chaincode="kv", workload="insert", read_share=0.5, burst=5, fresh="process", queries=True
    )
    flags = ("--chaincode", "kv", "--workload", "insert", "--read-share", "0.5", "--burst", "5", "--fresh", "process")
    assert client_flags(shell) == (*flags, "--queries")


def sample(at: float, shares: int) -> Sample:
    return Sample(at, {"peer": shares, "sysbench1": 1024}, {}, {}, Snapshot(0, 0, 0, 0))


def test_counters_do_not_stand_for_what_perf_had_no_time_to_record() -> None:
    with Profiler({}, 0) as nothing:
        nothing.tick(5, 5)
    assert nothing.rows() == {}
    with Profiler({}, 2) as late:
        late.tick(1, 5)
    with pytest.raises(BusyError, match="perf had no time"):
        late.rows()


@pytest.mark.parametrize(
    ("recording", "full", "lacks"),
    [
        (Recording(2.0, 1000, 0, {}), False, {"perf.lost": 0, "perf.missed": 0}),
        (Recording(1.9, 750, 250, {}), False, {"perf.lost": 25, "perf.missed": 0}),
        (Recording(0.5, 1000, 0, {}), True, {"perf.lost": 0, "perf.missed": 75}),
        (Recording(2.0, 0, 0, {}), False, {"perf.lost": 0, "perf.missed": 0}),
    ],
)
def test_what_perf_lacks_is_told(
    recording: Recording, full: bool, lacks: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qioi.experiment.profiling.record", lambda *_: (recording, full))
    with Profiler({}, 2) as profiler:
        assert profiler.lacks() == {}
        profiler.tick(3, 5)
    assert profiler.lacks() == pytest.approx(lacks)
    assert profiler.rows() == {}


def test_what_comes_after_the_window_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[float] = []

    def begins_late(_groups: object, seconds: float, _megabytes: int, until: float) -> tuple[Recording, bool]:
        ends.append(until)
        return Recording(0.4 * seconds, 1000, 0, {}), False

    monkeypatch.setattr("qioi.experiment.profiling.record", begins_late)
    with Profiler({}, 2) as profiler:
        profiler.tick(1.9, 5)
        assert not ends
        before = time.monotonic()
        profiler.tick(2.0, 5)  # ahead of its time, since perf takes time to begin
        after = time.monotonic()
    assert before + 3 <= ends[0] <= after + 3
    with pytest.raises(BusyError, match=r"^perf recorded 0\.8 of 2 s before the load ended"):
        profiler.rows()


def test_perf_that_begins_after_the_window_is_a_matter_of_the_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_late(*_: object) -> tuple[Recording, bool]:
        raise LateError("perf record began 0.3 s after it was to end")

    monkeypatch.setattr("qioi.experiment.profiling.record", too_late)
    with Profiler({}, 2) as profiler:
        profiler.tick(3, 5)
    with pytest.raises(BusyError, match="perf had no time"):
        profiler.rows()


def test_reaction_and_release_are_read_off_the_shares() -> None:
    samples = [sample(at, 4096 if 12 <= at < 27 else 1024) for at in range(40)]
    roles = {"peer": Role.PEER}
    raised = raised_at(samples, roles)
    assert speed_of_reaction(raised, Traces(came=10.5, gone=20.0)) == {"reaction": 1.5, "release": 6.0}
    assert speed_of_reaction(raised[:25], Traces(came=10.5, gone=20.0)) == {"reaction": 1.5}
    assert speed_of_reaction(raised[:5], Traces(came=1.0, gone=2.0)) == {}
    assert speed_of_reaction(raised, Traces(came=14.5, gone=20.0)) == {}  # raised before they came
    assert [is_early(raised, came) for came in (9.0, 10.5, 14.5)] == [False, False, True]


class Gone(Nobody):
    """One neighbour of one core, which does 100 events a second."""

    names = ("sysbench1",)
    unit = "events/s"

    def work(self, since: float, until: float) -> float | None:
        return 100.0


AT_A_RATE = LoadSpec(rate=50.0)


def beside_one(traces: Traces, load: LoadSpec = AT_A_RATE, flushes: Sequence[Flush] = ()) -> dict[str, float]:
    """A minute of a ledger that uses half a core, beside a neighbour with a core of its own while it is there."""
    came, gone = traces.came or 0.0, traces.gone or 60.0
    samples = []
    for at in range(61):
        had = float(min(max(at - came, 0), gone - came))
        working = DelayReading("sysbench1", 0.9, 0.1, 50, 1.0) if came < at <= gone else None
        cpu = {"peer": at / 2, "client": 0.0, "sysbench1": had}
        delays = {"sysbench1": working} if working else {}
        machine = Snapshot(float(at), 0.0, at / 2 + had, None)
        samples.append(Sample(float(at), {"peer": 1024}, cpu, delays, machine))
        traces.looks.append(Look(float(at), Account(machine, sum(cpu.values()), 0.0, 0.0), at / 4, 0.0))
    found = Driven(LoadFigures(None, 50.0, 1, 1, 1, 1, 1, 100, 0), 0.0, 60.0, (), ())
    arm = ArmSpec(name="s1", title="s1", neighbours=NeighbourSpec(sysbench=1))
    cell = Cell("tiny", NetworkSpec(), "slow", load, arm, TIMING)
    return condense(Evidence(cell, found, samples, {"peer": Role.PEER}, Gone(), flushes, traces, {})).metrics


@pytest.mark.parametrize("traces", [Traces(came=-3.0), Traces(came=10.0, gone=25.0), Traces(came=-3.0, gone=25.0)])
def test_what_neighbours_had_is_of_the_time_that_they_were_there(traces: Traces) -> None:
    found = beside_one(traces)
    assert found["neighbours.cores"] == pytest.approx(1.0)
    assert found["neighbours.switches"] == pytest.approx(50.0)
    # What all used is of the whole window, and the neighbours' part of it too.
    assert found["others"] == pytest.approx(0.0)
    assert found["pressure.io"] == pytest.approx(25.0)


def test_neighbours_that_were_there_for_less_than_two_samples_have_what_they_said_alone() -> None:
    found = beside_one(Traces(came=10.2, gone=11.5))
    assert {name for name in found if name.startswith("neighbours.")} == {"neighbours.work"}
    assert found["others"] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("came", "there"), [(None, False), (-3.0, True), (0.0, True), (59.9, True), (60.0, False), (61.0, False)]
)
def test_neighbours_that_come_after_the_window_disturb_no_cell(came: float | None, there: bool) -> None:
    found = Driven(LoadFigures(None, 50.0, 1, 1, 1, 1, 1, 100, 0), 0.0, 60.0, (), ())
    assert were_there(Traces(came=came), found) == there


def test_a_window_in_which_nothing_was_flushed_has_no_time_of_a_flush() -> None:
    assert "flush.p95" not in beside_one(Traces())
    assert beside_one(Traces(), flushes=[Flush(30.0, 0.25)])["flush.p95"] == 0.25


def test_a_closed_loop_has_its_number_of_clients_and_an_open_one_has_none() -> None:
    assert beside_one(Traces(), LoadSpec(clients=16))["clients"] == 16.0
    assert "clients" not in beside_one(Traces())


class FailedRun:
    """A load client that ended with an error."""

    def result(self) -> None:
        raise LabError("the load client failed")


def test_a_ledger_that_committed_nothing_is_a_finding_and_a_client_that_sent_nothing_an_error(tmp_path: Path) -> None:
    file = tmp_path / "load.json"
    run: Any = FailedRun()
    with pytest.raises(LabError, match="client failed"):
        read_result(run, file)
    latency = dict.fromkeys(("mean", "p50", "p95", "p99", "max"), 0.0)
    document = {
        "intended_rate": 50,
        "started": "2026-11-21T03:27:56.5Z",
        "seconds": 2.0,
        "throughput_tps": 0.0,
        "sent": 100,
        "committed": 0,
        "failed": 90,
        "unsent": 10,
        "latency_ms": latency,
        "timeseries": [],
    }
    file.write_text(json.dumps(document))
    assert client_metrics(read_result(run, file).figures) == {
        "throughput": 0.0,
        "failed": 100.0,
        "goodput": 0.0,
        "offered": 50.0,
    }
    # A backlog longer than the window: others were committed in it, and those due in it never sent.
    file.write_text(json.dumps({**document, "sent": 0, "failed": 0, "unsent": 100, "throughput_tps": 20.0}))
    found = client_metrics(read_result(run, file).figures)
    assert found == {"throughput": 20.0, "failed": 100.0, "goodput": 0.0, "offered": 50.0}
    nothing = {**document, "sent": 0, "failed": 0, "unsent": 0}
    file.write_text(json.dumps(nothing))
    with pytest.raises(LabError, match="client failed"):
        read_result(run, file)
    # A closed loop: all clients wait through the window for what they sent before it.
    file.write_text(json.dumps({**nothing, "intended_rate": 0}))
    assert client_metrics(read_result(run, file).figures) == {"throughput": 0.0, "failed": 0.0, "goodput": 0.0}


def test_several_clients_are_taken_for_one() -> None:
    found = together((client(100.1, 60, 20, 70.0, 300), client(100.3, 40, 30, 50.0, 100)))
    assert found.figures == LoadFigures(120.0, 100, 22.5, 30, 30, 30, 30, 400, 10)
    assert (found.start, found.end) == (100.1, 110.3)
    assert found.throughput == (pytest.approx((0.9, 100)), pytest.approx((1.9, 100)))
    assert found.p95 == (pytest.approx((0.9, 30)),)
    assert together((client(1, 2, 3, None),)).figures.offered is None


def client(start: float, tps: float, slow: float, offered: float | None, committed: int = 100) -> LoadResult:
    figures = LoadFigures(offered, tps, slow, slow, slow, slow, slow, committed, 5)
    return LoadResult(figures, start, start + 10, ((0.9, tps), (1.9, tps)), ((0.9, slow),))


def test_where_one_of_several_clients_has_no_latency_all_together_have_none() -> None:
    """The fast one's alone would be the better, the more the other one starves."""
    found = together((client(100.1, 60, 20, 70.0), client(100.3, 0, 0, 50.0, 0))).figures
    assert client_metrics(found).keys() == {"throughput", "failed", "goodput", "offered"}
    assert client_metrics(client(1, 2, 3, None).figures).keys() >= {"mean", "p50", "p95", "p99"}


QUIET = Snapshot(0.0, 0.0, 0.0, None)


@pytest.mark.parametrize(
    ("lab", "own", "kernel", "steal", "said"),
    [
        (9.5, 0.0, 0.0, 0.0, []),
        (2.0, 0.0, 0.0, 0.0, ["used 40.0 %"]),
        (2.0, 7.5, 0.0, 0.0, []),  # this process looks every tenth of a second
        (2.0, 0.0, 7.5, 0.0, []),
        (9.5, 0.0, 0.0, 1.0, ["5.0 %"]),
    ],
)
def test_what_disturbed_is_what_neither_the_lab_nor_this_process_nor_the_kernel_used(
    lab: float, own: float, kernel: float, steal: float, said: list[str]
) -> None:
    """10 s on 2 cores, of which one is busy; a second of steal is a twentieth of it."""
    before = Account(QUIET, 7.0, 3.0, 100.0)
    after = Account(Snapshot(10.0, steal, 10.0, None), 7.0 + lab, 3.0 + own, 100.0 + kernel)
    found = complaints(disturbance(before, after, 2))
    assert len(found) == len(said)
    assert all(part in text for part, text in zip(said, found, strict=True))


def test_waits_for_a_cpu_are_told_where_the_kernel_tells_them() -> None:
    after = Account(Snapshot(10.0, 0.0, 0.0, 3.0), 0.0, 0.0, 2.0)
    quiet = {"steal": 0.0, "kernel": 10.0, "others": 0.0}
    assert disturbance(Account(QUIET, 0.0, 0.0, 0.0), after, 2) == quiet
    told = Account(Snapshot(0.0, 0.0, 0.0, 1.0), 0.0, 0.0, 0.0)
    assert disturbance(told, after, 2) == {**quiet, "pressure": pytest.approx(20.0)}


@pytest.mark.parametrize(("came", "gone", "shaded"), [(None, None, (0.5, 1.9)), (0.8, 2.2, (0.8, 2.2))])
def test_pictures_shade_when_neighbours_came_and_went(
    came: float | None, gone: float | None, shaded: tuple[float, float]
) -> None:
    arm = ArmSpec(name="beside", title="", neighbours=NeighbourSpec(sysbench=1, come=0.5, go=1.9))
    cell = Cell("one", NetworkSpec(), "one", LoadSpec(rate=1.0), arm, Timing(duration=3.0))
    axis = Figure().subplots()
    shade(axis, cell, CellFigures(cell.key, {}, {}, "", 0.0, came, gone))
    _, band = axis.patches
    assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx(shaded)  # type: ignore[attr-defined]
