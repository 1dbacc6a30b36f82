"""Components go down to what outweighs their neighbours, and get all of it back where that is too little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qioi.controller.findings.channels import look_at_all
from qioi.controller.findings.just_enough import ABOVE, AMPLE, FIRST, GRACE, RATIO, JustEnough
from qioi.controller.findings.limits import Limit
from qioi.controller.findings.neighbours import KEPT
from qioi.controller.laws.room import ROOM_FOR
from qioi.controller.laws.thresholds import Threshold
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.model import CEILING, MAX_SHARES, ChannelReading, Component, HostLoad, Role

FULL = HostLoad(0.0, 0.5)


def enough(on_one: int) -> float:
    """Give the share that is enough beside this weight on one CPU."""
    return max(RATIO * on_one, min(AMPLE * on_one, CEILING))


def neighbours(count: int, weight: int = 1024, parent: str = "docker") -> dict[str, dict[str, int]]:
    return {parent: {f"{parent}/sysbench{one}": weight for one in range(count)}}


@dataclass
class Site:
    """One peer of one channel, and the neighbours that run; ``tps`` are committed in periods of a second.

    These may have another ``length``. A is of the last ``window`` periods. ``idle`` has what else the peer's other
    channels are owed; each has made so many ``blocks``, of which the last is of that ``age``.
    """

    owed: float | None = 1000.0
    tps: float = 1000.0
    siblings: dict[str, dict[str, int]] = field(default_factory=lambda: neighbours(8))
    host: HostLoad | None = FULL
    groups: tuple[str, ...] = ("docker/peer",)
    found: int = 1024
    channels: tuple[str, ...] = ("red",)
    share: int = 16_384
    window: int = 1
    length: float = 1.0
    idle: dict[str, float | None] = field(default_factory=dict)
    age: float = 60.0
    blocks: int = 5
    presumed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.now, self.total, self.source = 0.0, 0, "log"
        self.done, self.last = [self.tps] * self.window, 0.0
        self.held: dict[str, int] = {"docker/peer": self.found, "docker": 1024}
        self.finding = JustEnough(self.held.get, cpus=2)

    def second(self) -> int | None:
        """Give the most that the peer may have after another period; ``None``: all that it asks for."""
        self.now += self.length
        self.total += round(self.tps * self.length)
        peer = Component("peer", Role.PEER, "docker/peer", self.channels)
        self.done = [*self.done, self.tps][-self.window :]
        self.last = self.now - 0.1 if self.tps else self.last
        reading = ChannelReading(
            "red", sum(self.done) / self.window, self.now - self.last, committed=self.total, source=self.source
        )
        idle = {name: ChannelReading(name, 0.0, self.age, committed=self.blocks) for name in self.idle}
        period = Period(
            self.now,
            (peer,),
            channels={"red": reading, **idle},
            host=self.host,
            owed={name: Threshold(owed, "configured") for name, owed in {"red": self.owed, **self.idle}.items()},
            forces={"peer": InForce(self.share, self.found, Placement(self.groups, ""))},
            siblings=self.siblings,
        )
        limits = self.take_in(period)
        return limits["peer"].most if limits else None

    def take_in(self, period: Period) -> dict[str, Limit]:
        return self.finding.step(period, look_at_all(period, self.presumed))

    def run(self, seconds: float) -> list[int | None]:
        return [self.second() for _ in range(int(seconds))]


@pytest.mark.parametrize("owed", [1000.0, None])
def test_all_at_first_and_then_what_outweighs_the_neighbours_on_one_cpu(owed: float | None) -> None:
    site = Site(owed)
    assert set(site.run(GRACE)) == {None}
    assert set(site.run(600)[1:]) == {enough(4 * 1024)}


def test_what_piles_up_is_worked_off_with_all_there_is() -> None:
    site = Site(tps=600)
    assert set(site.run(300)) == {None}
    site.tps = 1000
    assert site.run(2)[-1] is not None


def test_who_does_less_with_less_gets_all_back_and_the_next_try_waits() -> None:
    site = Site()
    site.run(GRACE + 2)
    site.tps = 800
    got = site.run(7)
    assert got[0] is not None
    assert got[-1] is None
    assert set(site.run(FIRST - 9)) == {None}
    site.tps = 1000
    assert site.run(12)[-1] is not None
    site.tps = 800
    site.run(7)
    site.tps = 1000
    assert set(site.run(2 * FIRST - 10)) == {None}


def test_without_a_threshold_what_is_committed_tells() -> None:
    site = Site(owed=None)
    site.run(GRACE + 2)
    site.tps = 600
    assert site.run(12)[-1] is None


@pytest.mark.parametrize("length", [5.0, 10.0, 12.0, 60.0])
def test_so_it_does_in_long_periods(length: float) -> None:
    site = Site(owed=None, length=length)
    assert site.run(6)[-1] is not None
    site = Site(owed=None, length=length)
    while site.second() is None:
        assert site.now < 86_400
    site.tps = 600
    assert None in site.run(3)


@pytest.mark.parametrize("more", [30_000, -3_000])
def test_another_source_that_has_counted_otherwise_is_no_other_throughput(more: int) -> None:
    site = Site(owed=None)
    site.run(GRACE - 2)
    site.source, site.total = "metrics", site.total + more
    assert None not in site.run(GRACE + 30)[2:]


@pytest.mark.parametrize("owed", [1000.0, None])
@pytest.mark.parametrize("after", [2, 10])
def test_a_silence_says_nothing(owed: float | None, after: int) -> None:
    """Neither while it lasts, nor while A still covers it; and the next bursts begin with what is enough."""
    site = Site(owed, window=6)
    site.run(GRACE + after)
    for _ in range(5):
        site.tps = 0
        assert None not in site.run(40)
        site.tps = 1000
        assert None not in site.run(20)


def test_a_channel_without_load_keeps_nobody_from_what_is_enough_for_its_others() -> None:
    site = Site(idle={"blue": 500.0}, channels=("red", "blue"))
    assert set(site.run(GRACE + 60)[int(GRACE) + 1 :]) == {enough(4 * 1024)}


@pytest.mark.parametrize("owed", [None, 500.0])
@pytest.mark.parametrize("channels", [("blue",), ("red", "blue")])
@pytest.mark.parametrize(("length", "ages"), [(1.0, range(10)), (10.0, (1, 8)), (60.0, (1, 8))])
def test_one_that_sends_seldom_lifts_no_limit(
    owed: float | None, channels: tuple[str, ...], length: float, ages: Sequence[int]
) -> None:
    """Each of its blocks is followed by a silence: what it could do is never known."""
    site, got = Site(None, channels=channels, idle={"blue": owed}, length=length), []
    for number in range(100):
        site.age, site.blocks = ages[number % len(ages)], number // len(ages)
        got.append(site.second())
    assert set(got[10:]) == {enough(4 * 1024)}
    site.presumed = ("blue",)
    assert site.second() is None


def test_one_that_has_sent_seldom_has_all_as_soon_as_it_sends_more() -> None:
    site = Site(None, channels=("blue",), idle={"blue": None})
    for second in range(31):
        site.age, site.blocks = second % 10, second // 10
        site.second()
    for tps, seconds, limited in ((200, GRACE, False), (200, 4, True), (100, 6, False)):
        for _ in range(int(seconds)):
            site.age, site.blocks = 0.1, site.blocks + tps
            most = site.second()
        assert (most is not None) is limited


def test_one_that_sends_seldom_for_a_while_is_not_compared_with_before() -> None:
    site = Site(None)
    site.run(60)
    for tps, seconds in ((0, 10), (1, 1), (0, 10), (300, 30)):
        site.tps = tps
        assert None not in site.run(seconds)


def test_a_channel_that_needs_all_keeps_it_through_a_silence() -> None:
    site = Site(tps=600)
    site.run(30)
    site.tps = 0
    assert set(site.run(30)) == {None}


def test_one_that_is_starved_gets_all_back_as_soon_as_somebody_is_taken_to_send() -> None:
    site = Site(window=6)
    site.run(GRACE + 2)
    site.tps = 0
    assert None not in site.run(20)
    site.presumed = ("red",)
    assert site.second() is None


def test_one_that_hardly_commits_is_starved_and_not_silent() -> None:
    site = Site(window=6)
    site.run(GRACE + 2)
    got = []
    for number in range(10):
        site.tps = 100 if number % 4 == 3 else 0
        got.append(site.second())
    assert got[-1] is None


def test_room_that_lasts_is_a_beginning_anew_and_a_moment_of_it_is_none() -> None:
    site = Site()
    before = site.run(GRACE + 3)[-1]
    for host in (None, HostLoad(0.5, 0.1)):
        site.host = host
        assert site.run(2) == [before, before]
        site.host = FULL
        assert site.second() == before
    site.host = HostLoad(0.5, 0.1)
    assert site.run(ROOM_FOR)[-1] is None
    site.host = FULL
    assert set(site.run(GRACE)) == {None}


def test_on_a_host_with_room_nothing_is_limited() -> None:
    site = Site(host=HostLoad(0.5, 0.1))
    assert set(site.run(60)[3:]) == {None}


@pytest.mark.parametrize(
    ("siblings", "most"),
    [
        (neighbours(1), 4096),
        (neighbours(8), 16_384),
        (neighbours(12), 16_384),  # the usual ceiling is more than twice their weight on one CPU
        (neighbours(40), enough(20 * 1024)),
        (neighbours(1, 8192), enough(8192)),
        (neighbours(3, 262_144), 262_144),
        ({}, None),  # nothing is known of them
        (neighbours(8, parent=""), None),  # not at the level that counts
    ],
)
def test_neighbours_count_by_their_weight(siblings: dict[str, dict[str, int]], most: int | None) -> None:
    assert Site(siblings=siblings).run(GRACE + 3)[-1] == most


@pytest.mark.parametrize(
    ("siblings", "found", "groups", "outweighs"),
    [
        (neighbours(16), 1024, ("docker/peer",), None),  # eight on each CPU: the usual ceiling does
        (neighbours(40), 1024, ("docker/peer",), enough(20 * 1024)),
        (neighbours(1, 262_144), 1024, ("docker/peer",), 262_144),  # the kernel allows no more
        (neighbours(2, 20_000), 1024, ("docker/peer",), enough(20_000)),
        (neighbours(2, 20_000), 20_000, ("docker/peer",), enough(20_000)),
        (neighbours(8), 1024, ("docker/peer",), None),
        (neighbours(40, parent=""), 1024, ("docker",), ABOVE * 20 * 1024),
        # Where one level's neighbours are not known, those of the other still are.
        (neighbours(40), 1024, ("docker/peer", "docker"), enough(20 * 1024)),
        ({}, 1024, ("docker/peer",), None),
    ],
)
def test_beside_heavy_neighbours_a_component_may_be_raised_to_what_outweighs_them(
    siblings: dict[str, dict[str, int]], found: int, groups: tuple[str, ...], outweighs: float | None
) -> None:
    """From the first moment on: nothing is settled yet."""
    site = Site(siblings=siblings, found=found, groups=groups)
    site.held["docker/peer"] = found
    assert site.second() is None
    assert site.finding.outweighs == ({} if outweighs is None else {"peer": outweighs})


def test_a_share_in_force_stays_allowed_when_what_made_it_necessary_is_gone() -> None:
    site = Site(siblings=neighbours(40), share=40_960)
    site.second()
    assert site.finding.outweighs == {"peer": 40_960}
    site.siblings, site.host = {}, HostLoad(0.5, 0.0)
    site.run(ROOM_FOR + 3)
    assert site.finding.outweighs == {"peer": 40_960}
    site.share = 16_384
    site.second()
    assert site.finding.outweighs == {}


def test_what_a_group_above_gives_counts_as_the_kernels_most() -> None:
    """A component that was found with 65,536 has eight times as much in effect, by a group above it."""
    site = Site(found=65_536, share=524_288)
    site.second()
    assert site.finding.outweighs == {"peer": MAX_SHARES}


def test_who_was_found_with_more_is_measured_by_its_weight_in_the_file() -> None:
    site = Site(found=2048)
    assert site.run(GRACE + 3)[-1] == enough(4 * 1024)
    site.held["docker/peer"] = 100  # cgroup v2: 100 there are the 2048 here, and so are neighbours' weights
    site.siblings = neighbours(8, 100)
    assert site.run(KEPT + 3)[-1] == enough(4 * 2048)


def test_a_group_above_with_many_components_in_it_gets_more() -> None:
    site = Site(siblings=neighbours(8, parent=""), groups=("docker",))
    assert site.run(GRACE + 3)[-1] == ABOVE * 4 * 1024
    both = Site(siblings=neighbours(8) | neighbours(2, parent=""), groups=("docker/peer", "docker"))
    assert both.run(GRACE + 3)[-1] == max(enough(4 * 1024), ABOVE * 1024)
    del both.held["docker"]
    assert both.second() is None


def test_cpus_that_come_while_the_daemon_runs_count(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(siblings=neighbours(16))
    site.finding = JustEnough(site.held.get)
    for cpus in (2, 8):
        monkeypatch.setattr("os.cpu_count", lambda cpus=cpus: cpus)
        assert site.run(GRACE + 1)[-1] == enough(16 // cpus * 1024)


def test_at_one_group_above_all_meet_the_same_neighbours_but_who_is_pinned() -> None:
    finding = JustEnough({"docker": 1024}.get, cpus=2)
    components = tuple(Component(name, Role.PEER, f"docker/{name}", ("red",)) for name in ("one", "two", "pinned"))
    for now in range(1, int(GRACE) + 4):
        period = Period(
            float(now),
            components,
            channels={"red": ChannelReading("red", 1000.0, 0.1, committed=1000 * now)},
            host=HostLoad(0.0, 0.5, pinned={"pinned": FULL}),
            owed={"red": Threshold(1000.0, "configured")},
            forces={one.name: InForce(16_384, 1024, Placement(("docker",), "")) for one in components},
            siblings=neighbours(8, parent=""),
        )
        limits = finding.step(period, look_at_all(period))
    most = {name: limit.most for name, limit in limits.items()}
    assert most == {"one": ABOVE * 4 * 1024, "two": ABOVE * 4 * 1024, "pinned": ABOVE * 8 * 1024}


def test_on_its_own_cpus_a_component_meets_all_neighbours() -> None:
    site = Site(host=HostLoad(0.0, 0.5, pinned={"peer": FULL}))
    assert site.run(GRACE + 3)[-1] == enough(8 * 1024)


def test_room_elsewhere_on_the_host_is_none_on_full_cpus_of_its_own_nor_the_other_way_round() -> None:
    site = Site(host=HostLoad(0.9, 0.02, pinned={"peer": FULL}))
    assert set(site.run(600)[int(GRACE) + 1 :]) == {enough(8 * 1024)}
    site.host = HostLoad(0.0, 0.9, pinned={"peer": HostLoad(0.5, 0.0)})
    assert site.run(ROOM_FOR)[-1] is None


def test_while_no_component_is_there_the_hosts_room_tells() -> None:
    site = Site()
    before = site.run(60)[-1]  # no throughput is watched for what less has done to it
    site.take_in(Period(site.now + ROOM_FOR, (), host=FULL, owed={"red": Threshold(None, "none")}))
    site.now, site.total = site.now + ROOM_FOR, site.total + round(ROOM_FOR * site.tps)
    assert site.second() == before


def test_a_neighbour_that_rests_for_a_moment_still_counts() -> None:
    site = Site()
    before = site.run(GRACE + 3)[-1]
    site.siblings = neighbours(4)
    assert set(site.run(KEPT)) == {before}
    assert site.run(2)[-1] == enough(2 * 1024)


def test_one_that_cannot_be_read_or_serves_no_known_channel() -> None:
    site = Site(channels=("blue",))
    assert site.second() == enough(4 * 1024)
    site = Site(channels=())
    assert site.run(GRACE + 3)[-1] == enough(4 * 1024)
    peer = Component("peer", Role.PEER, "docker/peer", ("red",))
    assert not site.take_in(Period(site.now + 1, (peer,), host=FULL))
    assert not site.take_in(Period(site.now + 2, (peer,), host=FULL, owed={"red": Threshold(None, "none")}))


@given(st.lists(st.tuples(st.floats(0, 3000), st.integers(0, 40), st.booleans()), max_size=60))
def test_whatever_comes_a_limit_is_what_the_neighbours_weigh_and_no_share(
    seconds: list[tuple[float, int, bool]],
) -> None:
    site = Site()
    for tps, count, room in seconds:
        site.tps, site.siblings = tps, neighbours(count)
        site.host = HostLoad(0.5, 0.0) if room else FULL
        most = site.second()
        assert most is None or enough(1024) <= most <= enough(20 * 1024)
