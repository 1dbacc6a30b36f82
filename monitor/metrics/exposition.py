"""A component's Prometheus page -> what it has committed, per channel.

Fabric's operations endpoint gives ``ledger_transaction_count{channel,validation_code,…}``, which counts since the
process began, and ``ledger_blockchain_height{channel}``. Only VALID transactions count: unlike a log line, the
metric tells them apart. A channel may have another counter, by a :class:`~qioi.model.counting.Count`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from qioi.model.counting import Count
from qioi.model.names import MAX_CHANNELS, is_channel

COUNT = "ledger_transaction_count"
HEIGHT = "ledger_blockchain_height"
#: A count or a height at or above it is ignored, so that sums stay finite.
MOST = 2.0**63
#: Lines of the metrics that count, and bytes of them. A thousand channels have a quarter of it; a page may be made up.
MOST_LINES, MOST_BYTES = 20_000, 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Page:
    """One look at one component, by channel. ``transactions`` are the valid ones since the process began.

    ``counts`` are those of channels that have a counter of their own.
    """

    transactions: Mapping[str, float] = field(default_factory=dict)
    heights: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, float] = field(default_factory=dict)


def parse_page(page: bytes, counted: Mapping[str, Count] | None = None) -> Page:
    """Read a page; only the lines of the metrics that count are looked at. ValueError: it is none, or has too many."""
    counted = counted or {}
    wanted = lines_of(
        page, (COUNT + "{", HEIGHT + "{", *(one.metric + end for one in counted.values() for end in "{ "))
    )
    counts: dict[str, float] = {}
    transactions: dict[str, float] = {}
    heights: dict[str, int] = {}
    known: set[str] = set()
    try:
        for sample in (sample for family in text_string_to_metric_families(wanted) for sample in family.samples):
            if not 0 <= sample.value < MOST:  # nor NaN
                continue
            for name in (name for name, count in counted.items() if count.covers(sample.name, sample.labels)):
                counts[name] = counts.get(name, 0.0) + sample.value
            channel = sample.labels.get("channel")
            if sample.name not in (COUNT, HEIGHT) or channel is None or not is_channel(channel):
                continue
            if channel not in known and len(known) >= MAX_CHANNELS:
                continue
            known.add(channel)
            if sample.name == HEIGHT:
                heights[channel] = int(sample.value)
            elif sample.labels.get("validation_code") == "VALID":
                transactions[channel] = transactions.get(channel, 0.0) + sample.value
    except (ValueError, IndexError, KeyError) as error:
        raise ValueError(f"no Prometheus page: {error}") from None
    return Page(transactions, heights, counts)


def lines_of(page: bytes, beginnings: Iterable[str]) -> str:
    """Cut out the lines that begin so. ValueError: there are more than are looked at."""
    found: list[bytes] = []
    page, room = b"\n" + page, MOST_BYTES
    for beginning in dict.fromkeys(beginnings):  # channels may share a counter
        for line in _lines(page, b"\n" + beginning.encode()):
            found.append(line)
            room -= len(line)
            if room < 0 or len(found) > MOST_LINES:
                raise ValueError(f"more than {MOST_LINES} lines, or {MOST_BYTES} bytes, of the metrics that count")
    return b"\n".join(found).decode("utf-8", errors="replace") + "\n"


def _lines(page: bytes, beginning: bytes) -> Iterator[bytes]:
    # All others are never taken apart: a page of short lines would be a hundred times its size.
    at = page.find(beginning)
    while at >= 0:
        end = page.find(b"\n", at + 1)
        yield page[at + 1 : end if end >= 0 else None]
        at = page.find(beginning, end) if end >= 0 else -1
