"""Peers' Prometheus pages: real ones are read, and a channel is counted once over several peers."""

from __future__ import annotations

import contextlib
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metrics_page import parse_page

from qioi.model.counting import Count
from qioi.model.names import MAX_CHANNELS
from qioi.monitor.metrics.exposition import COUNT, HEIGHT, Page, PageReader
from qioi.monitor.metrics.page_throughput import PageThroughput

DATA = Path(__file__).resolve().parents[2] / "data" / "fabric-logs"


def test_a_real_peers_page() -> None:
    page = parse_page((DATA / "fabric-2.5.16-peer-metrics.txt").read_bytes())
    assert page.transactions == {"mychannel": 77907 + 3 + 1}
    assert page.heights == {"mychannel": 7825}


def test_a_real_orderers_page_shows_no_commits() -> None:
    page = parse_page((DATA / "fabric-2.5.16-orderer-metrics.txt").read_bytes())
    assert page.transactions == {}
    pages = PageThroughput()
    pages.observe("orderer1", page, 0.0)
    assert pages.channels == ()


def test_only_valid_transactions_count() -> None:
    lines = "".join(f'{COUNT}{{channel="red",validation_code="{code}"}} {n}\n' for code, n in
                    [("VALID", 5), ("MVCC_READ_CONFLICT", 7), ("ENDORSEMENT_POLICY_FAILURE", 9)])  # fmt: skip
    assert parse_page(lines.encode()).transactions == {"red": 5}


@pytest.mark.parametrize("line", [f"{COUNT}{{channel=", f'{COUNT}{{channel="red"}} many', f"{COUNT}{{}}"])
def test_a_broken_line_is_no_page(line: str) -> None:
    with pytest.raises(ValueError, match="no Prometheus page"):
        parse_page(line.encode())


@given(st.text(max_size=60), st.sampled_from([COUNT + "{", 'ledger_blockchain_height{channel="red"', ""]))
def test_whatever_stands_there_nothing_but_a_value_error_comes_out(text: str, start: str) -> None:
    try:
        parse_page((start + text).encode(errors="replace"))
    except ValueError as error:
        assert "no Prometheus page" in str(error)  # noqa: PT017


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "times", "problem"),
    [
        ("ab", 5_000_000, None),
        (f'{COUNT}{{channel="red",validation_code="VALID"}} 5', 200_000, "more than 20000 lines"),
        (f'{HEIGHT}{{channel="{"r" * 50_000}"}} 5', 100, "or 4194304 bytes"),
        (f'{HEIGHT}{{channel="{"r" * 5_000_000}"}} 5', 1, "a line of more than 65536 bytes"),
    ],
)
def test_a_page_that_is_made_up_takes_little_memory(line: str, times: int, problem: str | None) -> None:
    """The daemon's own bound is 256 MB, and a component may be anybody's."""
    page = (line + "\n").encode() * times
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=problem) if problem else contextlib.nullcontext():
            assert parse_page(page) == Page()
        assert tracemalloc.get_traced_memory()[1] < 3 * len(page)
    finally:
        tracemalloc.stop()


def page(height: int, per_block: int = 10) -> Page:
    return Page({"red": float(height * per_block)}, {"red": height})


def test_two_peers_of_one_channel_count_once() -> None:
    pages = PageThroughput()
    for second in range(8):
        pages.observe("peer0", page(5 * second), float(second))
        pages.observe("peer1", page(5 * second), second + 0.4)
    reading = pages.reading("red", 7.5)
    assert reading.throughput == pytest.approx(50, rel=0.1)
    assert reading.height == 35
    assert reading.age == pytest.approx(0.5)


def test_channels_that_no_peer_shows_any_more_come_last_and_only_one_that_moves_is_heard() -> None:
    pages = PageThroughput()
    for second, (old, new) in enumerate(((1, 1), (2, 1), (2, 2))):
        pages.observe("peer0", Page({"old": 1.0 * old, "still": 9.0}, {"old": old, "still": 4}), float(second))
        pages.observe("peer1", Page({"new": 1.0 * new}, {"new": new}), float(second))
    assert pages.channels == ("old", "still", "new")
    assert pages.heard(1.0) == ("old", "new")
    assert pages.heard(2.0) == ("new",)
    pages.forget("peer0")
    assert pages.channels == ("new", "old", "still")


def test_a_peer_that_catches_up_adds_nothing() -> None:
    pages = PageThroughput()
    for second in range(12):
        pages.observe("peer0", page(1000 + 2 * second), float(second))
        pages.observe("late", page(min(100 * second, 1000 + 2 * second)), float(second))
    assert pages.reading("red", 11.0).throughput == pytest.approx(20, rel=0.1)


def test_a_lagging_peer_takes_nothing_away() -> None:
    pages = PageThroughput()
    for second in range(12):
        pages.observe("peer0", page(4 * second), float(second))
        pages.observe("stuck", page(3), float(second))
    assert pages.reading("red", 11.0).throughput == pytest.approx(40)


def test_there_is_no_reading_before_a_whole_window_and_zero_in_silence() -> None:
    pages = PageThroughput()
    for second in range(5):
        pages.observe("peer0", page(7), float(second))
    assert pages.reading("red", 4.0).throughput is None
    for second in range(5, 9):
        pages.observe("peer0", page(7), float(second))
    assert pages.reading("red", 8.0).throughput == 0.0
    assert pages.reading("blue", 8.0).throughput is None


def test_a_peer_that_starts_again_begins_a_new_window() -> None:
    pages = PageThroughput()
    for second in range(8):
        pages.observe("peer0", page(second), float(second))
    pages.observe("peer0", Page({"red": 1.0}, {"red": 8}), 8.0)
    assert pages.reading("red", 8.0).throughput is None


def test_a_peer_that_is_back_at_the_front_with_its_first_page_makes_no_silence() -> None:
    pages = PageThroughput()
    for second in range(12):
        pages.observe("peer0", page(5 * second), float(second))
    pages.observe("back", Page({"red": 7.0}, {"red": 56}), 11.4)  # a counter begins anew with its process
    assert pages.reading("red", 11.5).throughput == pytest.approx(50, rel=0.1)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 50), st.integers(0, 500)), max_size=60))
def test_a_rate_is_never_negative(looks: list[tuple[str, int, int]]) -> None:
    pages = PageThroughput()
    for second, (peer, height, transactions) in enumerate(looks):
        pages.observe(peer, Page({"red": float(transactions)}, {"red": height}), float(second))
        throughput = pages.reading("red", float(second)).throughput
        assert throughput is None or throughput >= 0


def test_transactions_are_counted_once_and_a_peer_that_begins_anew_takes_none_away() -> None:
    pages = PageThroughput()
    counted = []
    for peer, height in (("a", 5), ("b", 3), ("b", 5), ("a", 7), ("b", 9), ("a", 1), ("a", 10), ("b", 10)):
        pages.observe(peer, page(height), float(len(counted)))
        counted.append(pages.reading("red", float(len(counted))).committed)
    assert counted == [0, 0, 0, 20, 40, 40, 50, 50]


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1", "1e308", "1.8e19"])
def test_a_number_that_no_peer_counts_up_to_is_none(value: str) -> None:
    lines = [f'{HEIGHT}{{channel="red"}} {value}', f'{COUNT}{{channel="red",validation_code="VALID"}} {value}']
    assert parse_page("\n".join(lines).encode()) == Page()


def test_no_page_has_more_channels_than_are_looked_at() -> None:
    lines = [f'{COUNT}{{channel="c{number}",validation_code="VALID"}} 1' for number in range(MAX_CHANNELS + 5)]
    assert len(parse_page("\n".join(lines).encode()).transactions) == MAX_CHANNELS


@pytest.mark.slow
def test_channels_that_are_made_up_look_after_look_stay_within_bounds() -> None:
    pages = PageThroughput()
    for second in range(8):
        pages.observe("honest", page(5 * second), float(second))
        made_up = {f"c{second}-{number}": 1 for number in range(MAX_CHANNELS)}
        pages.observe("forger", Page({name: 1.0 for name in made_up}, made_up), float(second))
    assert len(pages.channels) <= MAX_CHANNELS
    assert pages.reading("red", 7.0).throughput == pytest.approx(50)
    pages.forget("forger")
    pages.observe("honest", Page({"blue": 1.0}, {"blue": 1}), 8.0)
    assert pages.channels == ("red", "blue")


@pytest.mark.parametrize("end", ["\u2028", "\x85", "\x0b", "\x1c", "\r"])
def test_no_label_can_begin_a_line(end: str) -> None:
    """A chaincode's name, or whatever else a label may hold, has no say in what a peer has committed."""
    forged = f'{COUNT}{{channel="red",validation_code="VALID"}} 9e9'
    honest = f'{COUNT}{{channel="red",validation_code="VALID"}} 5'
    text = f'endorser_proposals{{chaincode="x{end}{forged}"}} 1\n{honest}\n'
    assert parse_page(text.encode()).transactions == {"red": 5}


@pytest.mark.parametrize("name", ["", "\x1b[31mred", "r" * 250, "a b", "1", "réd"])
def test_what_cannot_be_a_channel_is_none(name: str) -> None:
    page = parse_page(
        f'{COUNT}{{channel="{name}",validation_code="VALID"}} 5\n{HEIGHT}{{channel="{name}"}} 5\n'.encode()
    )
    assert page == Page()


def test_a_peer_that_began_anew_and_commits_nothing_has_no_throughput() -> None:
    """Its page shows heights at once, and transactions from its first commit on."""
    pages = PageThroughput()
    for second in range(8):
        pages.observe("peer0", page(5 * second), float(second))
    assert pages.reading("red", 7.0).throughput == pytest.approx(50)
    for second in range(8, 20):
        pages.observe("peer0", Page({}, {"red": 35}), float(second))
    assert pages.reading("red", 19.0).throughput is None
    for second in range(20, 30):
        pages.observe("peer0", Page({"red": 10.0 * (second - 19)}, {"red": 35 + second - 19}), float(second))
    assert pages.reading("red", 29.0).throughput == pytest.approx(10)


@pytest.mark.parametrize("timeout", [5.0, 10.0, 20.0])
def test_blocks_a_long_batch_timeout_apart_do_not_flicker(timeout: float) -> None:
    pages, rates = PageThroughput(), []
    for second in range(round(8 * timeout)):
        now = second + 0.3
        pages.observe("peer0", page(1 + int(now / timeout), round(100 * timeout)), now)
        reading = pages.reading("red", now)
        if second >= 5 * timeout:
            rates.append(reading.throughput)
    assert rates == pytest.approx([100.0] * len(rates), rel=0.05)
    for second in range(1, round(5 * timeout)):
        pages.observe("peer0", page(1 + int(now / timeout), round(100 * timeout)), now + second)
    reading = pages.reading("red", now + 5 * timeout)
    assert reading.throughput is not None
    assert reading.throughput < 50


ROWS = st.sampled_from(
    [
        f'{COUNT}{{channel="red",validation_code="VALID"}} 5\n',
        f'{HEIGHT}{{channel="red"}} 7\n',
        f'{HEIGHT}{{channel="blue\\n{HEIGHT}{{"}} 9\n',
        f'x{HEIGHT}{{channel="green"}} 9\n',
        "# HELP ledger\n",
        "\n",
        "inserts 3\n",
        f'{HEIGHT}{{channel="last"}} 8',
    ]
)


def read(parts: list[bytes]) -> Page | None:
    """Read a page that comes in parts; ``None`` where it is none."""
    reader = PageReader({"db": Count("inserts")})
    try:
        for part in parts:
            reader.feed(part)
        return reader.page()
    except ValueError:
        return None


@given(st.lists(ROWS, max_size=12), st.lists(st.integers(0, 300), max_size=8))
def test_a_page_says_the_same_however_it_comes(rows: list[str], cuts: list[int]) -> None:
    page = "".join(rows).encode()
    places = [0, *sorted(cuts), max(*cuts, len(page)) if cuts else len(page)]
    assert read([page[begun:ended] for begun, ended in pairwise(places)]) == read([page])


@pytest.mark.parametrize("size", [60_000, 70_000, 200_000])
@pytest.mark.parametrize("before", [0, 1, 9_000])
def test_lines_that_do_not_count_may_be_as_long_as_they_like(size: int, before: int) -> None:
    """Such as a database's, with a statement in a label."""
    count = f'{COUNT}{{channel="red",validation_code="VALID"}} 5\n'
    long = f'statements{{query="{"x" * size}"}} 1\n# {"x" * size}\n'
    page = "#" * before + "\n" + count + long + f'{HEIGHT}{{channel="red"}} 7\n' + long
    assert parse_page(page.encode()) == Page({"red": 5.0}, {"red": 7})
    too_long = f'{COUNT}{{channel="{"r" * size}",validation_code="VALID"}} 5\n'
    with contextlib.nullcontext() if size < 65_536 else pytest.raises(ValueError, match="a line of more than"):
        parse_page((page + too_long).encode())


class Walked(dict[str, object]):
    """Counts the peers that are walked over."""

    walked = 0

    def values(self):  # type: ignore[no-untyped-def]
        self.walked += len(self)
        return super().values()


def test_a_page_costs_the_same_however_many_peers_show_its_channels() -> None:
    pages = PageThroughput()
    for peer in range(100):
        pages.observe(f"p{peer}", page(1000), 0.0)
    looks = Walked(pages._channels["red"].looks)
    pages._channels["red"].looks = looks  # type: ignore[assignment]
    for second in range(1, 10):
        for peer in range(100):
            pages.observe(f"p{peer}", page(1000 + second), float(second))
    assert looks.walked <= 100
    assert pages.reading("red", 9.0).height == 1009


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.sampled_from(["height", "height", "orderer", "forget"]), st.integers(0, 9)
        ),
        max_size=40,
    )
)
def test_the_front_is_the_greatest_height_that_any_peer_shows_now(steps: list[tuple[str, str, int]]) -> None:
    pages, shown = PageThroughput(), dict[str, int]()
    for second, (peer, what, height) in enumerate(steps):
        match what:
            case "height":
                pages.observe(peer, page(height), float(second))
                shown[peer] = height
            case "orderer":
                pages.observe(peer, Page({}, {"red": height}), float(second))
                shown.pop(peer, None)
            case _:
                pages.forget(peer)
                shown.pop(peer, None)
        assert pages.reading("red", float(second)).height == max(shown.values(), default=None)
