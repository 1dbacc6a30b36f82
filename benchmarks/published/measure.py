"""Run pieces, and keep their figures. A piece that is up to date is not run again.

The binary that runs is the one that is built here, from the code that a record names.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from published import code, record
from published.pieces import Piece
from published.readers import OneFolder
from published.record import Code, Machine, Record
from qioi.experiment.calibration import calibrate
from qioi.experiment.child import run_to_end
from qioi.lab.machine import Machine as Host
from qioi.lab.machine import machine


class UnmeasuredError(Exception):
    """A piece's command failed; its last words went to the terminal."""


def build_ledger(root: Path) -> None:
    """Build the ledger that the benchmarks find; ValueError if they would find another, or it can't be built."""
    if named := os.environ.get("QIOI_LEDGER"):
        raise ValueError(f"QIOI_LEDGER={named}: figures are of the ledger that is built here; unset it")
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"  # Go may be in the environment
    done = subprocess.run(["make", "-s", "-C", str(root / "ledger"), "build"], env={**os.environ, "PATH": path})
    if done.returncode != 0:
        raise ValueError(f"make -C {root / 'ledger'} build ended with status {done.returncode}")


def is_current(piece: Piece, root: Path, data: Path) -> bool:
    """Whether a piece's figures are there, by its command, and of the code as it is."""
    file = data / f"{piece.name}.json"
    if not file.exists():
        return False
    its = record.load(file)
    return its.command == piece.command and its.code.digest == code.digest(root, piece.code)


def measure(piece: Piece, root: Path, results: Path, fabric: Path | None, earlier: Record | None = None) -> Record:
    """Run a piece and give its record; with ``earlier``, what that was made of is read again with it.

    What an interrupted run of the same code, command, machine and Fabric has left is gone on with. What others have
    left, or a run that was finished, is removed: a benchmark would take it for its own.

    UnmeasuredError: its command failed. ValueError: its code is not committed, or was changed while it ran, or it takes
    no more runs.
    """
    if not code.is_clean(root, piece.code):
        raise ValueError(f"{piece.name}: what it measures has uncommitted changes, and figures name a commit")
    digest, commit = code.digest(root, piece.code), code.commit(root)
    beside = fabric_version(fabric) if fabric is not None and piece.needs_fabric else ""
    host = machine()
    if earlier is not None and (other := of_another(earlier, host, beside)):
        raise ValueError(f"{piece.name}: its record is of {other} (--again measures it anew)")
    same = "\n".join((digest, piece.command, *traits(host), beside))
    runs = results / piece.name / hashlib.sha256(same.encode()).hexdigest()[:12]
    finished = runs / "finished"
    done = finished_runs(piece, runs) if earlier else 0
    for before in (results / piece.name).glob("*"):
        if before != runs or (finished.exists() and earlier is None):
            shutil.rmtree(before)
    folders = [runs / f"run{number}" for number in range(1, done + piece.runs + 1)]
    speed = list(earlier.calibration) if earlier else []
    for number, folder in enumerate(folders[done:], done + 1):
        folder.mkdir(parents=True, exist_ok=True)
        speed.append(calibrate(folder))
        run(piece, root, {"out": str(folder), "run": str(number), "fabric": str(fabric)})
    speed.append(calibrate(results))
    if not code.is_clean(root, piece.code) or code.digest(root, piece.code) != digest:
        for folder in folders[done:]:
            shutil.rmtree(folder)
        raise ValueError(f"{piece.name}: what it measures was changed meanwhile, so its figures are of no commit")
    figures = piece.read(folders, speed)
    finished.write_text(str(len(folders)), encoding="utf-8")
    return Record(
        name=piece.name,
        title=piece.title,
        command=piece.command,
        commit=commit,
        date=time.strftime("%Y-%m-%d"),
        code=Code(piece.code, digest),
        machine=Machine(host.kernel, host.cpu, host.cores, host.memory_gib, host.cgroup_version),
        calibration=tuple(speed),
        columns=figures.columns,
        rows=figures.rows,
        left_out=figures.left_out,
        beside=beside,
    )


def of_another(earlier: Record, host: Host, beside: str) -> str:
    """Name the kernel, CPUs, cgroup version or Fabric of a record that are not those of now; empty if all are."""
    pairs = zip((*traits(earlier.machine), earlier.beside), (*traits(host), beside), strict=True)
    return ", ".join(known or "no Fabric" for known, now in pairs if known != now)


def traits(one: Machine | Host) -> tuple[str, ...]:
    """Say of a machine what has to be the same for repeats to be pooled."""
    return one.kernel, one.cpu, f"{one.cores} cores", f"cgroup v{one.cgroup_version}"


def fabric_version(folder: Path) -> str:
    """Name the Fabric whose binaries these are; ValueError if its peer does not say its version."""
    peer = folder / "bin" / "peer"
    try:
        said = subprocess.run([peer, "version"], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"{peer} version: {error}") from error
    version = re.search(r"^\s*Version: (\S+)$", said, re.MULTILINE)
    if version is None:
        raise ValueError(f"{peer} version: it names none")
    if version[1].startswith("v"):
        return f"Fabric {version[1]}"
    built = hashlib.sha256(peer.read_bytes()).hexdigest()[:12]  # from sources, which name no version
    return f"Fabric {version[1]} (peer {built})"


def finished_runs(piece: Piece, runs: Path) -> int:
    """Count the runs that a piece's record is of; ValueError says why none can be added to them."""
    if isinstance(piece.read, OneFolder):
        raise ValueError(f"{piece.name}: its benchmark keeps all repeats in one folder (--again measures it anew)")
    finished = runs / "finished"
    count = int(finished.read_text(encoding="utf-8") or 0) if finished.exists() else 0
    if not count or not all((runs / f"run{number}").is_dir() for number in range(1, count + 1)):
        raise ValueError(f"{piece.name}: the runs that its record is of are not in {runs} (--again measures it anew)")
    return count


def run(piece: Piece, root: Path, words: Mapping[str, str]) -> None:
    """Run a piece's command once, its output on the terminal."""
    script, *options = piece.arguments
    arguments = [one.format_map(words) for one in options]
    status = run_to_end([sys.executable, str(root / "benchmarks" / script), *arguments], cwd=root)
    if status != 0:
        raise UnmeasuredError(f"{piece.name}: {script} ended with status {status}")
