"""Build the package, and with it the bundled ledger's Go binary.

All metadata stands in pyproject.toml. What only code can do is here. ledger/ is compiled into
``qioi/_bin/qioi-ledger``: without a Go that is new enough the daemon is installed alone, and that is said. And each
build between two releases gets a version of its own. An editable install keeps that of the commit it was made from.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
BINARY = Path("qioi") / "_bin" / "qioi-ledger"
#: The next release, or this one: a release takes ``.dev0`` away, here and wherever deploy/ and docs/ name it.
VERSION = "0.2.0.dev0"


def version(named: str, tree: Path) -> str:
    """Give a build between releases a version by which pip, apt and nodes tell it from others: ``0.2.0.devN+gHASH``.

    N is when its commit was made, or the newest file that differs from it was changed (``.dirty``), in UTC. A clone
    without tags or history knows that too, and later is more. Of two commits of one second either may be. A tree
    without a repository of its own has no N.
    """
    release, dev, _ = named.partition(".dev")
    if not dev or not (tree / ".git").exists():
        return named
    try:
        made, digest = git(tree, "-c", "log.showSignature=false", "log", "-1", "--format=%ct %h").split()
        changes = git(tree, "diff", "--name-only", "-z", "HEAD"), git(tree, "ls-files", "-oz", "--exclude-standard")
    except (OSError, subprocess.CalledProcessError) as error:
        reason = (getattr(error, "stderr", "") or str(error)).strip().partition("\n")[0]
        say(f"git: {reason}: this build is {named}, as every other one for which git does not answer")
        return named
    names = "".join(changes).split("\0")[:-1]
    changed = [int(file.stat().st_mtime) for file in map(tree.joinpath, names) if file.is_file()]
    number = time.strftime("%Y%m%d%H%M%S", time.gmtime(max(int(made), *changed, 0)))
    return f"{release}.dev{number}+g{digest}{'.dirty' if names else ''}"


def git(tree: Path, *words: str) -> str:
    """Ask Git about a tree."""
    return subprocess.run(["git", *words], cwd=tree, check=True, capture_output=True, text=True).stdout


def unstamped() -> list[str]:
    """Have Go leave the commit out where Git refuses to answer: else it ends."""
    try:
        git(HERE, "log", "-1")
    except (OSError, subprocess.CalledProcessError):
        return ["-buildvcs=false"]
    return []


@cache
def go_command() -> str | None:
    """Find a usable Go, or say why the ledger is left out and return None."""
    if os.environ.get("QIOI_NO_LEDGER"):
        say("QIOI_NO_LEDGER is set: only the daemon is installed, without the bundled ledger.")
        return None
    if not (HERE / "ledger" / "go.mod").exists():
        say("no ledger/ folder here: only the daemon is installed, without the bundled ledger.")
        return None
    needed = re.findall(r"^go ([\d.]+)$", (HERE / "ledger" / "go.mod").read_text(), re.MULTILINE)[0]
    for go in filter(None, (shutil.which("go"), shutil.which("go", path=str(Path(sys.prefix) / "bin")))):
        if numbers(go_version(go)) >= numbers(needed):
            return go
    missing = f"Go {needed} or newer is not installed"
    say(f"{missing}: only the daemon is installed, without the bundled ledger (`qioi lab`, `qioi demo`).")
    return None


def go_version(go: str) -> str:
    """Ask a Go for its version, in the ledger's folder: one from 1.21 on may fetch the version that is needed there."""
    done = subprocess.run([go, "version"], cwd=HERE / "ledger", capture_output=True, text=True, check=False)
    found = re.search(r"\bgo(\d+(?:\.\d+)+)", done.stdout)
    return found[1] if found else "0"


def numbers(version: str) -> list[int]:
    """Make a version comparable."""
    return [int(one) for one in version.split(".")]


def say(message: str) -> None:
    """Write one line where pip shows it with -v, and a plain setup.py run always."""
    print(f"qioi setup: {message}", file=sys.stderr)


class BuildWithLedger(build_py):
    """Compile the ledger before the Python files are collected."""

    def run(self) -> None:
        """Build the binary in place (editable install) or into the build tree (wheel)."""
        tree = Path(self.build_lib).resolve() / "qioi"
        if not self.editable_mode and tree != HERE / "qioi":
            # An earlier build may have left modules that are gone since, and a binary.
            shutil.rmtree(tree, ignore_errors=True)
        super().run()
        go = go_command()
        if go is None:
            return
        target = (HERE if self.editable_mode else Path(self.build_lib).resolve()) / BINARY
        target.parent.mkdir(parents=True, exist_ok=True)
        say(f"building the ledger with {go}")
        build = [go, "build", *unstamped(), "-trimpath", "-ldflags", "-s -w", "-o", str(target), "./cmd/qioi-ledger"]
        done = subprocess.run(build, cwd=HERE / "ledger", env={**os.environ, "CGO_ENABLED": "0"}, check=False)
        if done.returncode != 0:
            failed = f"`{' '.join(build)}` failed in ledger/ (exit status {done.returncode})"
            raise SystemExit(f"qioi setup: {failed}: with QIOI_NO_LEDGER=1 only the daemon is installed")


class PlatformWheel(bdist_wheel):
    """Tag the wheel for this platform when it holds the binary, for any otherwise."""

    def finalize_options(self) -> None:
        """Decide on the tag before the wheel's name is made."""
        super().finalize_options()
        self.root_is_pure = go_command() is None

    def get_tag(self) -> tuple[str, str, str]:
        """Any Python 3 will do: the binary is a program of its own, not an extension."""
        python, abi, platform = super().get_tag()
        return ("py3", "none", platform) if not self.root_is_pure else (python, abi, platform)


setup(
    version=version(VERSION, HERE),
    distclass=Distribution,
    cmdclass={"build_py": BuildWithLedger, "bdist_wheel": PlatformWheel},
)
