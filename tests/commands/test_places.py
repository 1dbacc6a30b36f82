"""Which daemon a command asks, and whose journal is restored, where nobody names a socket or a folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from running import Site

from qioi.cli import main
from qioi.commands import check, options
from qioi.commands.options import folders_of, places
from qioi.settings.documents import ConfigError

NOBODY = 65534


@pytest.fixture
def usual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in the place of /etc/qioi/qioi.yaml; it is not there yet."""
    file = tmp_path / "qioi.yaml"
    for module in (options, check):
        monkeypatch.setattr(module, "DEFAULT_CONFIG", file)
    return file


def test_the_usual_file_says_where_or_else_nobody_does(usual: Path) -> None:
    nowhere = (Path("/run/qioi"), Path("/run/qioi/qioi.sock"), Path("/var/lib/qioi"))
    assert places(None) == nowhere
    usual.write_text("state_dir: kept\n")
    assert places(None) == (usual.parent / "kept", usual.parent / "kept/qioi.sock", usual.parent / "kept")
    usual.write_text("state_dir: [")
    assert places(None) == nowhere


def test_what_else_is_wrong_with_a_file_does_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "qioi.yaml"
    file.write_text("state_dir: kept\nsocket: s\nrecord_dir: r\nperiod: never\nnonsense: 1\n")
    assert places(file) == (tmp_path / "kept", tmp_path / "s", tmp_path / "r")
    for text, named in (("socket: 3", "socket: 3: accepted"), ("state_dir: 3", "state_dir: 3"), ("period: [", "YAML")):
        file.write_text(f"{text}\n")
        with pytest.raises(ConfigError, match=named):
            places(file)


def test_restore_and_check_go_by_the_usual_file(usual: Path) -> None:
    said = CliRunner().invoke(main, ["check"])
    assert (said.exit_code, f"configuration: none: {usual} does not exist" in said.stdout) == (0, True)
    usual.write_text(f"state_dir: {usual.parent}/kept\nnonsense: 1\n")
    said = CliRunner().invoke(main, ["check"])
    assert (said.exit_code, "nonsense: unknown key" in said.stderr) == (1, True)
    (usual.parent / "kept").mkdir()
    said = CliRunner().invoke(main, ["restore"])
    assert said.stdout == f"{usual.parent}/kept: nothing is to be restored\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_check_says_that_this_user_may_not_look_for_the_usual_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may well be there, as a package's folder of mode 0750 has it."""
    (folder := tmp_path / "closed").mkdir(0o700)
    file = folder / "qioi.yaml"
    file.touch()
    monkeypatch.setattr(check, "DEFAULT_CONFIG", file)
    monkeypatch.setattr(check, "findings", lambda *_: {})  # the host is looked at by other tests
    os.seteuid(NOBODY)
    try:
        said = CliRunner().invoke(main, ["check"])
    finally:
        os.seteuid(0)
    assert (said.exit_code, said.stderr) == (0, "")
    assert said.stdout == f"configuration: none: {file}: Permission denied, and -c names no other\n"


def test_restore_takes_no_other_folder_where_the_usual_file_cannot_be_read(usual: Path) -> None:
    usual.write_text(f"state_dir: {usual.parent}/kept\nperiod: [\n")
    said = CliRunner().invoke(main, ["restore"])
    assert (said.exit_code, "YAML" in said.stderr) == (1, True), said.output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_restore_takes_no_other_folder_where_this_user_may_not_look_for_the_usual_file(usual: Path) -> None:
    usual.touch()
    usual.parent.chmod(0o700)
    os.seteuid(NOBODY)
    try:
        said = CliRunner().invoke(main, ["restore"])
    finally:
        os.seteuid(0)
    assert (said.exit_code, said.stdout) == (1, "")
    assert f"{usual}: Permission denied" in said.stderr


def test_restore_takes_from_a_file_what_is_not_named(tmp_path: Path) -> None:
    file, named, other = tmp_path / "qioi.yaml", tmp_path / "named", tmp_path / "other"
    file.write_text("state_dir: kept\nrecord_dir: r\n")
    assert folders_of(file, named, None) == (named, tmp_path / "r")
    assert folders_of(file, None, other) == (tmp_path / "kept", other)
    assert folders_of(file, named, other) == (named, other)
    assert folders_of(None, named, None) == (named, named)


@pytest.mark.parametrize(
    ("text", "problem"), [(None, "No such file or directory"), ("record_dir: 3\n", "record_dir: 3")]
)
def test_restore_says_what_is_wrong_with_a_file_that_it_takes_a_folder_from(
    tmp_path: Path, text: str | None, problem: str
) -> None:
    file = tmp_path / "qioi.yaml"
    if text is not None:
        file.write_text(text)
    (tmp_path / "state").mkdir()
    said = CliRunner().invoke(main, ["restore", "-c", str(file), "--state-dir", str(tmp_path / "state")])
    assert (said.exit_code, said.stdout) == (1, "")
    assert said.stderr.startswith(f"Error: {file}: {problem}: accepted")


@pytest.mark.slow
def test_a_file_that_the_daemon_would_refuse_still_says_whom_to_ask(site: Site) -> None:
    site.component("peer0")
    site.start()
    file = site.folder / "qioi.yaml"
    file.write_text(file.read_text() + "nonsense: 1\n")
    for words in (["status"], ["explain", "peer0"]):
        said = site.qioi(*words, "-c", str(file))
        assert (said.returncode, said.stderr) == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_restore_says_in_one_line_that_it_may_not_look(tmp_path: Path) -> None:
    folder = tmp_path / "closed" / "state"
    folder.mkdir(parents=True)
    folder.parent.chmod(0o700)
    os.seteuid(NOBODY)
    try:
        said = CliRunner().invoke(main, ["restore", "--state-dir", str(folder)])
    finally:
        os.seteuid(0)
    assert (said.exit_code, said.stdout) == (1, "")
    assert said.stderr == f"Error: {folder}: Permission denied: root, or the daemon's own user, is needed\n"


def test_restore_says_what_else_is_in_the_folders_place(tmp_path: Path) -> None:
    file, records = tmp_path / "file", tmp_path / "records"
    file.touch()
    accepted = "accepted is a folder, or a path at which one can be made"
    said = CliRunner().invoke(main, ["restore", "--state-dir", str(file), "--record-dir", str(tmp_path)])
    assert (said.exit_code, said.output) == (1, f"Error: {file}: Not a directory: {accepted}\n")
    records.mkdir()
    (records / "one").touch()
    said = CliRunner().invoke(main, ["restore", "--state-dir", str(file / "below"), "--record-dir", str(tmp_path)])
    assert (said.exit_code, said.output) == (1, f"Error: {file}/below: Not a directory: {accepted}\n")
