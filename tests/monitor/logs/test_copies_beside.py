"""Files beside a log that may be copies of it: who may write there decides how many there are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from qioi.monitor.logs import beside


@pytest.mark.parametrize(("entries", "asked", "most"), [(5, 100, 5), (100, 4, 4), (100, 100, 19)])
def test_so_many_are_asked_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: int, asked: int, most: int
) -> None:
    monkeypatch.setattr(beside, "MAX_ENTRIES", entries)
    monkeypatch.setattr(beside, "MAX_ASKED", asked)
    for number in range(19):
        (tmp_path / f"peer0.{number}").write_text("")
    found = beside.newest_beside(str(tmp_path / "peer0.log"))
    assert len(found) == most
    assert {os.path.split(one)[0] for one in found} == {str(tmp_path)}
