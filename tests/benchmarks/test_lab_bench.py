"""The frame that benchmarks on a lab share."""

from __future__ import annotations

import contextlib
import json
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner
from lab_bench import ArmInTime, Place, by_hand, placed

from qioi.lab.load import LoadPlan
from qioi.processes.errors import LabError
from qioi.processes.tree import Tree


@click.command()
@placed("toy")
@click.option("--count", type=int, default=3)
def toy(place: Place, count: int) -> None:
    if not count:
        raise LabError("no neighbours")
    place.write({"rows": [count]}, f"{count} of them\n")


def test_results_are_written_with_the_machine_and_printed(tmp_path: Path) -> None:
    done = CliRunner().invoke(toy, ["--count", "5", "--output", str(tmp_path / "new" / "folder")])
    assert done.exit_code == 0, done.output
    assert "5 of them" in done.output
    document = json.loads((tmp_path / "new" / "folder" / "toy.json").read_text())
    assert (document["rows"], document["machine"]["cores"] > 0) == ([5], True)
    assert (tmp_path / "new" / "folder" / "toy.md").read_text() == "5 of them\n"


def test_a_labs_error_is_the_commands(tmp_path: Path) -> None:
    done = CliRunner().invoke(toy, ["--count", "0", "--output", str(tmp_path)])
    assert (done.exit_code, done.output) == (1, "Error: no neighbours\n")


@pytest.mark.parametrize("found", [1024, 400, 2048])
def test_shares_by_hand_end_with_what_was_found(found: int) -> None:
    tree = Tree(f"qioi-test-{uuid.uuid4().hex[:8]}")
    tree.create()
    try:
        group = tree.group("peer0").create(found)
        lab: Any = SimpleNamespace(tree=tree)
        network: Any = SimpleNamespace(nodes=[SimpleNamespace(name="peer0")])
        with by_hand(lab, network, None):
            assert group.shares() == found
        with contextlib.suppress(LabError), by_hand(lab, network, 5120):
            assert group.shares() == 5120
            raise LabError("ended")
        assert group.shares() == found
    finally:
        tree.remove()


@pytest.mark.parametrize(("warmup", "come", "arrival"), [(5, None, 1.5), (20, None, 3), (8, 0.3, 8.3), (20, -10, 10)])
def test_interferers_come_early_in_the_warm_up_or_when_they_are_told_to(
    warmup: float, come: float | None, arrival: float
) -> None:
    assert ArmInTime("x", "x", LoadPlan(30, warmup), come=come).arrival == pytest.approx(arrival)
