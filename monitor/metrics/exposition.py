"""A peer's Prometheus page -> what it has committed, per channel.

Fabric's operations endpoint gives ``ledger_transaction_count{channel,validation_code,…}``, which counts since the
process began, and ``ledger_blockchain_height{channel}``. Only VALID transactions count: unlike a log line, the
metric tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from qioi.model.names import MAX_CHANNELS, is_channel

COUNT = "ledger_transaction_count"
HEIGHT = "ledger_blockchain_height"
#: A count or a height at or above it is ignored, so that sums stay finite.
MOST = 2.0**63


@dataclass(frozen=True, slots=True)
class Page:
    """One look at one peer. ``transactions`` are the valid ones since the process began; by channel, both."""

    transactions: Mapping[str, float] = field(default_factory=dict)
    heights: Mapping[str, int] = field(default_factory=dict)


def parse_page(text: str) -> Page:
    """Read a page; only the lines of the two metrics are looked at. ValueError: it is none."""
    # Not splitlines(): what else that takes for a line's end may stand inside a label's value.
    wanted = [line for line in text.split("\n") if line.startswith((COUNT + "{", HEIGHT + "{"))]
    transactions: dict[str, float] = {}
    heights: dict[str, int] = {}
    known: set[str] = set()
    try:
        for family in text_string_to_metric_families("\n".join(wanted) + "\n"):
            for sample in family.samples:
                channel = sample.labels.get("channel")
                if channel is None or not is_channel(channel) or not 0 <= sample.value < MOST:  # nor NaN
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
    return Page(transactions, heights)
