"""A metrics page that a test has as a whole."""

from __future__ import annotations

from collections.abc import Mapping

from qioi.model.counting import Count
from qioi.monitor.metrics.exposition import CHUNK, Page, PageReader


def parse_page(page: bytes, counted: Mapping[str, Count] | None = None) -> Page:
    """Read it in chunks, as the daemon reads what an endpoint answers. ValueError."""
    reader = PageReader(counted)
    for at in range(0, len(page), CHUNK):
        reader.feed(page[at : at + CHUNK])
    return reader.page()
