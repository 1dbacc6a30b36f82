"""A component's Prometheus page -> what it has committed, per channel.

Fabric's operations endpoint gives ``ledger_transaction_count{channel,validation_code,…}``, which counts since the
process began, and ``ledger_blockchain_height{channel}``. Only VALID transactions count: unlike a log line, the
metric tells them apart. A channel may have another counter, by a :class:`~qioi.model.counting.Count`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from qioi.model.counting import Count
from qioi.model.names import MAX_CHANNELS, is_channel

COUNT = "ledger_transaction_count"
HEIGHT = "ledger_blockchain_height"
#: A count or a height at or above it is ignored, so that sums stay finite.
MOST = 2.0**63
#: Lines of the metrics that count, and bytes of them. A thousand channels have a quarter of it; a page may be made up.
MOST_LINES, MOST_BYTES = 20_000, 4 * 1024 * 1024
#: Bytes of any line. A channel's name has 249 at most.
MOST_OF_LINE = 64 * 1024
#: Bytes that are read of a page at a time.
CHUNK = 16 * 1024

#: A counter's series on one page: a hash of its labels -> its value.
Series = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Page:
    """One look at one component, by channel. ``transactions`` are the valid ones since the process began.

    ``series`` are those of the channels that have a counter of their own.
    """

    transactions: Mapping[str, float] = field(default_factory=dict)
    heights: Mapping[str, int] = field(default_factory=dict)
    series: Mapping[str, Series] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, float]:
        """Add each channel's series up."""
        return {name: sum(series.values()) for name, series in self.series.items()}


class PageReader:
    """Reads a page as it comes: what is held of it is a line, and what the lines that count have said.

    Lines of other metrics may be as long as they like, and are passed over.

    Many endpoints may answer at once, each with the largest page that is read, and a line that is taken apart is ten
    times its size.
    """

    def __init__(self, counted: Mapping[str, Count] | None = None) -> None:
        self._counted = counted or {}
        names = [COUNT + "{", HEIGHT + "{", *(one.metric + end for one in self._counted.values() for end in "{ ")]
        self._beginnings = [b"\n" + name.encode() for name in dict.fromkeys(names)]  # channels may share a counter
        self._rest = b""
        self._passing = False  # over the rest of a line that does not count
        self._lines = self._bytes = 0
        self._known: set[str] = set()
        self._transactions: dict[str, float] = {}
        self._heights: dict[str, int] = {}
        self._series: dict[str, dict[int, float]] = {}

    def feed(self, data: bytes) -> None:
        """Read on. ValueError: it is no page, or has too many lines."""
        if self._passing:
            _, found, data = data.partition(b"\n")
            self._passing = not found
        end = data.rfind(b"\n") + 1
        if end:
            self._read(b"\n" + self._rest + data[:end])
            self._rest = b""
        self._rest += data[end:]
        if len(self._rest) > MOST_OF_LINE:
            self._read(b"\n" + self._rest)  # it is refused where it counts
            self._rest, self._passing = b"", True

    def page(self) -> Page:
        """Give what the page says, all of which has come. ValueError."""
        self._read(b"\n" + self._rest)
        self._rest = b""
        return Page(self._transactions, self._heights, self._series)

    def _read(self, block: bytes) -> None:
        """Read whole lines; only those of the metrics that count are taken apart."""
        found: list[bytes] = []
        for beginning in self._beginnings:
            for line in _lines(block, beginning):
                if len(line) > MOST_OF_LINE:
                    raise ValueError(f"a line of more than {MOST_OF_LINE} bytes")
                found.append(line)
                self._bytes += len(line)
                self._lines += 1
                if self._bytes > MOST_BYTES or self._lines > MOST_LINES:
                    raise ValueError(f"more than {MOST_LINES} lines, or {MOST_BYTES} bytes, of the metrics that count")
        if not found:
            return
        wanted = b"\n".join(found).decode("utf-8", errors="replace") + "\n"
        try:
            for sample in (sample for family in text_string_to_metric_families(wanted) for sample in family.samples):
                if 0 <= sample.value < MOST:  # NaN is not
                    self._take(sample)
        except (ValueError, IndexError, KeyError) as error:
            raise ValueError(f"no Prometheus page: {error}") from None

    def _take(self, sample: Sample) -> None:
        for name in (name for name, count in self._counted.items() if count.covers(sample.name, sample.labels)):
            # A hash, since a label may be as long as a line.
            labels, series = hash(frozenset(sample.labels.items())), self._series.setdefault(name, {})
            series[labels] = series.get(labels, 0.0) + sample.value
        channel = sample.labels.get("channel")
        if sample.name not in (COUNT, HEIGHT) or channel is None or not is_channel(channel):
            return
        if channel not in self._known and len(self._known) >= MAX_CHANNELS:
            return
        self._known.add(channel)
        if sample.name == HEIGHT:
            self._heights[channel] = int(sample.value)
        elif sample.labels.get("validation_code") == "VALID":
            self._transactions[channel] = self._transactions.get(channel, 0.0) + sample.value


def _lines(page: bytes, beginning: bytes) -> Iterator[bytes]:
    # All others are never taken apart: a page of short lines would be a hundred times its size.
    at = page.find(beginning)
    while at >= 0:
        end = page.find(b"\n", at + 1)
        yield page[at + 1 : end if end >= 0 else None]
        at = page.find(beginning, end) if end >= 0 else -1
