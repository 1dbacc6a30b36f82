"""What is recorded of the machine may be published: it tells builds apart, and names no folder of this host."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from qioi.experiment import host


def test_a_build_is_told_by_its_content_and_not_by_where_it_stands(tmp_path: Path) -> None:
    one, same, other = (tmp_path / name for name in ("one", "same", "other"))
    one.write_bytes(b"ledger")
    same.write_bytes(b"ledger")
    other.write_bytes(b"ledgeR")
    assert host.fingerprint(one)["sha256"] == host.fingerprint(same)["sha256"] != host.fingerprint(other)["sha256"]
    assert host.fingerprint(one)["bytes"] == 6


def test_an_edit_of_a_module_is_another_code(tmp_path: Path) -> None:
    """Also in a room that is a link, as in a source tree, and before anything is committed."""
    package, room = tmp_path / "one" / "qioi", tmp_path / "one" / "controller"
    for folder in (package, room):
        folder.mkdir(parents=True)
    (package / "controller").symlink_to(room)
    (package / "cli.py").write_text("1")
    (room / "law.py").write_text("2")
    shutil.copytree(package, tmp_path / "installed")
    before = host.code(package)
    assert host.code(tmp_path / "installed") == before
    (room / "law.pyc").write_text("compiled")
    assert host.code(package) == before
    (room / "law.py").write_text("3")
    assert host.code(package) != before


def test_a_program_that_says_no_version_has_an_unknown_one() -> None:
    assert host.version_of("echo", ["one 1.0\nand more"]) == "one 1.0"
    assert host.version_of("true", []) == "unknown"
    assert host.version_of("sleep", ["60"], seconds=0.05) == "unknown"


def test_a_file_of_the_kernels_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("one\ntwo\n")
    assert host.first_line(tmp_path / "file") == "one"
    assert host.first_line(tmp_path / "none") is None
    assert host.first_line(Path("/proc/self/mem")) is None  # it is there, and reading it fails


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
@pytest.mark.parametrize("variable", host.JAVA_OPTIONS)
def test_what_this_hosts_java_is_given_is_neither_its_version_nor_told(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = host.version_of("java", host.PROGRAMS["java"])
    assert "version" in without
    monkeypatch.setenv(variable, "-Dsecret=1")
    assert host.version_of("java", host.PROGRAMS["java"]) == without


def test_no_folder_of_this_host_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = tmp_path / "qioi-ledger"
    binary.write_bytes(b"ledger")
    monkeypatch.setattr(host, "find_binary", lambda: binary)
    recorded = json.dumps(host.describe(seed=3))
    assert str(tmp_path) not in recorded
    assert str(Path.cwd()) not in recorded
