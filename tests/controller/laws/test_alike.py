"""A component of many channels: few of its laws are asked, and what is decided is what asking all would decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from qioi.controller.deciding import Controller
from qioi.controller.enough import ANY, Factors
from qioi.controller.findings.finder import Findings
from qioi.controller.findings.limits import Limit, Reason
from qioi.controller.laws.adaptive import Adaptive
from qioi.controller.laws.alike import Answer, View, Views, answer_all, answer_kind
from qioi.controller.laws.law import ChannelSeen, Effect, Law, Verdict
from qioi.controller.laws.proportional import Proportional
from qioi.controller.laws.thresholds import AUTO, Threshold
from qioi.controller.levels.placement import Placement
from qioi.controller.levels.wants import InForce
from qioi.controller.period import Period
from qioi.controller.policy import Policy
from qioi.model import Bounds, ChannelReading, Component, Decision, DelayReading, HostLoad, Role

CHANNELS = tuple(f"c{number}" for number in range(6))
FULL = HostLoad(0.0, 0.9)


class Everyone:
    """Asks a controller for each channel alone, so that no law's answer stands for another one's."""

    def __init__(self, policies: dict[str, Policy], enough: dict[str, Factors]) -> None:
        self._each = {name: Controller({name: one}, enough) for name, one in policies.items()}

    def decide(self, period: Period, findings: Findings) -> Decision:
        """Give the decision of the channel that asks for the most, the first of several."""
        made = [one for each in self._each.values() for one in decided(each, period, findings)]
        best = max(made, key=lambda one: one.shares)
        return replace(best, asks=tuple(ask for one in made for ask in one.asks))

    def limit(self, component: str, shares: int, before: int) -> None:
        """Give less than was asked for."""
        for each in self._each.values():
            each.limit(component, shares, before)


def decided(controller: Controller, period: Period, findings: Findings) -> list[Decision]:
    return [want.decision for want in controller.decide_all(period, findings)]


@st.composite
def parts(draw: st.DrawFn) -> tuple[int, float, HostLoad, list[ChannelReading | None], Findings, int | None]:
    """Some seconds in which nothing but the clock changes."""
    near = st.sampled_from(
        [(5.0, 40.0, 80.0), (85.0, 90.0, 93.0), (96.0, 99.0, 104.0), (108.0, 130.0), (10.0, 99.0, 400.0)]
    )
    rates = st.sampled_from(draw(near))
    ages = st.sampled_from(draw(st.sampled_from([(0.1,), (0.1,), (0.1, 30.0), (None, 0.1)])))
    readings: list[ChannelReading | None] = [ChannelReading(one, draw(rates), draw(ages)) for one in CHANNELS]
    if draw(st.sampled_from([False, False, True])):
        readings[0] = readings[3] = None
    limits = st.sampled_from(
        [{}, {}, {}, {"o": Limit(Reason.DISK, "waits for its disk")}, {"o": Limit(Reason.BURNS, "", 2000)}]
    )
    floors = st.sampled_from([{}, {}, {"c1": 4.0}, {"c1": 4.0, "c2": 4.0}])
    presumed = draw(st.sampled_from([frozenset(), frozenset({"c0", "c3"})]))
    return (
        draw(st.sampled_from([1, 2, 3, 6, 12])),
        draw(st.sampled_from([0.0, 0.05, 0.1, 0.12, 0.15, 0.3, 0.9])),
        draw(st.sampled_from([FULL, FULL, HostLoad(0.0, 0.5), HostLoad(0.6, 0.1)])),
        readings,
        Findings({}, {}, presumed, draw(limits), draw(floors)),
        draw(st.sampled_from([None, None, 1500])),
    )


policies = st.tuples(
    st.sampled_from([*["adaptive"] * 8, "proportional"]),
    st.sampled_from([16_384] * 5 + [3000]),
    st.sampled_from(["ledger"] * 5 + ["neighbours"]),
    st.integers(0, 1),
)
owed = st.sampled_from([Threshold(100.0, "configuration")] * 8 + [Threshold(None, "none"), Threshold(90.0, AUTO)])


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.lists(parts(), min_size=1, max_size=10),
    st.lists(policies, min_size=len(CHANNELS), max_size=len(CHANNELS)),
    st.lists(owed, min_size=len(CHANNELS), max_size=len(CHANNELS)),
    st.sampled_from([{}, {"o": {ANY: 5.0}}, {"o": {"c1": 5.0, "c2": 5.0, "c4": 2.0}}]),
)
def test_what_is_decided_is_what_asking_every_law_would_decide(
    times: Sequence[tuple[int, float, HostLoad, list[ChannelReading | None], Findings, int | None]],
    chosen: list[tuple[str, int, str, int]],
    thresholds: list[Threshold],
    enough: dict[str, Factors],
) -> None:
    given_policies = {
        channel: Policy(channel, law, ceiling=ceiling, beyond=beyond, priority=priority)
        for channel, (law, ceiling, beyond, priority) in zip(CHANNELS, chosen, strict=True)
    }
    few, every = Controller(given_policies, enough), Everyone(given_policies, enough)
    component, now, share, total = Component("o", Role.ORDERER, "g/o"), 0.0, 1024, 0
    for seconds, waits, host, readings, findings, most in times:
        for _ in range(seconds):
            now, total = now + 1.0, total + 100
            period = Period(
                now,
                (component,),
                {one.channel: replace(one, committed=total) for one in readings if one is not None},
                {"o": DelayReading("o", 0.3, 0.3 * waits / (1 - waits), 100, 1.0)},
                host,
                dict(zip(CHANNELS, thresholds, strict=True)),
                forces={"o": InForce(share, 1024, Placement(("g/o",), ""))},
            )
            made = [*decided(few, period, findings), every.decide(period, findings)]
            assert made[0] == made[1]
            wanted, share = made[0].shares, made[0].shares if most is None else min(made[0].shares, most)
            if share < wanted:
                few.limit("o", share, made[0].previous)
                every.limit("o", share, made[0].previous)


@pytest.mark.parametrize(("rates", "asked"), [([5.0, 10.0], 2), ([5.0, 7.0, 9.0], 2)])
def test_of_many_channels_with_one_need_few_are_asked(
    rates: list[float], asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant's channels do different things, all of them less than they are owed."""
    names = [f"t{number}" for number in range(64)]
    controller = Controller({name: Policy(name, "adaptive") for name in names})
    components, steps = tuple(Component(name, Role.PEER, f"g/{name}") for name in "pq"), []
    step = Adaptive.step
    monkeypatch.setattr(Adaptive, "step", lambda law, seen: (steps.append(seen.throughput), step(law, seen))[1])
    for second in range(1, 6):
        period = Period(
            float(second),
            components,
            {name: ChannelReading(name, rates[n % len(rates)], 0.1) for n, name in enumerate(names)},
            {name: DelayReading(name, 0.1, 0.9, 10, 1.0) for name in "pq"},
            FULL,
            dict.fromkeys(names, Threshold(50.0, "configuration")),
            forces={name: InForce(1024, 1024, Placement((f"g/{name}",), "")) for name in "pq"},
        )
        steps.clear()
        assert [len(made.asks) for made in decided(controller, period, Findings({}, {}))] == [64, 64]
    assert len(steps) <= 2 * (asked + 1)


def test_the_words_are_of_the_channel_that_wins() -> None:
    """It was not asked, as channels that lack less and more than it have got the same."""
    rates = {"middle": 25.0, "least": 35.0, "most": 15.0}
    controller = Controller({name: Policy(name, "adaptive") for name in rates})
    for now in (1.0, 2.0):
        period = Period(
            now,
            (Component("p", Role.PEER, "g/p"),),
            {name: ChannelReading(name, rate, 0.1) for name, rate in rates.items()},
            {"p": DelayReading("p", 1.0, 0.0, 10, 1.0)},
            FULL,
            dict.fromkeys(rates, Threshold(50.0, "configuration")),
            forces={"p": InForce(1024, 1024, Placement(("g/p",), ""))},
        )
        (made,) = decided(controller, period, Findings({}, {}))
        assert made.channel == "middle"
        assert made.error == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((50.0, 100.0, 0.1, False), (60.0, 100.0, 5.9, False), True),
        ((50.0, 100.0, 0.1, False), (94.0, 100.0, 0.1, False), True),
        ((94.0, 100.0, 0.1, False), (95.0, 100.0, 0.1, False), False),  # below T, and not by enough
        ((95.0, 100.0, 0.1, False), (110.0, 100.0, 0.1, False), True),
        ((110.0, 100.0, 0.1, False), (111.0, 100.0, 0.1, False), False),  # a surplus that counts
        ((None, 100.0, 0.1, False), (99.0, 100.0, 0.1, False), False),
        ((None, 100.0, 0.1, False), (50.0, None, 0.1, False), True),
        ((50.0, 100.0, 6.0, False), (50.0, 100.0, 6.1, False), False),  # silent
        ((50.0, 100.0, None, False), (50.0, 100.0, 30.0, False), False),  # never heard
        ((50.0, 100.0, None, True), (50.0, 100.0, 30.0, True), False),
        ((50.0, 100.0, 0.1, True), (50.0, 100.0, 0.1, False), False),
        ((50.0, 100.0, 0.1, True), (50.0, 100.0, 30.0, True), True),
        ((50.0, 100.0, 0.1, False, 2.0, None), (60.0, 100.0, 0.1, False, 2.0, None), True),
        ((50.0, 100.0, 0.1, False, 2.0, None), (50.0, 100.0, 0.1, False, 3.0, None), False),  # bounded otherwise
        ((50.0, 100.0, 0.1, False, None, 4.0), (50.0, 100.0, 0.1, False, None, None), False),  # a floor
    ],
)
def test_channels_are_of_one_kind_if_the_law_tells_only_their_error_apart(
    one: tuple[float, float, float, bool], other: tuple[float, float, float, bool], same: bool
) -> None:
    views = Views()
    its, others = (views.view(ChannelSeen(*each[:4]), *each[4:]) for each in (one, other))
    assert (its.kind == others.kind) is same
    assert views.view(ChannelSeen(*one[:4]), *one[4:]) == its


FAR, NEAR = 0.9, 0.1
MIDDLE = (0.4, 0.5, 0.6)


def law_at(share: float, **memory: float) -> Adaptive:
    law = Adaptive.start(1024, Bounds(1024, 16_384)).at(share)
    return replace(law, memory=law.memory._replace(**memory))


def asker(answers: Callable[[str], Answer]) -> tuple[list[str], Callable[[str], Answer]]:
    asked: list[str] = []
    return asked, lambda channel: (asked.append(channel), answers(channel))[1]


def verdict(shares: int, channel: str) -> Verdict:
    return Verdict(shares, channel, Effect.RAISED)


@pytest.mark.parametrize(
    ("least", "most", "all_asked"),
    [
        ((law_at(4096), 4096), (law_at(4096), 4096), False),
        ((law_at(4096), 4096), (law_at(8192), 8192), True),
        # Their memories tell them apart at the next period, though they get the same now.
        ((law_at(4096), 4096), (law_at(4096, raised_at=3.0), 4096), True),
        # A channel that is bounded gets something else than what its law has come to.
        ((law_at(4096), 2048), (law_at(4096), 4096), True),
    ],
)
def test_those_between_are_asked_unless_the_ends_answer_the_same(
    least: tuple[Adaptive, int], most: tuple[Adaptive, int], all_asked: bool
) -> None:
    between = law_at(6000)

    def answer(channel: str) -> Answer:
        law, shares = {str(NEAR): least, str(FAR): most}.get(channel, (between, 6000))
        return law, verdict(shares, channel)

    asked, ask = asker(answer)
    errors: dict[float | None, list[str]] = {one: [str(one), f"another {one}"] for one in (MIDDLE[0], FAR, NEAR)}
    errors |= {one: [str(one)] for one in MIDDLE[1:]}
    answers = answer_kind(errors, ask)
    assert sorted(asked) == sorted([str(NEAR), str(FAR)] + [str(one) for one in MIDDLE if all_asked])
    assert answers[NEAR] == (least[0], verdict(least[1], str(NEAR)))
    assert answers[FAR] == (most[0], verdict(most[1], str(FAR)))
    for one in MIDDLE:
        assert answers[one] == ((between, verdict(6000, str(one))) if all_asked else answers[NEAR])


@pytest.mark.parametrize("errors", [[None], [0.3], [0.3, 0.7], [None, 0.7]])
def test_where_there_are_no_more_than_two_errors_each_is_asked_once(errors: list[float | None]) -> None:
    asked, ask = asker(lambda channel: (law_at(4096), verdict(4096, channel)))
    answers = answer_kind({one: [str(one), "another"] for one in errors}, ask)
    assert asked == [str(one) for one in errors]
    assert {one: answer[1].cause for one, answer in answers.items()} == {one: str(one) for one in errors}


def test_laws_with_other_memories_and_literal_ones_are_asked_each() -> None:
    """Equal laws that are two objects were not known to be equal; Algorithm 1 has an answer for each error."""
    shared, literal = law_at(4096), Proportional(1024, 4.0, 1024, Bounds(1024, 16_384))
    laws: dict[str, Law] = {"a": shared, "b": shared, "c": law_at(4096), "p": literal, "q": literal}
    asked, ask = asker(lambda channel: (laws[channel], verdict(4096, channel)))
    answers = answer_all(laws, laws, dict.fromkeys(laws, View(0, 0.5)), ask)
    assert sorted(asked) == ["a", "c", "p", "q"]
    assert {channel: answer[1].cause for channel, answer in answers.items()} == dict(zip("abcpq", "aacpq", strict=True))


def test_two_kinds_with_one_error_are_asked_each() -> None:
    law = law_at(4096)
    asked, ask = asker(lambda channel: (law, verdict(4096, channel)))
    answer_all("ab", dict.fromkeys("ab", law), {"a": View(0, 0.5), "b": View(1, 0.5)}, ask)
    assert asked == ["a", "b"]


def test_laws_that_have_come_to_the_same_are_one_afterwards_unless_their_bounds_differ() -> None:
    """So few are asked in the next period as well."""
    wide = replace(law_at(4096), bounds=Bounds(1024, 20_000))
    laws: dict[str, Law] = {"a": law_at(1024), "b": law_at(2048), "c": law_at(3000)}
    after = {"a": law_at(4096), "b": law_at(4096), "c": wide}
    assert after["a"] is not after["b"]
    answers = answer_all(
        laws, laws, dict.fromkeys(laws, View(0, 0.5)), lambda channel: (after[channel], verdict(4096, channel))
    )
    assert answers["a"][0] is answers["b"][0]
    assert answers["c"][0] is wide
