from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qioi.model import Commit, LeaderChange
from qioi.monitor import CommitParser, Event, Skip
from qioi.monitor.commits.parser import _USUAL
from qioi.monitor.commits.records import MAX_RECORD, parse_record, parse_time

LOGS = Path(__file__).parents[2] / "data" / "fabric-logs"
STAMP = 1795231676.052
NEW = "2026-11-21 03:27:56.052 UTC 002b INFO [kvledger] commit -> "
OLD = "2026-11-21 03:27:56.052 UTC [kvledger] CommitWithPvtData -> INFO 029 "
V11 = "Channel [ch1]: Committed block [7] with 3 transaction(s)"
V13 = (
    "[ch1] Committed block [7] with 3 transaction(s) in 55ms (state_validation=0ms block_commit=22ms state_commit=19ms)"
)
V142 = (
    "[ch1] Committed block [7] with 3 transaction(s) in 0ms (state_validation=0ms "
    "block_and_pvtdata_commit=0ms state_commit=0ms) commitHash=[949246cd]"
)
EMPTY_HASH = V142.replace("949246cd", "")
GOSSIP = "[ch1] Committed block [7] with 3 transaction(s)"
MESSAGES = [V11, V13, V142, EMPTY_HASH]
SEEN = Commit("ch1", 7, 3, STAMP, "p")


def parse_line(line: bytes, component: str = "") -> Event | None:
    """Read one line by itself, with no memory of the log that it comes from."""
    return CommitParser(component).line(line)


def colour(line: str) -> str:
    line = line.replace("2026-", "\x1b[34m2026-", 1).replace("INFO", "INFO\x1b[0m", 1)
    return line.replace("commit ->", "\x1b[34;1mcommit\x1b[0m ->")


def as_json(message: str, *, level: str = "info", name: str = "kvledger") -> str:
    return json.dumps(
        {"level": level, "ts": STAMP, "name": name, "caller": "kvledger/kv_ledger.go:712", "msg": message}
    )


def as_logfmt(message: str, *, level: str = "info", name: str = "kvledger") -> str:
    text = message.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'ts={STAMP} level={level} name={name} caller=kvledger/kv_ledger.go:712 msg="{text}"'


FORMATS = {
    "old": lambda message: OLD + message,
    "old-colour": lambda message: colour(OLD + message),
    "new": lambda message: NEW + message,
    "new-colour": lambda message: colour(NEW + message),
    "json": as_json,
    "logfmt": as_logfmt,
    "compose": lambda message: "peer0.org1.example.com  | " + NEW + message,
    "journal": lambda message: "Nov 21 03:27:56 host1 peer[4711]: " + OLD + message,
    "carriage-return": lambda message: NEW + message + "\r",
    "nul": lambda message: "\0" * 100_000 + NEW + message,
}


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("layout", FORMATS)
def test_every_wording_in_every_format_is_read(layout: str, message: str) -> None:
    assert parse_line(FORMATS[layout](message).encode(), "p") == SEEN


def test_a_format_of_the_operators_own_is_read_without_its_header() -> None:
    assert parse_line(f"2026-11-21 03:27:56.052 INFO {V142}".encode(), "p") == SEEN
    assert parse_line(V142.encode(), "p") == Commit("ch1", 7, 3, None, "p")


def forged_in(layout: str) -> list[str]:
    """What a chaincode or client may get into a message of another module, or of another level."""
    make = FORMATS[layout]
    inner = [make(message) for message in MESSAGES] + MESSAGES
    lines = [f"2026-11-21 03:27:56.052 UTC 0001 INFO [endorser] callChaincode -> finished: {text}" for text in inner]
    lines += [f"2026-11-21 03:27:56.052 UTC [chaincode] run -> WARN 0ab {text}" for text in inner]
    lines += [as_json(text, name="endorser") for text in inner]
    lines += [as_logfmt(text, name="peer.chaincode") for text in inner]
    lines += [f"2026-11-21 03:27:56.052 UTC 0001 INFO [kvledger] commit -> recovered: {text}" for text in inner]
    return lines


@pytest.mark.parametrize("layout", FORMATS)
def test_a_commit_inside_another_message_does_not_count(layout: str) -> None:
    for line in forged_in(layout):
        assert parse_line(line.encode()) is None, line


@pytest.mark.parametrize(
    "line",
    [
        NEW.replace("INFO", "DEBU") + V142,
        OLD.replace("INFO", "DEBU") + V13,
        "2026-11-21 03:27:56.052 UTC 002b DEBU [gossip.state] commitBlock -> " + GOSSIP,
        "2026-11-21 03:27:56.052 UTC [gossip/state] commitBlock -> DEBU 0cd " + GOSSIP,
        NEW + GOSSIP,
        as_json(V142, level="debug"),
        as_json(GOSSIP, name="gossip.state", level="debug"),
        as_logfmt(V142, level="debug"),
        NEW.replace("INFO", "DEBU") + V142.replace("ch1", "x\x1b[0m"),
        "DEBU " + V142,
        "chaincode says " + V142,
        NEW + V142 + " and more",
        NEW + V11.replace("ch1", "a b"),
        NEW + V11.replace("ch1", "x" * 250),
        NEW + V11 + " in 55ms (state_validation=0ms block_commit=22ms state_commit=19ms)",
        as_json(V142)[:-1],
        '{"broken": ' + NEW + V142,
        "[" * 4000 + V142,
        '{"level":' + "[" * 3000 + " Committed block",
    ],
)
def test_look_alikes_do_not_count(line: str) -> None:
    parser = CommitParser()
    assert parser.line(line.encode()) is None
    assert sum(parser.counters.skipped.values()) == 1


def test_a_message_without_header_does_not_count_where_lines_have_headers() -> None:
    parser = CommitParser("p")
    assert parser.line((NEW + V142).encode()) == SEEN
    assert parser.line(V142.encode()) is None
    assert parser.counters.skipped == {Skip.NO_HEADER: 1}


@pytest.mark.parametrize(("message", "why"), [
    ("Raft leader changed, says " + V142, Skip.NOT_KVLEDGER),
    ("Raft leader changed: 1 -> 2 channel=ch1 node=1", Skip.NOT_A_COMMIT),  # from the wrong module
])  # fmt: skip
def test_what_only_looks_like_a_change_of_leader_is_counted_by_what_it_pretends(message: str, why: Skip) -> None:
    parser = CommitParser("p")
    assert parser.parse((NEW + message).encode()) is None
    assert parser.counters.skipped == {why: 1}


@pytest.mark.parametrize("number", ["18446744073709551616", "9" * 21, "9" * 3000, "-1", "1e3", "٣"])
def test_a_number_that_is_no_u64_is_refused(number: str) -> None:
    assert parse_line((NEW + V142.replace("[7]", f"[{number}]")).encode()) is None
    assert parse_line((NEW + V142.replace("with 3", f"with {number}")).encode()) is None


def test_the_largest_numbers_are_read() -> None:
    found = parse_line(
        (NEW + V142.replace("[7]", "[18446744073709551615]").replace("with 3", "with 4294967295")).encode()
    )
    assert isinstance(found, Commit)
    assert (found.block, found.transactions) == (2**64 - 1, 2**32 - 1)


def test_other_channels_than_the_components_own_do_not_count() -> None:
    parser = CommitParser("p", ["ch2"])
    assert parser.line((NEW + V142).encode()) is None
    assert parser.line((NEW + V142.replace("ch1", "ch2")).encode()) is not None
    assert parser.counters.skipped == {Skip.FOREIGN_CHANNEL: 1}


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("2026-11-21 03:27:56.052 UTC", STAMP),
        ("2026-11-21T03:27:56.052Z", STAMP),
        ("2026-11-21T04:27:56.052+01:00", STAMP),
        ("2026-11-21 01:57:56.052 -0130", STAMP),
        ("2026-13-21 03:27:56.052 UTC", None),
        ("", None),
    ],
)
def test_time_stamps(stamp: str, expected: float | None) -> None:
    found = parse_line(NEW.replace("2026-11-21 03:27:56.052 UTC", stamp).encode() + V142.encode())
    assert isinstance(found, Commit)
    assert found.time == expected


@pytest.mark.parametrize("value", [True, "x", -5, 1e300, None, [], "1e99", 0])
def test_an_epoch_that_is_none_is_left_out(value: object) -> None:
    line = json.dumps({"level": "info", "ts": value, "name": "kvledger", "msg": V142})
    assert parse_line(line.encode(), "p") == Commit("ch1", 7, 3, None, "p")


def test_leader_changes_are_read() -> None:
    text = "Raft leader changed: 0 -> 2 channel=mychannel node=1"
    head = "2026-11-21 03:27:56.052 UTC 0032 INFO [orderer.consensus.etcdraft] run -> "
    assert parse_line((head + text).encode(), "o") == LeaderChange(0, 2, STAMP, "mychannel", "o")
    assert parse_line((head + "Raft leader changed: 2 -> 0").encode(), "o") == LeaderChange(2, 0, STAMP, None, "o")
    entry = {"level": "info", "ts": STAMP, "name": "orderer.consensus.etcdraft", "msg": text[:28], "channel": "c"}
    assert parse_line(json.dumps(entry).encode(), "o") == LeaderChange(0, 2, STAMP, "c", "o")
    assert parse_line((NEW + text).encode()) is None
    assert parse_line((head.replace("INFO", "DEBU") + text).encode()) is None


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.log")), ids=lambda log: log.name)
def test_recorded_logs(log: Path) -> None:
    """What a plain search for the words finds, in logs in which nobody forges, is what the parser finds."""
    data = log.read_bytes()
    words = re.findall(rb"\[(\w+)\] Committed block \[(\d+)\] with (\d+) transaction", data)
    leaders = re.findall(rb"Raft leader changed: (\d+) -> (\d+)", data)
    parser = CommitParser("p")
    events = parser.scan(data)
    commits = [event for event in events if isinstance(event, Commit)]
    assert [(c.channel.encode(), c.block, c.transactions) for c in commits] == [
        (a, int(b), int(c)) for a, b, c in words
    ]
    assert [(e.old, e.new) for e in events if isinstance(e, LeaderChange)] == [(int(a), int(b)) for a, b in leaders]
    assert len(words) + len(leaders) > 0
    assert parser.counters.lines == data.count(b"\n")
    assert parser.counters.skipped == {}
    stamps = [event.time for event in events if event.time is not None]
    assert len(stamps) == len(events)
    assert stamps == sorted(stamps)
    assert events == [event for line in data.split(b"\n") if (event := CommitParser("p").line(line)) is not None]


JUNK = st.binary(max_size=300) | st.sampled_from(
    [b"\0", b"\n", b"\x1b[0m", b"{", b'"', b"\\", b"[", b"] ", b" -> ", b"="]
)
REAL = st.sampled_from(
    [FORMATS[layout](message).encode() for layout in FORMATS for message in MESSAGES if layout != "nul"]
)


@given(st.lists(JUNK | REAL | st.sampled_from([b"Committed", b"Raft leader changed: "]), max_size=8).map(b"".join))
def test_no_input_raises(data: bytes) -> None:
    parser = CommitParser("p")
    found = parser.scan(data)
    assert len(found) == parser.counters.commits + parser.counters.leader_changes
    for line in data.split(b"\n"):
        parser.line(line)


@given(st.from_regex(_USUAL, fullmatch=True), st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)))
@example((NEW + V142).encode(), datetime(2026, 11, 21, 3, 27, 56))
@example((OLD + V13).encode(), datetime(2026, 11, 21, 3, 27, 56))
def test_the_short_way_finds_what_the_long_way_does(line: bytes, at: datetime) -> None:
    """A line as generated, of which hardly any has an instant that there is, and the same with one."""
    dated = at.isoformat(" ", "seconds").encode() + line[19:]
    for one in (line, dated):
        short, long = CommitParser("p"), CommitParser("p")
        found = short.parse(one)
        assert found == long.parse(one + b"\r")  # a carriage return leads the long way
        assert short.counters == long.counters
        assert short.parse(V142.encode()) is long.parse(V142.encode()) is None  # either has seen a header
    usual = _USUAL.fullmatch(dated)
    assert usual is not None
    _, fraction, channel, block, transactions = usual.groups()
    if int(block) >= 2**64 or int(transactions) >= 2**32:
        assert found is None
    else:
        instant = at.replace(microsecond=0, tzinfo=UTC).timestamp() + int(fraction) / 1000
        assert found == Commit(channel.decode(), int(block), int(transactions), instant, "p")


@given(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=200), REAL)
def test_what_another_module_says_never_counts(before: str, forged: bytes) -> None:
    head = "2026-11-21 03:27:56.052 UTC 0001 INFO [endorser] callChaincode -> "
    assert parse_line(head.encode() + before.encode() + forged) is None
    text = before + forged.decode()
    assert parse_line(as_json(text, name="endorser").encode()) is None
    assert parse_line(as_logfmt(text, name="endorser").encode()) is None


@pytest.mark.parametrize(
    "unit",
    [
        b"[a] ",
        b"\x1b[0",
        b"2026-11-21 ",
        b"[",
        b'a="',
        b"-> ",
        b"\\",
        b"1",
        b"{",
        b" x=y",
        b"ts=1 level=",
        b"[kvledger]",
    ],
)
@pytest.mark.timeout(60)  # a regular expression that backtracks takes longer, and what is bounded milliseconds
def test_work_on_a_line_is_bounded(unit: bytes) -> None:
    line = (unit * 1_000_000)[:1_000_000] + b" Committed Raft leader changed: 1 -> 2"
    short = NEW.encode() + b"Committed Raft leader changed: 1 -> 2" + (unit * 4000)[:4000]
    assert parse_line(line) is None
    for cut in (line[-4000:], b"ts=1 level=" + line[-4000:], short[:4096]):
        parse_line(cut)


def test_longer_lines_than_any_commits_are_not_taken_apart() -> None:
    line = b"2026-01-02 03:04:05.678 UTC 0001 INFO [kvledger] commit -> "
    assert parse_record(line.ljust(MAX_RECORD, b"x")) is not None
    assert parse_record(line.ljust(MAX_RECORD + 1, b"x")) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (b"1970-01-01 00:00:59", 59.0),
        (b"1970-01-01 00:00:60", 60.0),  # a leap second
        (b"1970-01-01 00:00:61", None),
        (b"1970-01-01 00:60:00", None),
        (b"1970-01-01 24:00:00", None),
        (b"1970-01-01T02:00:00+02:00", 0.0),
        (b"1970-01-01T00:00:00-0130", 5400.0),
    ],
)
def test_times(text: bytes, seconds: float | None) -> None:
    assert parse_time(text) == seconds


def test_the_time_is_the_one_beside_the_header_whoever_has_put_his_own_before_it() -> None:
    line = b"1970-01-02T00:00:00Z host peer0: 1970-01-01 00:00:07.000 UTC 0001 INFO [kvledger] commit -> text"
    record = parse_record(line)
    assert record is not None
    assert (record.time, record.message) == (7.0, b"text")


def test_of_a_key_that_stands_twice_in_logfmt_the_encoders_own_counts() -> None:
    record = parse_record(b'ts=7.0 level=info name=kvledger caller=a.go:1 msg="true" msg="forged" level=debug')
    assert record is not None
    assert (record.message, record.level, record.time) == (b"true", "info", 7.0)
