"""What is said of a share's way up and down."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qioi.controller.announce import News


def told(shares: list[int], original: int = 1024) -> list[str | None]:
    news = News()
    return [news.of("peer0", original, share) for share in shares]


def test_a_release_says_its_beginning_and_its_end() -> None:
    assert told([4096, 3000, 2400, 2000, 1500, 1200, 1024, 1024]) == [
        "raised", "release begun", None, None, None, None, "back at its default", None,
    ]  # fmt: skip


def test_noise_around_a_share_is_no_news() -> None:
    assert told([4096, 4200, 3900, 4500, 4096, 3700]) == ["raised", None, None, None, None, None]


def test_a_raise_out_of_a_release_is_news() -> None:
    assert told([4096, 3000, 1500, 4096]) == ["raised", "release begun", None, "raised"]


def test_steps_upward_are_each_said() -> None:
    assert told([2048, 4096, 8192, 16384]) == ["raised"] * 4


@given(st.lists(st.integers(1025, 10_000), min_size=2, unique=True).map(lambda shares: sorted(shares, reverse=True)))
def test_a_release_takes_at_most_three_lines_however_many_periods(shares: list[int]) -> None:
    assert len([word for word in told([*shares, 1024]) if word]) <= 3
