"""What is decided before a wheel or package is made: which Go is used, and what of an earlier build stays out."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import setuptools

ROOT = Path(__file__).resolve().parents[2]
NEEDED = re.findall(r"^go ([\d.]+)$", (ROOT / "ledger" / "go.mod").read_text(), re.MULTILINE)[0]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Give what setup.py defines, without a build."""
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    monkeypatch.delenv("QIOI_NO_LEDGER", raising=False)
    return runpy.run_path(str(ROOT / "setup.py"))


def go(folder: Path, says: str) -> str:
    """Make a Go that only says its version, or fails."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "go"
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    return str(program)


def version(number: str) -> str:
    return f"echo go version go{number} linux/amd64"


#: What Gos say, and whether they read the ledger's module. The last two are as good as none.
GOS = (
    (version(NEEDED), True),
    (version("1.26.9"), True),
    (version("1.27rc1"), True),
    (version("1.100"), True),
    (version("2.0"), True),
    (version("1.19.8"), False),
    (version("1.25.12"), False),
    ("echo go version devel go1.28-abcdef linux/amd64", True),
    ("echo 'go: download go1.26.0: toolchain not available' >&2; exit 1", False),
    ("exit 127", False),
)


@pytest.mark.parametrize(("says", "usable"), GOS)
def test_make_installs_go_where_there_is_none_that_is_new_enough(tmp_path: Path, says: str, usable: bool) -> None:
    go(tmp_path, says)
    probe = "probe: ; @if $(go_is_new); then echo used; else echo installed; fi"
    done = subprocess.run(
        ["make", "-s", "--no-print-directory", "VENV=no-environment", f"--eval={probe}", "probe"],
        cwd=ROOT, env={**os.environ, "PATH": f"{tmp_path}:/bin:/usr/bin"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == ("used\n" if usable else "installed\n")


@pytest.mark.parametrize(("says", "usable"), GOS)
def test_go_is_used_where_it_reads_the_ledgers_module(
    module: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    says: str,
    usable: bool,
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "none"))
    program = go(tmp_path, says)
    assert module["go_command"]() == (program if usable else None)
    said = capsys.readouterr().err.splitlines()
    assert [f"Go {NEEDED} or newer" in line for line in said] == ([] if usable else [True]), said


def test_a_newer_go_of_the_environment_is_taken_before_an_older_one_on_the_path(
    module: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(tmp_path / "host", version("1.19.8"))
    newer = go(tmp_path / "venv" / "bin", version(NEEDED))
    monkeypatch.setenv("PATH", f"{tmp_path / 'host'}:/bin:/usr/bin")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    assert module["go_command"]() == newer


def built(module: dict[str, Any], folder: Path) -> Path:
    """Run the step that collects a project's files; give its build folder, which an earlier build has used."""
    for part in ("project/qioi", "build/qioi/left", "build/qioi/_bin"):
        (folder / part).mkdir(parents=True)
    for file in ("project/qioi/__init__.py", "build/qioi/renamed.py", "build/qioi/left/__init__.py"):
        (folder / file).touch()
    (folder / "build/qioi/_bin/qioi-ledger").touch()
    words = {"packages": ["qioi"], "package_dir": {"": "project"}, "script_name": "setup.py"}
    step = module["BuildWithLedger"](setuptools.Distribution(words))
    step.build_lib = str(folder / "build")
    step.ensure_finalized()
    step.run()
    return folder / "build"


def test_what_an_earlier_build_left_is_not_taken(
    module: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pip builds in the source tree, whose build folder stays."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QIOI_NO_LEDGER", "1")
    folder = built(module, tmp_path)
    files = sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())
    assert files == ["qioi/__init__.py"]


def test_a_build_that_fails_says_how_to_do_without(
    module: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    go(tmp_path, f'test "$1" = build && exit 3; {version(NEEDED)}')
    with pytest.raises(SystemExit, match=r"exit status 3.*QIOI_NO_LEDGER=1"):
        built(module, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("dpkg") is None, reason="needs dpkg: not a Debian")
@pytest.mark.parametrize(("python", "goes_on"), [(sys.executable, True), ("/bin/false", False)])
def test_the_debian_package_is_built_by_the_environment_of_setup(tmp_path: Path, python: str, goes_on: bool) -> None:
    """What would be done after the interpreter was looked at ends at once."""
    (tmp_path / "mktemp").write_text("#!/bin/sh\necho began; exit 3\n")
    (tmp_path / "mktemp").chmod(0o755)
    environment = {**os.environ, "PYTHON": python, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [str(ROOT / "deploy/debian/build.sh"), str(tmp_path / "dist")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, f"PYTHON {python}: lacks" in done.stderr) == ((3, False) if goes_on else (1, True)), done
