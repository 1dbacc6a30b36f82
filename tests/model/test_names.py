"""Names in a line for people."""

from __future__ import annotations

import pytest

from qioi.model.names import counted, few, shortened


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


def test_one_is_no_plural() -> None:
    assert [counted(number, "channel") for number in (0, 1, 2)] == ["0 channels", "1 channel", "2 channels"]


@pytest.mark.parametrize(
    ("most", "text"), [(10, "peer0.org1"), (9, "peer..rg1"), (8, "pee..rg1"), (4, "p..1"), (0, "p..1")]
)
def test_a_long_name_keeps_both_its_ends(most: int, text: str) -> None:
    assert shortened("peer0.org1", most) == text
