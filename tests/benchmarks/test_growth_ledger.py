"""How the ledger's cost grows: its state is filled to a stated size before it is measured."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from bench_growth_ledger import BASE, FILLING, fill, replace

from qioi.lab.load import LoadPlan

NOBODY: Any = None
#: Keys that a client writes in a second.
SPEED = 1000.0


def test_a_state_is_filled_with_the_keys_that_a_size_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key that a client writes is in the ledger, also those that its figures leave out."""
    ledger = 0.0

    class Client:
        def __init__(self, _lab: Any, plan: LoadPlan, _folder: Path) -> None:
            self._plan = plan

        def __enter__(self) -> Self:
            nonlocal ledger
            ledger += SPEED * (self._plan.warmup + self._plan.duration + self._plan.cooldown)
            return self

        def __exit__(self, *_how: object) -> None:
            pass

        def wait(self) -> Any:
            return SimpleNamespace(figures=SimpleNamespace(committed=SPEED * self._plan.duration))

    monkeypatch.setattr("bench_growth_ledger.LoadRun", Client)
    wanted = 4 * FILLING * SPEED
    fill(NOBODY, replace(BASE, keys=int(wanted)), "channel0", Path())
    assert ledger == wanted
