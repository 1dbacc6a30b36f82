"""What `make` sets up, it sets up again where it was interrupted, removed or moved."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def make_environment(folder: Path) -> None:
    """Run the step of `make setup` that makes the Python environment, in another folder."""
    command = ["make", "-C", str(ROOT), f"VENV={folder}", "--eval", "environment: ; $(environment)", "environment"]
    subprocess.run(command, check=True, capture_output=True, text=True)


@pytest.mark.slow
def test_an_environment_without_pip_is_made_again_and_a_whole_one_is_left(tmp_path: Path) -> None:
    """An interrupted venv has its Python before it has pip."""
    folder = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    make_environment(folder)
    subprocess.run([str(folder / "bin" / "python"), "-m", "pip", "--version"], check=True)
    kept = folder / "kept"
    kept.touch()
    make_environment(folder)
    assert kept.exists()


def toy_environment(folder: Path) -> None:
    """Make one in an instant: of pip it has what says where it stands."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    program = folder / "bin/pip"
    program.write_text(f"#!{folder}/bin/python\n")
    program.chmod(0o755)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "pip.py").touch()


def left_to_do(clone: Path, **environment: str) -> list[str]:
    """Name the steps of `make setup` that are not done there."""
    command = ["make", "--no-print-directory", "-n", "-f", str(ROOT / "Makefile"), "-C", str(clone), "setup"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment})
    said = {"packages": "apt-install.sh $(sed", "python": "== Python environment", "ledger": "== building the ledger"}
    return [step for step, words in said.items() if words in done.stdout]


def change_system(clone: Path) -> Path:
    """What was installed is not on the system that has the folder now."""
    listed = clone / "deploy/apt-packages.txt"
    age = listed.stat().st_mtime
    listed.write_text("toy-missing\n")
    os.utime(listed, (age, age))
    return clone


def remove_environment(clone: Path) -> Path:
    shutil.rmtree(clone / ".venv")
    return clone


def remove_interpreter(clone: Path) -> Path:
    """As an upgrade of the system does, that brings another Python."""
    for file in (clone / ".venv/bin").glob("python*"):
        file.unlink()
        file.symlink_to("/usr/bin/python0")
    return clone


def remove_ledger(clone: Path) -> Path:
    shutil.rmtree(clone / "ledger/bin")
    return clone


def remove_source(clone: Path) -> Path:
    (clone / "ledger/internal/old.go").unlink()
    return clone


def remove_sources(clone: Path) -> Path:
    shutil.rmtree(clone / "ledger/internal")
    return clone


def move(clone: Path) -> Path:
    return clone.rename(clone.with_name("moved"))


def copy(clone: Path) -> Path:
    """Its programs would run those of the clone that it was copied from."""
    return Path(shutil.copytree(clone, clone.with_name("copied"), symlinks=True))


def mount(clone: Path) -> Path:
    """What its programs name ends with where it is now."""
    for program in (clone / ".venv/bin").iterdir():
        if not program.is_symlink():
            program.write_text(program.read_text().replace(str(clone), f"/host{clone}"))
    return clone


def link(clone: Path) -> Path:
    """An environment may stand elsewhere, on a larger disk or for several clones."""
    (clone / ".venv").rename(clone.with_name("shared"))
    for program in (clone.with_name("shared") / "bin").iterdir():
        if not program.is_symlink():
            program.write_text(program.read_text().replace(f"{clone}/.venv", f"{clone.parent}/shared"))
    (clone / ".venv").symlink_to(clone.with_name("shared"))
    return clone


def done_setup(clone: Path) -> Path:
    """Make a clone in which all of `make setup` is done."""
    toy_environment(clone / ".venv")
    done = ("deploy/apt-packages.txt", "pyproject.toml", "ledger/go.mod", "ledger/go.sum", "ledger/main.go",
            "ledger/internal/old.go", "build/stamps/apt", ".venv/ready", "build/stamps/modules",
            "ledger/bin/qioi-ledger")  # fmt: skip
    for order, name in enumerate(done):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).touch()
        os.utime(clone / name, (order, order))
    shutil.copy(ROOT / "deploy/apt-install.sh", clone / "deploy")
    (clone / "ledger/Makefile").write_text("build:\n\tmkdir -p bin && touch bin/qioi-ledger\n")
    for folder, _, _ in os.walk(clone / "ledger"):
        os.utime(folder, (0, 0))
    return clone


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "steps"),
    [
        (change_system, ["packages", "python", "ledger"]),
        (remove_environment, ["python", "ledger"]),
        (remove_interpreter, ["python", "ledger"]),
        (move, ["python", "ledger"]),
        (copy, ["python", "ledger"]),
        (mount, ["python", "ledger"]),
        (link, []),
        (remove_ledger, ["ledger"]),
        (remove_source, ["ledger"]),
        (remove_sources, ["ledger"]),
    ],
)
def test_setup_does_again_what_is_gone_or_was_moved(
    tmp_path: Path, change: Callable[[Path], Path], steps: list[str]
) -> None:
    clone = done_setup(tmp_path / "clone")
    assert left_to_do(clone) == []
    assert left_to_do(change(clone)) == steps


@pytest.mark.slow
def test_what_a_build_makes_does_not_ask_for_another_one(tmp_path: Path) -> None:
    clone = remove_source(remove_ledger(done_setup(tmp_path / "clone")))
    command = ["make", "-f", str(ROOT / "Makefile"), "-C", str(clone), "ledger/bin/qioi-ledger"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    assert left_to_do(clone) == []


@pytest.mark.slow
def test_setup_installs_a_go_in_place_of_one_that_is_gone(tmp_path: Path) -> None:
    clone = done_setup(tmp_path / "clone")
    older = tmp_path / "go"
    older.write_text("#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    older.chmod(0o755)
    assert left_to_do(clone) == []
    assert left_to_do(clone, PATH=f"{tmp_path}:{os.environ['PATH']}") == ["python", "ledger"]


def test_clean_removes_every_cache_that_git_ignores() -> None:
    """The environment, results and what somebody fetched or measured by hand stay."""
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text().split()}
    done = subprocess.run(["make", "-n", "-C", str(ROOT), "clean"], check=True, capture_output=True, text=True)
    removed = {word.strip("/") for line in done.stdout.splitlines() if "rm -rf" in line for word in line.split()}
    assert ignored - removed == {".venv", "results", "node_modules", "*.prof"}


def test_help_is_whole() -> None:
    """The shell prints it, so a quote within a text would end it early."""
    found = subprocess.run(["make", "-C", str(ROOT), "--no-print-directory", "help"], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    targets = {line.split()[1] for line in found.stdout.splitlines() if line.startswith("make ")}
    assert {"setup", "demo", "test", "check", "test-host", "publish", "experiments", "deb", "clean"} <= targets
