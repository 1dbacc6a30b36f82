from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from qioi.lab.npm import find_node, install
from qioi.processes.errors import LabError


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package that depends on an archive beside it, so that a real npm ci needs no registry."""
    try:
        find_node()
    except LabError as error:
        pytest.skip(str(error))
    archive = tmp_path / "part.tgz"
    manifest = json.dumps({"name": "part", "version": "1.0.0"}).encode()
    with tarfile.open(archive, "w:gz") as file:
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(manifest)
        file.addfile(entry, io.BytesIO(manifest))
    folder = tmp_path / "package"
    folder.mkdir()
    root = {"name": "whole", "version": "1.0.0", "dependencies": {"part": f"file:{archive}"}}
    part = {"version": "1.0.0", "resolved": f"file:{archive}"}
    lock = {
        "name": "whole",
        "version": "1.0.0",
        "lockfileVersion": 3,
        "packages": {"": root, "node_modules/part": part},
    }
    (folder / "package.json").write_text(json.dumps(root))
    (folder / "package-lock.json").write_text(json.dumps(lock))
    return folder


@pytest.mark.slow
def test_what_is_locked_is_installed_once(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, said = tmp_path / "cache", []
    modules = install(package, cache=cache, say=said.append)
    assert json.loads((modules / "part" / "package.json").read_text())["version"] == "1.0.0"
    assert len(said) == 1
    # The second time nothing runs: npm may even be gone.
    monkeypatch.setenv("PATH", "")
    assert install(package, cache=cache, say=said.append) == modules
    assert len(said) == 1
    # Another lock file is another install.
    (package / "package-lock.json").write_text((package / "package-lock.json").read_text() + "\n")
    with pytest.raises(LabError, match="apt-get install nodejs"):
        install(package, cache=cache)


@pytest.mark.slow
def test_a_failed_install_leaves_nothing(package: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (tmp_path / "part.tgz").unlink()
    with pytest.raises(LabError, match=r"npm ci failed \(exit status \d+\).*\n.*part\.tgz"):
        install(package, cache=cache)
    assert list((cache / "npm").iterdir()) == []


def test_a_package_without_a_lock_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "x"}')
    with pytest.raises(LabError, match=r"package-lock\.json"):
        install(tmp_path, cache=tmp_path / "cache")


def test_a_missing_program_names_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="apt-get install nodejs"):
        find_node()
    program(tmp_path / "node", "v20.1.0")
    with pytest.raises(LabError, match="apt-get install npm"):
        find_node()


@pytest.mark.parametrize(("version", "says"), [("v16.20.2", "18.19 or newer"), ("what", "a version of Node.js")])
def test_an_old_node_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, says: str) -> None:
    for name in ("node", "npm"):
        program(tmp_path / name, version)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(LabError, match=says):
        find_node()


def program(path: Path, says: str) -> None:
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)
