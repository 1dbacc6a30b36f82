"""What samples and the client's result are condensed to."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import until

from qioi.kernel.child import Child, mortal
from qioi.lab.arms import Arm, Runner
from qioi.lab.containers import ContainerRun
from qioi.lab.load import LoadPlan, LoadRun, parse_result
from qioi.lab.machine import Snapshot, between, cpu_model, idle_and_steal, machine, snapshot, some_total, waited
from qioi.lab.sampler import Sample, Sampler, window, write_samples
from qioi.model import DelayReading, Role
from qioi.processes.errors import LabError
from qioi.processes.launch import launch
from qioi.processes.tree import Tree

QUIET = Snapshot(0.0, 0.0, 0.0, 0.0)


def sample(at: float, cpu: float, *, run: float = 0.1, wait: float = 0.3, shares: int = 1024) -> Sample:
    reading = DelayReading("peer", run, wait, 100, 1.0)
    return Sample(at, {"peer": shares, "orderer": 1024}, {"peer": cpu, "orderer": 2 * cpu}, {"peer": reading}, QUIET)


def test_means_cover_the_window_alone() -> None:
    samples = [sample(float(at), cpu=at * 0.5, wait=9.0 if at < 5 else 0.3) for at in range(11)]
    cut = window(samples, 2, 4, 9)
    assert cut.seconds == 5
    assert cut.cores(["peer"]) == pytest.approx(0.5)
    assert cut.cores(["peer", "orderer", "absent"]) == pytest.approx(1.5)
    figures = cut.role(("peer",))
    assert figures.delay == pytest.approx(3.0)
    assert figures.time_slice == pytest.approx(1.0)
    assert figures.waiting == pytest.approx(0.75)
    assert figures.switches == pytest.approx(100)
    assert [at for at, _ in cut.delay_over_time(("peer",))] == [-2, -1, 0, 1, 2, 3, 4, 5]


def test_shares_over_time_are_the_roles_mean() -> None:
    cut = window([sample(0, 0), sample(1, 0, shares=3072)], 0, 0, 1)
    assert cut.shares_over_time(("peer", "orderer")) == ((0, 1024), (1, 2048))


def test_only_the_cpus_that_the_lab_may_use_count() -> None:
    stat = "cpu  9 9 9 9 9 9 9 9 0 0\n" + "".join(
        f"cpu{number} 500 0 100 {idle} 50 0 0 {steal} 0 0\n"
        for number, idle, steal in ((0, 100, 0), (2, 250, 25), (12, 1, 1))
    )
    ticks = os.sysconf("SC_CLK_TCK")
    assert idle_and_steal(stat + "intr 1 2 3\nctxt 5\n", {0, 1, 2}) == (450 / ticks, 25 / ticks)
    assert idle_and_steal(stat, {12}) == (51 / ticks, 1 / ticks)


@pytest.mark.slow
def test_on_one_cpu_of_several_no_more_than_one_is_busy() -> None:
    script = (
        "import os, time; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from qioi.lab.machine import between, machine, snapshot\n"
        "first = snapshot(); time.sleep(2); print(between(first, snapshot(), machine().cores).cores_busy)\n"
    )
    others = [subprocess.Popen(mortal(["sh", "-c", "while :; do :; done"])) for _ in os.sched_getaffinity(0)]
    try:
        done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
        assert 0 < float(done.stdout) < 1.1
    finally:
        for one in others:
            one.kill()
            one.wait()


def test_a_role_that_never_ran_has_no_delay() -> None:
    cut = window([sample(0, 0), sample(1, 0)], 0, 0, 1)
    assert cut.role(("orderer",)).delay == 0
    assert cut.delay_over_time(("orderer",)) == ()


def test_a_window_without_samples_is_refused() -> None:
    with pytest.raises(LabError, match="at least 2"):
        window([sample(0, 0)], 0, 0, 10)


def test_a_group_that_appears_later_counts_from_nothing() -> None:
    first, last = sample(0, 1), sample(2, 1)
    last.cpu["daemon"] = 0.5
    assert window([first, last], 0, 0, 2).cores(["daemon"]) == 0.25


def test_samples_of_real_groups_are_written_as_csv(tree: Tree, tmp_path: Path) -> None:
    peer, client = tree.group("peer").create(2048), tree.group("client")
    sampler = Sampler({"peer": peer}, {"client": client})
    sampler.sample()
    client.create()
    launch(["sleep", "1000"], peer)
    sampler.sample()
    sampler.close()
    write_samples(tmp_path / "samples.csv", sampler.samples, {"peer": Role.PEER})
    with (tmp_path / "samples.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["peer", "peer", "client"]
    assert [row["threads"] for row in rows] == ["", "1", ""]
    assert (rows[1]["shares"], rows[1]["role"]) == ("2048", "peer")
    assert float(rows[1]["run_s"]) > 0
    assert (rows[2]["shares"], rows[2]["role"]) == ("", "")


RESULT: dict[str, Any] = {
    "intended_rate": 100,
    "started": "2026-11-21T03:27:56.5Z",
    "seconds": 2.0,
    "throughput_tps": 99.5,
    "committed": 199,
    "failed": 1,
    "unsent": 2,
    "latency_ms": {"mean": 3.0, "p50": 2.0, "p95": 5.0, "p99": 7.0, "max": 9.0},
    "timeseries": [
        {"unix": 1795231675.5, "tps": 90, "p95_ms": 5.0},
        {"unix": 1795231676.5, "tps": 0, "p95_ms": 0},
        {"unix": 1795231677.5, "tps": 100, "p95_ms": 6.0},
        {"unix": 1795231678.5, "tps": 3, "p95_ms": 8.0},
    ],
}


def test_the_clients_result_is_read_and_its_drain_left_out() -> None:
    found = parse_result(RESULT, Path("x"))
    assert found.end - found.start == 2
    assert found.figures.failed == 3
    assert found.figures.offered == 100
    assert found.throughput == ((-1, 90), (0, 0), (1, 100))
    assert found.p95 == ((-1, 5), (1, 6))
    assert parse_result({**RESULT, "intended_rate": 0}, Path("x")).figures.offered is None


class ToyLab:
    """Runs a script in place of the client."""

    def __init__(self, tree: Tree, script: str) -> None:
        self._tree, self._script = tree, script

    def load_command(self, _arguments: Sequence[str]) -> list[str]:
        return ["sh", "-c", self._script]

    def start_client(self, command: Sequence[str], _folders: Sequence[Path], **more: Any) -> Child[bytes]:
        return launch(command, self._tree.group("client").create(), **more)


def test_a_load_says_when_it_began_to_send(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "load.log").write_text("sending since 2020-01-01T00:00:00Z\n")  # an earlier run
    script = f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; echo sending since 2026-11-21T03:27:56.5Z; sleep 1000"
    lab: Any = ToyLab(tree, script)
    with LoadRun(lab, LoadPlan(1, 1, rate=5), tmp_path) as run:
        assert run.began() is None
        (tmp_path / "go").touch()
        assert until(run.began) == datetime(2026, 11, 21, 3, 27, 56, 500_000, UTC).timestamp()


class ToyEngine:
    """Keeps the log of one container, which is a process of the test's."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.written = b""

    def state(self, _container: str) -> dict[str, Any]:
        return {"Pid": self._pid, "Running": False, "ExitCode": 137}

    def logs(self, _container: str) -> bytes:
        return self.written


def test_a_load_in_a_container_says_when_it_began_to_send(tree: Tree, tmp_path: Path) -> None:
    """The engine has its log; the file has it only once it was saved."""
    process = launch(["sleep", "1000"], tree.group("client").create())
    engine: Any = ToyEngine(process.pid)
    lab: Any = ToyLab(tree, "sleep 1000")
    lab.start_client = lambda *_words, log, **_more: ContainerRun(engine, "toy", log)
    try:
        with LoadRun(lab, LoadPlan(1, 1, rate=5), tmp_path) as run:
            assert run.began() is None
            engine.written = b"preparing\nsending since 2026-11-21T03:27:56.5Z\n"
            assert run.began() == datetime(2026, 11, 21, 3, 27, 56, 500_000, UTC).timestamp()
    finally:
        process.kill()
        process.wait()


class ToySysbench:
    """Notes when it is started."""

    names: tuple[str, ...] = ()

    def __init__(self, *_words: Any) -> None:
        pass

    prepare = check = stop = lambda _self: None

    def start(self) -> None:
        STARTED.append(time.time())
        (WHERE[0] / "go").touch()


STARTED: list[float] = []
WHERE: list[Path] = []


@pytest.mark.slow
def test_interferers_come_by_the_time_at_which_the_load_begins_to_send(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client connects and prepares accounts first, for a second here."""
    monkeypatch.setattr("qioi.lab.arms.Sysbench", ToySysbench)
    STARTED.clear()
    WHERE[:] = [tmp_path]
    wait = f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done"
    lab: Any = ToyLab(tree, f"sleep 1; date -u +'sending since %FT%T.%NZ'; {wait}")
    lab.tree, lab.directory, lab.check = tree, tmp_path, lambda: None
    network: Any = SimpleNamespace(nodes=(), mode="block")
    arm = Arm("together", "together", LoadPlan(1, 1, rate=5))
    with pytest.raises(LabError, match="the load client failed"):  # it leaves no result
        Runner(lab, network, tmp_path).run(arm)
    said = (tmp_path / "together" / "load.log").read_text().split()[-1]
    (started,) = STARTED
    assert started >= datetime.fromisoformat(said).timestamp() + arm.arrival


@pytest.mark.parametrize("key", ["started", "latency_ms", "timeseries"])
def test_a_result_of_another_form_is_refused(key: str, tmp_path: Path) -> None:
    document = json.loads(json.dumps(RESULT))
    del document[key]
    with pytest.raises(LabError, match=key):
        parse_result(document, tmp_path / "load.json")


def test_a_load_is_open_or_closed() -> None:
    assert "--rate" in LoadPlan(1, 1, rate=5).arguments(Path("x"))
    assert LoadPlan(1.5, 1, clients=5).arguments(Path("x"))[:4] == ["--clients", "5", "--warmup=1s", "--duration=1.5s"]
    for plan in (LoadPlan(1, 1), LoadPlan(1, 1, rate=5, clients=5)):
        with pytest.raises(LabError, match="either a rate"):
            plan.arguments(Path("x"))


def test_this_machine_can_be_described() -> None:
    assert machine().cores > 0
    first, second = snapshot(), snapshot()
    found = between(first, second, 1)
    assert found.cores_busy >= 0
    assert found.steal >= 0


def test_counters_become_rates() -> None:
    before, after = Snapshot(10.0, 1.0, 20.0, 5.0), Snapshot(20.0, 2.0, 35.0, 8.0)
    found = between(before, after, 2)
    assert (found.seconds, found.steal, found.cores_busy, found.pressure) == (10.0, 0.05, 1.5, pytest.approx(0.3))
    assert between(Snapshot(0, 0, 0, None), after, 2).pressure is None


def test_pressure_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    (tmp_path / "cpu").symlink_to("/proc/self/mem")  # it is there, and reading it fails
    assert waited("cpu", tmp_path) is None
    assert waited("io", tmp_path) is None


def test_proc_files_are_read_as_the_kernel_writes_them() -> None:
    assert some_total("some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0 total=1\n") == 2.5
    assert some_total("full avg10=0 total=1\n") is None
    assert (waited("cpu") is None) == (not Path("/proc/pressure/cpu").exists())
    assert cpu_model("processor : 0\nmodel name\t: Some CPU @ 2 GHz\n") == "Some CPU @ 2 GHz"
    assert cpu_model("processor : 0\n") != ""
