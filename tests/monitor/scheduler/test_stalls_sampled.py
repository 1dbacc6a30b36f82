"""Many threads while somebody waits for I/O: each component is sampled in its turn, and none is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

import qioi.monitor.scheduler.stalls
from qioi.model import Component, Role
from qioi.monitor.scheduler.stalls import StallWatch


def test_components_take_turns_where_threads_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qioi.monitor.scheduler.stalls, "SAMPLED", 4)
    components = [Component(f"c{number}", Role.PEER, f"c{number}") for number in range(5)]
    for number in range(5):
        (tmp_path / f"c{number}").mkdir()
        (tmp_path / f"c{number}" / "tasks").write_text(f"{number}0\n{number}1\n")
        for tid in (f"{number}0", f"{number}1"):
            (tmp_path / tid).mkdir()
            (tmp_path / tid / "stat").write_text(f"{tid} (a) b) D) D 1 1\n")
    watch = StallWatch(tmp_path, tmp_path / "no-psi", tmp_path)
    seen = [len(watch.read(float(now), components, {}).blocked) for now in range(3)]
    assert seen == [2, 4, 5]
    assert set(watch.read(3.0, components, {}).blocked.values()) == {2}
    for number in range(5):
        (tmp_path / f"{number}0" / "stat").write_text("1 (a) S 1 1\n")
    for now in range(4, 7):
        blocked = watch.read(float(now), components, {}).blocked
    assert blocked == {f"c{number}": 1 for number in range(5)}
    assert watch.read(7.0, components[:1], {}).blocked == {"c0": 1}


def test_counts_from_before_a_pause_are_not_shown_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qioi.monitor.scheduler.stalls, "SAMPLED", 1)
    components = [Component(name, Role.PEER, name) for name in ("c0", "c1", "c2")]
    for number in range(3):
        (tmp_path / f"c{number}").mkdir()
        (tmp_path / f"c{number}" / "tasks").write_text(f"{number}0\n")
        (tmp_path / f"{number}0").mkdir()
        (tmp_path / f"{number}0" / "stat").write_text("1 (a) D 1 1\n")
    watch = StallWatch(tmp_path, tmp_path / "no-psi", tmp_path)
    before = [set(watch.read(float(now), components, {}).blocked) for now in range(2)]
    assert [len(names) for names in before] == [1, 2]
    assert watch.read(2.0, components, {}, suffering=False).blocked == {}
    after = set(watch.read(3.0, components, {}).blocked)
    assert len(after) == 1
    assert not after & before[1]  # turns go on where they were
