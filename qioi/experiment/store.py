"""The folder of one run: its plan, the finished repeats, and the raw data.

    run.json                    the experiment as run, host, seed, maxima found, what was left out
    repeats/N/repeat.json       a finished repeat: every cell's figures, and what disturbed it
    repeats/N/CELL/             cell.json, samples.csv, load.json, the daemon's and the neighbours' logs
    repeats/N.failed/           the last repeat that failed and was measured again: its logs say why

A repeat without its repeat.json is unfinished: it is put aside and measured again, so that every "with" stands beside
the "without" of the same stretch of time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from qioi.experiment.calibration import Calibration
from qioi.experiment.condense import CellFigures
from qioi.experiment.errors import SpecError
from qioi.experiment.noise import complaints
from qioi.experiment.plan import Plan
from qioi.experiment.run_files import ALWAYS, FORMAT, Repeat, RunDocument
from qioi.experiment.system import LoadSpec
from qioi.experiment.whole import NEW, replace_text
from qioi.lab.caliper_files import digest, find_benchmark, find_configs
from qioi.settings import documents

_FAILED = ".failed"
#: Where real Fabric's binaries stand is this machine's own, and run.json is published; what they are is the host's.
OWN: dict[str, Any] = {"networks": {"__all__": {"binaries"}}}
#: So many digits of a digest tell two builds apart.
DIGITS = 12


class Store:
    """One run's folder."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def begun(self) -> bool:
        """Whether there is a run here."""
        return (self.directory / "run.json").exists()

    @property
    def document(self) -> RunDocument:
        """Read run.json; SpecError names every problem found in it."""
        path = self.directory / "run.json"
        try:
            return documents.check(RunDocument, self._read(), path)
        except documents.ConfigError as error:
            raise SpecError(error.problems) from error

    def _read(self) -> dict[str, Any]:
        path = self.directory / "run.json"
        try:
            found = documents.read_json(path)
        except FileNotFoundError:
            raise SpecError([f"{self.directory} holds no run: {path.name} is missing"]) from None
        except ValueError as error:
            raise SpecError([f"{path} is not JSON: {error}"]) from error
        form = found.get("format") if isinstance(found, dict) else None
        if form != FORMAT:
            raise SpecError([f"{path} has format {form!r}; this version reads {FORMAT}"])
        assert isinstance(found, dict)
        return found

    def check(
        self,
        plan: Plan,
        media: Mapping[str, str],
        folder: str = "",
        *,
        resume: bool,
        host: Mapping[str, Any] | None = None,
    ) -> None:
        """Raise unless a run can be opened here, or resumed with the same plan, media, folder, build and machine.

        ``host`` describes the machine as it is now (qioi.experiment.host); ``None`` says nothing of it or the build.
        """
        if not resume:
            # An interrupted begin leaves nothing that counts.
            if self.directory.exists() and any(one.suffix != NEW for one in self.directory.iterdir()):
                raise SpecError([f"{self.directory} is not empty; --resume goes on with it, --output names another"])
            return
        document = self.document
        wanted, noted = {**asked(plan), "media": dict(media), "folder": folder}, self._read()
        ours = RunDocument.model_validate({**document.model_dump(), **wanted})
        # Runs of earlier versions did not note their benchmarks, media and folder.
        different = [key for key in wanted if key in noted and plainly(document, key) != plainly(ours, key)]
        if different:
            options = "its own options" + (", --dir among them" if {"media", "folder"} & {*different} else "")
            raise SpecError(
                [f"{self.directory} is a run of something else ({', '.join(different)} differ): name {options}"]
            )
        if host is not None and wanting(plan, self.repeats()):
            self._check_build(host)

    def _check_build(self, host: Mapping[str, Any]) -> None:
        """Raise if repeats that are wanting would be of another build or machine than the run began with."""
        before, now = built(self._read()["host"]), built(host)
        other = {what: its for what, its in before.items() if now.get(what) != its}
        if other:
            differ = "; ".join(f"{what} {its}, now {now.get(what, 'none')}" for what, its in other.items())
            how = "begin a new run without --resume, or remove that folder"
            raise SpecError([f"{self.directory} is a run of another build or machine ({differ}): {how}"])

    def begin(self, plan: Plan, media: Mapping[str, str], host: dict[str, Any], folder: str = "") -> None:
        """Open a new run. ``media`` are those of its networks, ``folder`` is theirs (qioi.experiment.places)."""
        self.check(plan, media, resume=False)
        self.directory.mkdir(parents=True, exist_ok=True)
        places = {"media": dict(media), "folder": folder}
        self._write({"format": FORMAT, **asked(plan), **places, "host": host, "maxima": {}})

    def resume(self, plan: Plan, media: Mapping[str, str], host: dict[str, Any], folder: str = "") -> None:
        """Resume a run of the same plan, build and machine; note the machine's state, unless nothing is wanting."""
        self.check(plan, media, folder, resume=True, host=host)
        if wanting(plan, self.repeats()):
            self.keep("resumed", [*self._read().get("resumed", []), host])

    def keep(self, key: str, value: object) -> None:
        """Write one key of run.json."""
        self._write({**self._read(), key: value})

    def _write(self, document: Mapping[str, object]) -> None:
        replace_text(self.directory / "run.json", json.dumps(document, indent=1) + "\n")

    def folder(self, repeat: int, key: str = "") -> Path:
        """Name the folder of a repeat, or of a cell of it."""
        return self.directory / "repeats" / str(repeat) / key

    def fresh(self, repeat: int) -> Path:
        """Make a repeat's folder; what a try that failed has left there is kept in place of the last such one."""
        folder = self.folder(repeat)
        if folder.exists():
            for old in folder.parent.glob(f"*{_FAILED}"):
                if old.stem.isdecimal():
                    shutil.rmtree(old)
            folder.rename(folder.with_name(folder.name + _FAILED))
        folder.mkdir(parents=True)
        return folder

    def finish(
        self, repeat: int, cells: Mapping[str, CellFigures], *, judged: bool, calibration: Calibration | None = None
    ) -> Repeat:
        """Finish a repeat, so that it is kept."""
        noise = {key: found for key, cell in cells.items() if (found := complaints(cell.metrics))} if judged else {}
        finished = Repeat(repeat, dict(cells), noise, calibration)
        replace_text(self.folder(repeat) / "repeat.json", json.dumps(asdict(finished)) + "\n")
        return finished

    def repeats(self) -> list[Repeat]:
        """Read all finished repeats in their order."""
        files = [folder / "repeat.json" for folder in self._folders()]
        keys = self.document.keys if files else ()
        return [read_repeat(file, keys) for file in files if file.exists()]

    def _folders(self) -> list[Path]:
        """List the repeats' folders by number; other folders are ignored."""
        found = [path for path in (self.directory / "repeats").glob("*") if path.name.isdecimal() and path.is_dir()]
        return sorted(found, key=lambda path: int(path.name))


def lock_name(directory: Path) -> str:
    """Name the lock (qioi.lab.lock) of who measures into a folder of runs."""
    return "qioi-run-" + hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:8]


def wanting(plan: Plan, finished: Sequence[Repeat]) -> int:
    """Count the repeats that are still needed; no more than twice as many as were asked for are measured in all."""
    quiet = sum(repeat.quiet for repeat in finished)
    return max(0, min(plan.repeats - quiet, 2 * plan.repeats - len(finished)))


def built(host: Mapping[str, Any]) -> dict[str, str]:
    """Name the code that is measured and what runs it, as far as a host's description has it."""
    commit, digest = host["versions"].get("commit", ""), host.get("ledger_binary", {}).get("sha256", "")
    # A run's own excerpt in docs/experiments makes a checkout dirty; edits of the code change its digest.
    facts = {"commit": commit.removesuffix("-dirty"), "code": host.get("code", "")[:DIGITS], "ledger": digest[:DIGITS]}
    facts["fabric"] = ", ".join(dict.fromkeys(its[:DIGITS] for its in host.get("fabric", {}).values()))
    # What a weight means differs between the versions of cgroups, and between the modes of one.
    facts |= {what: str(host.get(what, "")) for what in ("kernel", "cpu", "cgroup_version", "cgroup_mode")}
    return {what: its for what, its in facts.items() if its}


def read_repeat(file: Path, keys: Collection[str]) -> Repeat:
    """Read one that has these cells; SpecError names the first problem found."""
    try:
        repeat = TypeAdapter(Repeat).validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _spoilt(file, ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))) from error
    if problem := next((f"cells: {key}: missing" for key in keys if key not in repeat.cells), None):
        raise _spoilt(file, problem)
    for key, cell in repeat.cells.items():
        if lacking := [name for name in ALWAYS if name not in cell.metrics]:
            raise _spoilt(file, f"cells.{key}.metrics: {lacking[0]}: missing")
    return repeat


def _spoilt(file: Path, problem: str) -> SpecError:
    return SpecError([f"{file}: {problem}. Without its folder --resume measures this repeat anew"])


def plainly(document: RunDocument, key: str) -> object:
    """Give a part of run.json for a comparison: earlier versions kept the folders of real Fabric's binaries, too."""
    return document.spec.model_dump(exclude=OWN) if key == "spec" else getattr(document, key)


def asked(plan: Plan) -> dict[str, Any]:
    """Format a run's plan, without the folders of real Fabric's binaries; equal plans have equal text."""
    return {
        "spec": plan.spec.model_dump(mode="json", exclude=OWN),
        "arms": [arm.model_dump(mode="json") for arm in {cell.arm.name: cell.arm for cell in plan.cells}.values()],
        "timing": plan.cells[0].timing.model_dump(mode="json"),
        "same": plan.same,
        "repeats": plan.repeats,
        "seed": plan.seed,
        "cores": plan.cores,
        "paper_size": plan.paper_size,
        "smoke": plan.smoke,
        "benchmarks": {cell.load_name: _digest(cell.load) for cell in plan.cells if cell.load.driver == "caliper"},
    }


def _digest(load: LoadSpec) -> str:
    """Name what Caliper would read: repeats of two loads have no median."""
    configs = find_configs()
    return digest(find_benchmark(str(load.benchmark), configs), configs, str(load.round))
