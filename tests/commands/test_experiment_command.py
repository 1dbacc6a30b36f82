"""The command that a run keeps, for others to measure the same again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from qioi.commands.experiment import Asked
from qioi.commands.experiment_steps import noted
from qioi.experiment import catalogue
from qioi.experiment.store import Store

PLAIN = Asked()


@pytest.mark.parametrize(
    ("changed", "options"),
    [
        ({}, ""),
        ({"standard": True, "paper_size": True}, " --standard --paper-size"),
        ({"arms": ("adaptive",), "only_networks": ("a", "b")}, " --arm adaptive --network a --network b"),
        ({"loads": ("fixed",), "smoke": True}, " --smoke --load fixed"),
        (
            {"repeats": 5, "warmup": 0.5, "duration": 12.0, "seed": 20240101},
            " --repeats 5 --warmup 0.5 --duration 12 --seed 20240101",
        ),
        ({"seed": 10**15}, " --seed 1000000000000000"),
        ({"networks": {"system": "fabric"}, "binaries": "/home/me/fabric"}, " --system fabric --binaries DIR"),
        ({"folder": Path("/mnt/nvme/lab")}, " --dir DIR"),
    ],
)
def test_it_has_what_decides_what_is_measured_and_no_place_of_this_machine(
    changed: dict[str, object], options: str
) -> None:
    asked = replace(PLAIN, **changed)  # type: ignore[arg-type]
    assert asked.command(catalogue.find("fig_8")) == f"qioi experiment run fig_8{options}"


def test_a_run_that_fails_for_want_of_room_says_so_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "begun", True)
    monkeypatch.setattr(Store, "keep", full)
    with pytest.raises(KeyboardInterrupt), noted(Store(tmp_path), "qioi experiment run fig_8"):
        raise KeyboardInterrupt
    with pytest.raises(OSError, match="No space"), noted(Store(tmp_path), "qioi experiment run fig_8"):
        pass
