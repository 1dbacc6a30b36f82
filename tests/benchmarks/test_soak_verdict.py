"""What the soak calls growth without bound."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def soak() -> ModuleType:
    """The script, without running it."""
    file = Path(__file__).parents[2] / "benchmarks" / "soak.py"
    spec = importlib.util.spec_from_file_location("soak", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["soak"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_a_heap_that_breathes_is_bounded(soak: ModuleType) -> None:
    dice = random.Random(1)
    series = [100 * MEGABYTE + dice.randrange(60 * MEGABYTE) for _ in range(600)]
    assert soak.judge("peer", series, 1_000_000, 0).bounded


@pytest.mark.parametrize("transactions", [300_000, 4_000_000])
def test_a_kilobyte_kept_of_each_transaction_is_not(soak: ModuleType, transactions: int) -> None:
    leaking = [60 * MEGABYTE + 1024 * transactions * second // 300 for second in range(300)]
    assert not soak.judge("orderer", leaking, transactions, 0).bounded
    assert not soak.judge("peer", leaking, transactions, soak.KEPT).bounded


def test_a_peer_may_keep_the_ids(soak: ModuleType) -> None:
    """Two bytes of each in a filter: over an hour at 4,000 tps more than a heap's breath."""
    committed = 14_400_000

    def growing(each: int) -> list[int]:
        return [60 * MEGABYTE + each * committed * second // 3600 for second in range(3600)]

    assert soak.judge("peer", growing(5), committed, soak.KEPT).bounded
    assert not soak.judge("orderer", growing(5), committed, 0).bounded
    assert not soak.judge("peer", growing(20), committed, soak.KEPT).bounded
