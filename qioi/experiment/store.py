"""The folder of one run: what was asked for, what is finished, and the raw data.

    run.json                    the experiment as run, host, seed, maxima found, what was left out
    repeats/N/repeat.json       a finished repeat: every cell's figures, and what disturbed it
    repeats/N/CELL/             cell.json, samples.csv, load.json, the daemon's and the neighbours' logs

A repeat without its repeat.json is unfinished: it is removed and measured again, so that every "with" stands beside
the "without" of the same stretch of time.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qioi.experiment.condense import CellFigures
from qioi.experiment.errors import SpecError
from qioi.experiment.noise import complaints
from qioi.experiment.plan import Plan

FORMAT = 1
_NEW = "run.json.new"


@dataclass(frozen=True, slots=True)
class Repeat:
    """A finished repeat. ``noise`` says what disturbed which cell; empty if nothing did."""

    number: int
    cells: dict[str, CellFigures]
    noise: dict[str, list[str]]

    @property
    def quiet(self) -> bool:
        """Whether it counts for medians."""
        return not self.noise


class Store:
    """One run's folder."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def document(self) -> dict[str, Any]:
        """Read run.json."""
        path = self.directory / "run.json"
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            raise SpecError([f"{self.directory} holds no run: {path.name} is missing"]) from None
        except ValueError as error:
            raise SpecError([f"{path} is not JSON: {error}"]) from error
        if found.get("format") != FORMAT:
            raise SpecError([f"{path} has format {found.get('format')!r}; this version reads {FORMAT}"])
        assert isinstance(found, dict)
        return found

    def begin(self, plan: Plan, host: dict[str, Any]) -> None:
        """Open a new run."""
        # What an interrupt during this very call has left counts for nothing.
        if self.directory.exists() and any(one.name != _NEW for one in self.directory.iterdir()):
            raise SpecError([f"{self.directory} is not empty; --resume goes on with it, --output names another"])
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write({"format": FORMAT, **asked(plan), "host": host, "maxima": {}})

    def resume(self, plan: Plan, host: dict[str, Any]) -> None:
        """Go on with a run that was asked for the same; drop what is unfinished, and note the machine as it is now."""
        document = self.document
        different = [key for key, value in asked(plan).items() if document.get(key) != value]
        if different:
            raise SpecError(
                [f"{self.directory} is a run of something else ({', '.join(different)} differ): name its own options"]
            )
        for folder in (self.directory / "repeats").glob("*"):
            if not (folder / "repeat.json").exists():
                shutil.rmtree(folder)
        self.keep("resumed", [*document.get("resumed", []), host])

    def keep(self, key: str, value: object) -> None:
        """Note something in run.json."""
        self._write({**self.document, key: value})

    def _write(self, document: Mapping[str, object]) -> None:
        new = self.directory / _NEW
        new.write_text(json.dumps(document, indent=1) + "\n")
        new.replace(self.directory / "run.json")

    def folder(self, repeat: int, key: str = "") -> Path:
        """Name the folder of a repeat, or of a cell of it."""
        return self.directory / "repeats" / str(repeat) / key

    def finish(self, repeat: int, cells: Mapping[str, CellFigures], *, judged: bool) -> Repeat:
        """Close a repeat: from now on it is kept."""
        noise = {key: found for key, cell in cells.items() if (found := complaints(cell.metrics))} if judged else {}
        document = {"number": repeat, "noise": noise, "cells": {key: asdict(cell) for key, cell in cells.items()}}
        new = self.folder(repeat) / "repeat.json.new"
        new.write_text(json.dumps(document) + "\n")
        new.replace(self.folder(repeat) / "repeat.json")
        return Repeat(repeat, dict(cells), noise)

    def repeats(self) -> list[Repeat]:
        """Read all finished repeats in their order."""
        files = (self.directory / "repeats").glob("*/repeat.json")
        return [read_repeat(file) for file in sorted(files, key=lambda file: int(file.parent.name))]


def read_repeat(file: Path) -> Repeat:
    """Read one."""
    try:
        document = json.loads(file.read_text())
        cells = {key: CellFigures(**cell) for key, cell in document["cells"].items()}
        return Repeat(int(document["number"]), cells, document["noise"])
    except (KeyError, TypeError, ValueError) as error:
        raise SpecError([f"{file}: {type(error).__name__}: {error}; the file is `qioi experiment run`'s"]) from error


def asked(plan: Plan) -> dict[str, Any]:
    """Spell what a run is of: two runs with the same are the same."""
    return {
        "spec": plan.spec.model_dump(mode="json"),
        "arms": [arm.model_dump(mode="json") for arm in {cell.arm.name: cell.arm for cell in plan.cells}.values()],
        "timing": plan.cells[0].timing.model_dump(mode="json"),
        "same": plan.same,
        "repeats": plan.repeats,
        "seed": plan.seed,
        "cores": plan.cores,
        "paper_size": plan.paper_size,
        "smoke": plan.smoke,
    }
