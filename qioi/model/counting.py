"""What counts as a channel's commits, where no ledger's own metric does."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class Count(Struct, frozen=True):
    """A counter on Prometheus pages: the series of ``metric`` whose labels have one of the values that are named.

    All of a page's series are added up. Pages of several components are added up too (``combine`` is ``sum``: each
    counts what it did itself), or the fastest counts (``max``: each counts what all did).
    """

    metric: str
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    combine: str = "sum"

    def covers(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether a series counts."""
        return name == self.metric and all(labels.get(label) in values for label, values in self.labels.items())
