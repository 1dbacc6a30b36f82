"""What nothing would read in an experiment's file is refused before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from toy_experiment import load

from qioi.experiment.errors import SpecError


def problems(document: dict[str, Any], folder: Path) -> list[str]:
    """Give what an experiment is refused for, without its file's name."""
    with pytest.raises(SpecError) as caught:
        load(document, folder)
    return [problem.removeprefix(f"{folder / 'toy.yaml'}: ") for problem in caught.value.problems]


@pytest.mark.parametrize("system", ["replicas", "simulation"])
def test_replicas_have_neither_neighbours_nor_protection(document: dict[str, Any], tmp_path: Path, system: str) -> None:
    """A page would have compared arms between which nothing differs."""
    document["networks"] = {"few": {"system": system, "flags": {"replicas": 4}}}
    document["loads"] = {"all": {"driver": "bench"}}
    assert problems(document, tmp_path) == [
        f"arms.1.neighbours: 12: accepted are none beside network few, a {system}",
        f"arms.2.neighbours: 12: accepted are none beside network few, a {system}",
        f"arms.2.protection: adaptive: accepted is none of network few, a {system}",
    ]
    document["arms"], document["papers"] = document["arms"][:1], []
    assert load(document, tmp_path).arms[0].name == "alone"
