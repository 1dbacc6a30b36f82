"""How busy the host is, from /proc/stat, over a period and over a second."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from stat_file import write_stat

from qioi.kernel.files import KernelFiles
from qioi.model import Component, DelayReading, HostLoad, Role
from qioi.monitor.scheduler.host import HostWatch
from qioi.monitor.scheduler.pinned import PinnedComponents

ALONE, BESIDE = (0.0, 0.5), (0.5, 0.5)  # parts of the host that foreigners and the ledger have


@pytest.mark.parametrize(
    ("periods", "load", "lasting"),
    [
        ([(1.0, *ALONE), (1.0, *BESIDE)], (0.0, 0.5), None),
        ([(1.0, *ALONE), (5.0, *BESIDE)], (0.0, 0.5), None),
        ([(1.0, *BESIDE), (0.95, *ALONE)], (0.5, 0.0), None),  # the next period began a little late
        ([(1.0, *BESIDE), (1.0, *ALONE), (0.25, *BESIDE)], (0.0, 0.5), (0.4, 0.1)),
        ([(1.0, *BESIDE), (1.0, *ALONE), (0.5, *ALONE), (0.25, *BESIDE)], (0.0, 0.5), (3 / 7, 1 / 14)),
        ([(1.0, *BESIDE), (0.5, *BESIDE), (0.25, *BESIDE), (1.0, *ALONE)], (0.5, 0.0), None),
        ([*[(0.1, *BESIDE)] * 10, *[(0.1, *ALONE)] * 8], (0.5, 0.0), (4 / 9, 1 / 18)),
        ([*[(0.1, *BESIDE)] * 10, *[(0.1, *ALONE)] * 9], (0.5, 0.0), (0.5, 0.0)),
        ([(0.25, *ALONE), (0.25, *BESIDE)], (0.0, 0.5), (0.25, 0.25)),  # it has not been looked at for a second yet
    ],
)
def test_a_short_period_comes_with_the_load_over_a_second(
    tmp_path: Path,
    periods: list[tuple[float, float, float]],
    load: tuple[float, float],
    lasting: tuple[float, float] | None,
) -> None:
    total, idle = 1_000_000, 500_000
    write_stat(tmp_path / "stat", total, idle)
    watch, found = HostWatch(tmp_path / "stat"), None
    for seconds, foreign, ledger in periods:
        ticks = round(seconds * 2 * os.sysconf("SC_CLK_TCK"))
        total, idle = total + ticks, idle + round(ticks * (1 - foreign - ledger))
        write_stat(tmp_path / "stat", total, idle)
        found = watch.read([DelayReading("peer0", 2 * ledger * seconds, 0.0, 10, seconds)])
    assert isinstance(found, HostLoad)
    assert (found.idle, found.foreign) == pytest.approx(load)
    assert (found.lasting is None) == (lasting is None)
    if found.lasting is not None:
        assert (found.lasting.idle, found.lasting.foreign) == pytest.approx(lasting)
    assert watch.read([]) is None  # the clock has not ticked since


def test_a_moment_in_which_the_kernel_cannot_tell_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Under pressure it may have no memory for the text. What was used since counts in the next period."""
    file, ticks = tmp_path / "stat", 2 * os.sysconf("SC_CLK_TCK")
    write_stat(file, 1_000_000, 500_000)
    watch = HostWatch(file, KernelFiles(most=0))
    for _ in range(2):
        file.unlink()
        file.mkdir()
        assert [watch.read([]), watch.read([])] == [None, None]
        file.rmdir()
        write_stat(file, 1_000_000 + 2 * ticks, 500_000 + ticks)
        ticks *= 2
        load = watch.read([DelayReading("peer0", 0.5, 0.0, 10, 1.0)])
        assert load is not None
        assert (load.idle, load.foreign) == (pytest.approx(0.5), pytest.approx(0.25))
    assert caplog.messages == [f"{file}: Is a directory: how busy the host is is not known"] * 2


def test_a_processor_that_leaves_takes_its_time_along_and_the_host_is_known_again(tmp_path: Path) -> None:
    """The kernel counts the idle time of processors that are offline in another way: its total may fall by hours."""
    file = tmp_path / "stat"
    write_stat(file, 1_000_000, 900_000)
    watch = HostWatch(file)
    write_stat(file, 400_000, 300_000)
    assert watch.read([]) is None
    write_stat(file, 400_200, 300_050)
    assert watch.read([]) == HostLoad(0.25, 0.75)


def test_what_one_that_is_just_met_has_used_is_not_foreign(tmp_path: Path) -> None:
    """A chaincode that starts fills a CPU, and it is known one period later what it uses."""
    file, total, idle, ticks = tmp_path / "stat", 1_000_000, 500_000, 2 * os.sysconf("SC_CLK_TCK")
    write_stat(file, total, idle)
    watch, found = HostWatch(file), []
    peer, chaincode = DelayReading("peer", 0.4, 0.0, 10, 1.0), DelayReading("chaincode", 1.0, 0.0, 10, 1.0)
    for busy, delays, met in [
        (0.3, [peer], False),
        (0.8, [peer], True),
        (0.8, [peer, chaincode], False),
        (0.8, [peer], False),
        (0.4, [peer], True),  # it uses nothing, and the neighbour has less
        (0.8, [peer], True),  # where somebody is met each time, neighbours that come are not hidden
        (0.8, [peer], True),
    ]:
        total, idle = total + ticks, idle + round(ticks * (1 - busy))
        write_stat(file, total, idle)
        load = watch.read(delays, met=met)
        assert load is not None
        found.append(load.foreign)
    assert found == pytest.approx([0.1, 0.1, 0.1, 0.6, 0.2, 0.6, 0.6])


def test_the_load_says_that_somebody_has_come(tmp_path: Path) -> None:
    write_stat(tmp_path / "stat", 1_000_000, 500_000)
    come = [False]
    watch = HostWatch(tmp_path / "stat", sudden=lambda: come[0])
    for number, come[0] in enumerate((False, True, False), 1):
        write_stat(tmp_path / "stat", 1_000_000 + 20 * number, 500_000 + 10 * number)
        found = watch.read([])
        assert found is not None
        assert found.sudden == come[0]


@pytest.mark.parametrize(
    ("column", "foreign"),
    [("user", 0.5), ("nice", 0.5), ("system", 0.5), ("irq", 0.0), ("softirq", 0.0), ("steal", 0.0), ("iowait", 0.0)],
)
def test_interrupts_and_stolen_time_are_nobodys_work(tmp_path: Path, column: str, foreign: float) -> None:
    """A neighbour at a nice value is one: in a group of its own it has that group's whole weight."""
    columns = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    file = tmp_path / "stat"
    write_columns(file, [dict.fromkeys(columns, 1000)] * 2)
    watch = HostWatch(file)
    write_columns(file, [{**dict.fromkeys(columns, 1000), "idle": 1100, column: 1100}] * 2)
    load = watch.read([])
    assert load is not None
    assert load.foreign == pytest.approx(foreign)
    assert load.idle == pytest.approx(1.0 if column == "iowait" else 0.5)


def write_columns(path: Path, cpus: list[dict[str, int]]) -> None:
    lines = [[sum(one[key] for one in cpus) for key in cpus[0]], *(list(one.values()) for one in cpus)]
    names = ["cpu ", *(f"cpu{number}" for number in range(len(cpus)))]
    texts = [f"{name} {' '.join(map(str, line))} 0 0\n" for name, line in zip(names, lines, strict=True)]
    path.write_text("".join(texts) + "intr 0\n")


class Pins(PinnedComponents):
    """Components that are pinned as the test says."""

    def __init__(self, cpus: dict[str, frozenset[int]]) -> None:
        super().__init__((), Path("/"))
        self.cpus = cpus

    def look(self, now: float) -> dict[str, frozenset[int]]:
        return self.cpus


def test_foreign_work_counts_where_a_component_can_run(tmp_path: Path) -> None:
    """Two neighbours on a component's two CPUs of 64 are 3 % of the host, and all that the component has beside it."""
    file = tmp_path / "stat"
    columns = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    zero = dict.fromkeys(columns, 0)
    pins = Pins({"peer": frozenset({2, 3}), "gone": frozenset({99})})
    write_columns(file, [zero] * 64)
    watch = HostWatch(file, pinned=pins)
    watch.read([])
    second = os.sysconf("SC_CLK_TCK")
    for number in (1, 2):
        busy, idle = {**zero, "user": number * second}, {**zero, "idle": number * second}
        write_columns(file, [busy if cpu in (2, 3) else idle for cpu in range(64)])
        # The peer has half of each of its CPUs; another component runs anywhere.
        load = watch.read([DelayReading("peer", 0.5, 9.0, 10, 1.0, used=1.0), DelayReading("orderer", 0.64, 0, 9, 1.0)])
    assert load is not None
    assert load.idle == pytest.approx(62 / 64)
    assert load.foreign == pytest.approx((2 - 1.64) / 64)
    assert load.of("peer").idle == pytest.approx(0.0)
    assert load.of("peer").foreign == pytest.approx(1 - 0.5 - 0.01)
    assert load.of("orderer") is load
    assert load.of("gone") is load
    assert watch.cpus == pins.cpus
    pins.cpus = {}
    write_columns(file, [{**zero, "idle": 3 * second}] * 64)
    last = watch.read([])
    assert last is not None
    assert last.pinned == {}
    assert watch.cpus == {}


def test_a_pinned_component_is_told_of_an_onset_too(tmp_path: Path) -> None:
    columns = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    come = [False]
    write_columns(tmp_path / "stat", [dict.fromkeys(columns, 0)] * 4)
    watch = HostWatch(tmp_path / "stat", sudden=lambda: come[0], pinned=Pins({"peer": frozenset({2, 3})}))
    watch.read([])
    for number, come[0] in enumerate((False, True, False), 1):
        write_columns(tmp_path / "stat", [dict.fromkeys(columns, 100 * number)] * 4)
        load = watch.read([])
        assert load is not None
        assert load.of("peer") is not load or number == 1  # the first look at those CPUs has nothing before it
        assert load.of("peer").sudden == load.sudden == come[0]


def test_components_take_turns_in_being_asked_where_they_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def threads(group: Path) -> set[bytes]:
        asked.append(group.name)
        return {str(os.getpid()).encode(), b"0"}

    monkeypatch.setattr("qioi.monitor.scheduler.pinned.threads_of", threads)
    components = [Component(f"c{number}", Role.PEER, f"g{number}") for number in range(50)]
    pins = PinnedComponents(components, Path("/"))
    for second in range(3):
        pins.look(float(second))
    assert sorted(asked) == sorted(one.cgroup for one in components)  # new ones first, twenty in a period
    pins.look(3.0)
    assert len(asked) == 50
    pins.look(16.0)
    assert asked[50:] == asked[:20]
    pins.watch(components[:1])
    pins.look(40.0)
    assert asked[70:] == ["g0"]
