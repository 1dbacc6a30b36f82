"""What a Caliper run said: its log's tables and errors, and our observer's latencies.

Caliper's own figures have a resolution of 10 ms and no percentiles, and its throughput counts failed
transactions; the observer's have 1 ms. Both are kept, under different names.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

#: Fabric's names of validation codes (peer/transaction.proto), which the connector reports as numbers.
VALIDATION_CODES = {
    2: "BAD_PAYLOAD",
    4: "BAD_CREATOR_SIGNATURE",
    9: "DUPLICATE_TXID",
    10: "ENDORSEMENT_POLICY_FAILURE",
    11: "MVCC_READ_CONFLICT",
    12: "PHANTOM_READ_CONFLICT",
    255: "INVALID_OTHER_REASON",
}
#: Kinds of errors kept of each round; the log has them all.
KINDS = 5

_STAMP = re.compile(r"^\d{4}\.\d\d\.\d\d-\d\d:\d\d:\d\d\.\d{3} ")
_MESSAGE = re.compile(r"^\S+ +(?P<level>\w+) +\[caliper\] \[(?P<module>[^\]]*)\] +\t?(?P<text>.*)$", re.DOTALL)
_ROUND_STARTED = re.compile(r"^Started round \d+ \((?P<label>.*)\)$")
_ROUND_FAILED = re.compile(r"^Failed round \d+ \((?P<label>.*?)\): (?P<reason>.*)$", re.DOTALL)
_TRANSACTION_FAILED = re.compile(
    r"^Failed to perform (submit|query) transaction \[(?P<function>[^\]]*)\] using arguments \[.*?\], +with error: "
    r"(?P<reason>.*)$",
    re.DOTALL,
)
_STATUS_CODE = re.compile(r"^Error: Failed to submit trasaction with status code: (?P<code>\d+)$")  # Caliper's spelling
_CLOCK = re.compile(
    r" \(\d{4}-\d\d-\d\dT[\d:.]+Z\)"
)  # grpc-js' time of a failure, which would make each a kind of its own
_PROGRESS = re.compile(
    r"^\[(?P<label>.*) Round \d+ Transaction Info\] - Submitted: (?P<submitted>\d+) Succ: (?P<succeeded>\d+) "
    r"Fail:(?P<failed>\d+) Unfinished:(?P<unfinished>\d+)$"
)


@dataclass(frozen=True, slots=True)
class Latencies:
    """Of successful transactions, in ms, from the observer."""

    mean: float
    p50: int
    p95: int
    p99: int
    max: int


@dataclass(slots=True)
class Round:
    """One round. Rates are per second; ``goodput`` and ``latency_ms`` are the observer's, the others Caliper's."""

    label: str
    succeeded: int | None = None
    failed: int | None = None
    send_rate: float | None = None
    throughput: float | None = None
    max_latency_s: float | None = None
    min_latency_s: float | None = None
    avg_latency_s: float | None = None
    goodput: float | None = None
    latency_ms: Latencies | None = None
    errors: list[dict[str, object]] = field(default_factory=list)
    failure: str | None = None

    @property
    def problem(self) -> str | None:
        """Give the reason why the round has no figures: it failed as a whole, or no transaction succeeded."""
        if self.succeeded and self.failure is None:
            return None
        reason = self.failure or ("it did not run to its end" if self.succeeded is None else "no transaction succeeded")
        return f"{reason}: {self.errors[0]['message']}" if self.errors else reason

    def as_json(self) -> dict[str, object]:
        """Format it for programs."""
        return asdict(self)


def messages(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Put Caliper's log messages together again, (module, text) each; a message may span lines."""
    gathered: list[str] = []
    for line in [*lines, "0000.00.00-00:00:00.000 "]:
        if _STAMP.match(line) and gathered:
            found = _MESSAGE.match("\n".join(gathered))
            if found:
                yield found["module"], found["text"]
            gathered = []
        gathered.append(line.rstrip("\n"))


def progress(line: str) -> str | None:
    """Shorten one log line, if a waiting user wants to see it."""
    found = _MESSAGE.match(line.rstrip("\n"))
    if not found:
        return None
    text = found["text"]
    counts = _PROGRESS.match(text)
    if counts:
        return "{label}: {submitted} submitted, {succeeded} succeeded, {failed} failed".format(**counts.groupdict())
    started = _ROUND_STARTED.match(text)
    return f"{started['label']}: preparing" if started else None


def parse(log: str, labels: Iterable[str], latency_files: Iterable[Path] = ()) -> list[Round]:
    """Gather the rounds in their order from a run's log and the observer's files."""
    rounds = {label: Round(label) for label in labels}
    errors: dict[str, Counter[str]] = {label: Counter() for label in rounds}
    current: str | None = None
    for _, text in messages(log.splitlines()):
        if started := _ROUND_STARTED.match(text):
            current = started["label"]
        elif (broken := _ROUND_FAILED.match(text)) and broken["label"] in rounds:
            rounds[broken["label"]].failure = _first_line(broken["reason"])
        elif (failed := _TRANSACTION_FAILED.match(text)) and current in errors:
            errors[current][_reason(failed["function"], failed["reason"])] += 1
        elif text.lstrip().startswith("+--"):
            _take_table(text, rounds)
    for label, found in errors.items():
        rounds[label].errors = [{"message": message, "count": count} for message, count in found.most_common(KINDS)]
    _take_latencies(rounds, latency_files)
    return list(rounds.values())


def _first_line(text: str) -> str:
    line = text.strip().split("\n")[0]
    while line.startswith("Error: "):  # each process that passes an error on adds one
        line = line.removeprefix("Error: ")
    return line


def _reason(function: str, text: str) -> str:
    """One line: validation codes by name; of other errors the function, and what each endorser said."""
    code = _STATUS_CODE.match(text.strip())
    if code:
        number = int(code["code"])
        return f"committed as {VALIDATION_CODES.get(number, 'validation code')} ({number})"
    lines = (line.strip() for line in _CLOCK.sub("", text).splitlines())
    return f"{function}: {' '.join(line for line in lines if line not in {'', 'Details:'})}"


def _take_table(text: str, rounds: dict[str, Round]) -> None:
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines() if "| " in line]
    if not rows or rows[0][0] != "Name":
        return
    for row in rows[1:]:
        entry = rounds.get(row[0])
        if entry is None or len(row) != len(rows[0]):
            continue
        value = dict(zip(rows[0], map(_number, row), strict=True))
        entry.succeeded, entry.failed = _whole(value["Succ"]), _whole(value["Fail"])
        entry.send_rate, entry.throughput = value["Send Rate (TPS)"], value["Throughput (TPS)"]
        entry.max_latency_s, entry.min_latency_s = value["Max Latency (s)"], value["Min Latency (s)"]
        entry.avg_latency_s = value["Avg Latency (s)"]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None  # Caliper writes "-" where nothing succeeded
    return value if math.isfinite(value) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _take_latencies(rounds: dict[str, Round], files: Iterable[Path]) -> None:
    counts: dict[str, Counter[int]] = {label: Counter() for label in rounds}
    spans: dict[str, list[float]] = {label: [] for label in rounds}
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if record["label"] in counts and record["first"] is not None:
                counts[record["label"]].update({int(ms): count for ms, count in record["latencies"].items()})
                spans[record["label"]] += [record["first"], record["last"]]
    for label, counted in counts.items():
        if not counted:
            continue
        rounds[label].latency_ms = latencies(counted)
        seconds = (max(spans[label]) - min(spans[label])) / 1000
        rounds[label].goodput = round(counted.total() / seconds, 1) if seconds > 0 else None


def latencies(counted: Counter[int]) -> Latencies:
    """Percentiles by nearest rank of values in ms, given as value -> how often."""
    total, seen = counted.total(), 0
    wanted = {share: math.ceil(share / 100 * total) for share in (50, 95, 99)}
    found: dict[int, int] = {}
    for value, count in sorted(counted.items()):
        seen += count
        for share, rank in wanted.items():
            if seen >= rank:
                found.setdefault(share, value)
    mean = sum(value * count for value, count in counted.items()) / total
    return Latencies(round(mean, 2), found[50], found[95], found[99], max(counted))
