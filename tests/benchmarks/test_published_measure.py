"""Pieces are measured: what is there is gone on with, added to, or begun anew."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from published import record
from published.measure import UnmeasuredError, build_ledger, fabric_version, is_current, measure
from published.pieces import Piece
from published.readers import Figures, OneFolder
from published.record import Column, Form, Row
from toy_record import SPEED, made

from qioi.experiment.calibration import Calibration
from qioi.lab.machine import machine


def test_a_piece_is_due_until_it_is_measured_on_the_code_as_it_is(repository: Path, tmp_path: Path) -> None:
    piece = Piece("lab", "the lab", ("bench.py",), (".",), 1, lambda _folders, _speed: Figures((), ()))
    data = tmp_path / "data"
    assert not is_current(piece, repository, data)
    record.save(made(repository, command=piece.command), data)
    assert is_current(piece, repository, data)
    assert not is_current(piece._replace(arguments=("bench.py", "--busy", "60")), repository, data)
    (repository / "law.py").write_text("step = 3\n")
    subprocess.run(["git", "-C", str(repository), "add", "law.py"], check=True)
    assert not is_current(piece, repository, data)


COUNTS = "import pathlib, sys\npathlib.Path(sys.argv[1], 'tps').write_text(sys.argv[2])\n"

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]


def commit(repository: Path, bench: str) -> None:
    """Commit all there is, with a benchmark."""
    (repository / "benchmarks" / "bench.py").write_text(bench)
    subprocess.run([*GIT, "-C", str(repository), "add", "-A"], check=True)
    subprocess.run([*GIT, "-C", str(repository), "commit", "-qm", "another"], check=True)


@pytest.fixture
def counted(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Piece:
    """A piece in the repository, each run of which measures its own number."""
    (repository / ".gitignore").write_text("/results/\n")
    (repository / "benchmarks").mkdir()
    commit(repository, COUNTS)

    def read(folders: Sequence[Path], _speed: Sequence[Calibration]) -> Figures:
        values = tuple(float((folder / "tps").read_text()) for folder in folders)
        return Figures((Column("tps", "tps", Form.COUNT),), (Row("alone", "alone", {"tps": values}),))

    monkeypatch.setattr("published.measure.calibrate", lambda _folder: SPEED)
    return Piece("lab", "the lab", ("bench.py", "{out}", "{run}"), (".",), 1, read, runs=2)


def test_repeats_are_added_to_those_that_there_are(counted: Piece, repository: Path) -> None:
    first = measure(counted, repository, repository / "results", None)
    more = measure(counted, repository, repository / "results", None, first)
    assert [one.values("alone", "tps") for one in (first, more)] == [[1, 2], [1, 2, 3, 4]]
    assert [len(one.calibration) for one in (first, more)] == [3, 6]


def test_a_run_that_was_interrupted_is_none_of_those_that_there_are(
    counted: Piece, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = repository / "results"
    first = measure(counted, repository, results, None)
    with monkeypatch.context() as patch:
        patch.setattr("published.measure.run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            measure(counted, repository, results, None, first)
    more = measure(counted, repository, results, None, first)
    assert more.values("alone", "tps") == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("what", "other", "said"),
    [
        ("kernel", "another", machine().kernel),
        ("cpu", "another", machine().cpu),
        ("cores", machine().cores + 1, f"{machine().cores} cores"),
        ("cgroup_version", machine().cgroup_version + 1, f"cgroup v{machine().cgroup_version}"),
    ],
)
def test_runs_of_another_machine_are_not_pooled(
    counted: Piece, repository: Path, monkeypatch: pytest.MonkeyPatch, what: str, other: str | int, said: str
) -> None:
    results = repository / "results"
    first = measure(counted, repository, results, None)
    with monkeypatch.context() as patch:
        patch.setattr("published.measure.run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            measure(counted, repository, results, None)  # its first run is begun, and is gone on with here
    (begun,) = results.glob("lab/*/run1")
    monkeypatch.setattr("published.measure.machine", lambda: replace(machine(), **{what: other}))
    with pytest.raises(ValueError, match=rf"lab: its record is of {re.escape(said)} \(--again"):
        measure(counted, repository, results, None, first)
    assert begun.exists(), "before anything is measured"
    measure(counted, repository, results, None)
    assert not begun.exists()


def interrupted(*_arguments: object) -> None:
    raise KeyboardInterrupt


def test_repeats_are_added_only_to_those_that_are_kept(counted: Piece, repository: Path) -> None:
    results = repository / "results"
    first = measure(counted, repository, results, None)
    (kept,) = results.glob("lab/*/run1")
    shutil.rmtree(kept)
    with pytest.raises(ValueError, match="lab: the runs that its record is of are not in"):
        measure(counted, repository, results, None, first)
    shutil.rmtree(results)
    with pytest.raises(ValueError, match="--again measures it anew"):
        measure(counted, repository, results, None, first)
    assert not results.exists(), "before anything is measured"


@pytest.mark.parametrize("commits", [False, True])
def test_a_piece_whose_code_is_changed_while_it_runs_is_not_measured(
    counted: Piece, repository: Path, commits: bool
) -> None:
    results = repository / "results"
    first = measure(counted, repository, results, None)
    law = repository / "law.py"
    changes = f"{COUNTS}open({str(law)!r}, 'a').write('# another\\n')\n"
    if commits:
        changes += (
            f"import subprocess\nsubprocess.run({[*GIT, '-C', str(repository), 'commit', '-qam', 'x']!r}, check=True)\n"
        )
    commit(repository, changes)
    with pytest.raises(ValueError, match="lab: what it measures was changed meanwhile"):
        measure(counted, repository, results, None)
    assert not list(results.glob("lab/*/run*")), "what they have left is of no commit"
    subprocess.run([*GIT, "-C", str(repository), "checkout", "-q", "law.py"], check=True)
    commit(repository, COUNTS)
    assert measure(counted, repository, results, None).values("alone", "tps") == first.values("alone", "tps")


VERSION = """peer:
 Version: v2.5.16
 Commit SHA: 91ba37b
 Go version: go1.26.3
"""


def give_fabric(folder: Path, script: str) -> Path:
    """Make a folder of binaries whose peer is a script."""
    peer = folder / "fabric" / "bin" / "peer"
    peer.parent.mkdir(parents=True)
    peer.write_text(f"#!/bin/sh\n{script}\n")
    peer.chmod(0o755)
    return folder / "fabric"


def test_a_record_names_the_fabric_that_it_is_of(
    counted: Piece, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fabric = give_fabric(tmp_path_factory.mktemp("binaries"), f"[ $1 = version ] && cat <<'END'\n{VERSION}END")
    assert measure(counted, repository, repository / "results", fabric).beside == ""
    beside = counted._replace(arguments=(*counted.arguments, "{fabric}"))
    assert measure(beside, repository, repository / "results", fabric).beside == "Fabric v2.5.16"


def test_a_fabric_that_was_built_from_sources_is_told_from_others(tmp_path: Path) -> None:
    said = [
        fabric_version(give_fabric(tmp_path / other, f"echo ' Version: latest' # {other}")) for other in ("one", "two")
    ]
    assert all(re.fullmatch(r"Fabric latest \(peer [0-9a-f]{12}\)", one) for one in said)
    assert said[0] != said[1]


@pytest.mark.parametrize(("script", "said"), [("echo peer", "it names none"), ("exit 3", "exit status 3")])
def test_a_fabric_that_does_not_say_its_version_is_not_measured(
    counted: Piece, repository: Path, tmp_path_factory: pytest.TempPathFactory, script: str, said: str
) -> None:
    fabric = give_fabric(tmp_path_factory.mktemp("binaries"), script)
    beside = counted._replace(arguments=(*counted.arguments, "{fabric}"))
    with pytest.raises(ValueError, match=f"bin/peer version: .*{said}"):
        measure(beside, repository, repository / "results", fabric)
    assert not (repository / "results").exists(), "before anything is measured"


def test_the_ledger_is_built_before_it_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QIOI_LEDGER", raising=False)
    (tmp_path / "ledger").mkdir()
    makefile = tmp_path / "ledger" / "Makefile"
    makefile.write_text("build:\n\ttouch built\n")
    build_ledger(tmp_path)
    assert (tmp_path / "ledger" / "built").exists()
    makefile.write_text("build:\n\tfalse\n")
    with pytest.raises(ValueError, match=r"make -C \S+/ledger build ended with status 2"):
        build_ledger(tmp_path)


def test_another_ledger_than_the_one_that_is_built_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QIOI_LEDGER", "/usr/bin/qioi-ledger")
    with pytest.raises(
        ValueError, match="QIOI_LEDGER=/usr/bin/qioi-ledger: figures are of the ledger that is built here"
    ):
        build_ledger(tmp_path)


def test_a_piece_whose_repeats_stand_in_one_folder_takes_no_more(counted: Piece, repository: Path) -> None:
    def read(folder: Path, speed: Sequence[Calibration]) -> Figures:
        return counted.read([folder], speed)

    piece = counted._replace(runs=1, read=OneFolder(read))
    first = measure(piece, repository, repository / "results", None)
    with pytest.raises(ValueError, match="lab: its benchmark keeps all repeats in one folder"):
        measure(piece, repository, repository / "results", None, first)
    assert len(list((repository / "results").glob("lab/*/run*"))) == 1, "before anything is measured"


def test_what_was_measured_before_is_gone_on_with_only_if_it_is_unfinished_and_of_the_same_code(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the laws' benchmark does, this one runs nothing again whose figures are there."""
    results = tmp_path_factory.mktemp("results")
    (repository / "benchmarks").mkdir()
    script = (
        "import pathlib, sys\n"
        "file, step = pathlib.Path(sys.argv[1], 'step'), int(pathlib.Path('law.py').read_text().split()[-1])\n"
        "file.write_text(file.read_text() if file.exists() else str(step))\n"
        "sys.exit(step == 0)\n"
    )
    (repository / "benchmarks" / "bench.py").write_text(script)
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b"]

    def commit(step: int) -> None:
        (repository / "law.py").write_text(f"step = {step}\n")
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", f"step {step}"], check=True)

    seen: list[float] = []

    def read(folders: Sequence[Path], _speed: Sequence[Calibration]) -> Figures:
        seen.extend(float((folder / "step").read_text()) for folder in folders)
        return Figures((), ())

    monkeypatch.setattr("published.measure.calibrate", lambda _folder: SPEED)
    piece = Piece("lab", "the lab", ("bench.py", "{out}"), (".",), 1, read)
    for step in (1, 2):
        commit(step)
        measure(piece, repository, results, None)
    assert seen == [1.0, 2.0]
    (result,) = results.glob("lab/*/run1/step")
    result.write_text("7")  # finished: begun anew
    measure(piece, repository, results, None)
    assert seen == [1.0, 2.0, 2.0]
    commit(0)
    with pytest.raises(UnmeasuredError):
        measure(piece, repository, results, None)
    (other,) = results.glob("lab/*/run1/step")
    piece = piece._replace(arguments=(*piece.arguments, "--another"))
    with pytest.raises(UnmeasuredError):
        measure(piece, repository, results, None)
    assert not other.exists(), "what another command has left"
    (result,) = results.glob("lab/*/run1/step")
    result.write_text("8")
    with pytest.raises(UnmeasuredError):
        measure(piece, repository, results, None)
    assert result.read_text() == "8", "interrupted: gone on with"
