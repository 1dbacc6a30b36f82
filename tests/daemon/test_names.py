"""Names in a line for people."""

from __future__ import annotations

import pytest

from qioi.names import few


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["b", "a", "b"], "a, b"),
        (["f", "e", "d", "c", "b", "a"], "a, b, c, d, e, f"),
        (["g", "f", "e", "d", "c", "b", "a"], "a, b, c, d, e and 2 more"),
        ([f"c{number:04}" for number in range(1500)], "c0000, c0001, c0002, c0003, c0004 and 1,495 more"),
    ],
)
def test_a_line_names_a_few_and_counts_the_rest(names: list[str], text: str) -> None:
    assert few(names) == text
