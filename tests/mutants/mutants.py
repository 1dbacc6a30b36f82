"""Mistakes that the tests must notice: each mutant is one, made in a copy of the sources, and tried on their tests.

    python tests/mutants/mutants.py [WORD…]     all, or those whose name has one of the words; status 1: some survive

A mutant survives where the tests pass all the same. What a survivor shows is a test that is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
COPIED = ("qioi", "controller", "monitor", "interference", "tests", "deploy/k8s/demo_k8s")
#: Seconds for the tests of one mutant; one that hangs is noticed, too.
PATIENCE = 300.0
#: Seconds for such tests to take down what they have started.
ENDING = 60.0
#: Bytes of the tests' output that are told.
TAIL = 2000


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake: ``old`` stands once in ``file``, and becomes ``new``. ``tests`` are those that must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def mutated(self, text: str) -> str:
        """Give the file's text with the mistake. ValueError: the list is older than the file."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.file} has {text.count(self.old)} times {self.old!r}")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Sources:
    """A folder of sources, and the tests that must notice mistakes in them."""

    folder: str
    tests: tuple[str, ...]

    def mutants(self, file: str, *mistakes: tuple[str, str, str], tests: tuple[str, ...] | None = None) -> list[Mutant]:
        """Give the mutants of a file: each a name, what stands there, and what stands there instead.

        ``tests`` are those of this file, in place of the folder's.
        """
        return [Mutant(name, f"{self.folder}/{file}", old, new, tests or self.tests) for name, old, new in mistakes]


def copy(folder: Path) -> None:
    """Copy what the tests need."""
    for name in COPIED:
        ignore = shutil.ignore_patterns("__pycache__", "_bin", "*.log")
        shutil.copytree(REPOSITORY / name, folder / name, symlinks=True, ignore=ignore)
    shutil.copy(REPOSITORY / "pyproject.toml", folder)


def passes(folder: Path, tests: tuple[str, ...]) -> bool:
    """Whether the tests pass there. RuntimeError: they were not run, so that nothing is known."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not host", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
        try:
            status = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return False
        finally:
            end(process)
        if status not in (0, 1):  # such as an error while tests are collected
            output.seek(0)
            said = output.read()[-TAIL:].decode(errors="replace")
            raise RuntimeError(f"{' '.join(tests)}: pytest ended with status {status}:\n{said}")
        return status == 0


def end(process: subprocess.Popen[bytes]) -> None:
    """End tests that still run. Killed at once they would leave processes and control groups."""
    process.terminate()
    try:
        process.wait(ENDING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def survivors(mutants: list[Mutant], folder: Path) -> list[Mutant]:
    """Try each one; give those that no test notices."""
    found = []
    for mutant in mutants:
        file = folder / mutant.file
        text = file.read_text()
        file.write_text(mutant.mutated(text))
        try:
            survives = passes(folder, mutant.tests)
        except RuntimeError as error:
            error.add_note(f"That was with the mutant {mutant.name!r}.")
            raise
        file.write_text(text)
        print(f"{'SURVIVES' if survives else 'noticed '}  {mutant.name}", flush=True)
        if survives:
            found.append(mutant)
    return found


def main(words: list[str]) -> int:
    from guard_mutants import GUARD
    from idle_mutants import IDLE
    from law_mutants import LAWS
    from lever_mutants import LEVERS
    from slice_mutants import SLICES
    from tenant_mutants import CONTENDERS
    from trial_mutants import TRIALS

    known = (*LAWS, *TRIALS, *CONTENDERS, *IDLE, *GUARD, *SLICES, *LEVERS)
    chosen = [one for one in known if not words or any(word in one.name for word in words)]
    with tempfile.TemporaryDirectory(prefix="qioi-mutants-") as name:
        folder = Path(name)
        copy(folder)
        for tests in {one.tests for one in chosen}:
            if not passes(folder, tests):
                print(f"{' '.join(tests)}: they fail without any mutant")
                return 2
        left = survivors(chosen, folder)
    print(f"{len(chosen) - len(left)} of {len(chosen)} mutants are noticed")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
