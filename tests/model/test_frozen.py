"""Values: made as a plain dataclass makes them, and equal, hashed and copied as a frozen one's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from mypy import api

from qioi.model.frozen import frozen

LIKE_IT = """
from dataclasses import field, replace
from qioi.model.frozen import frozen

@frozen
class Point:
    x: int
    names: tuple[str, ...] = field(default_factory=tuple)

point = replace(Point(1), x=2)
point.x = 3
point = Point("1")
"""


@frozen
class Point:
    x: int
    names: tuple[str, ...] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class Slow:
    x: int
    names: tuple[str, ...] = field(default_factory=tuple)


def test_a_value_compares_hashes_and_is_copied_as_a_frozen_one() -> None:
    one, other = Point(1, ("a",)), Point(2, ("a",))
    assert replace(one, x=2) == other != one
    assert hash(replace(one, x=2)) == hash(other) == hash(Slow(2, ("a",)))
    assert Point(1) == Point(1, ())
    with pytest.raises(AttributeError):
        one.z = 3  # type: ignore[attr-defined]


def test_nothing_is_assigned_to_a_value_or_the_type_checker_says_so(tmp_path: Path) -> None:
    file = tmp_path / "like_it.py"
    file.write_text(LIKE_IT)
    said, problems, status = api.run(["--strict", "--cache-dir", str(tmp_path / "cache"), str(file)])
    assert (status, problems) == (1, "")
    assert [line.split(":", 2)[1] for line in said.splitlines()[:-1]] == ["11", "12"], said
    assert "read-only" in said.splitlines()[0]
