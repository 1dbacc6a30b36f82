"""What the lab's commands say where the system refuses them a file: one line, and an exit status."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from qioi.commands import demo, lab, lab_caliper
from qioi.daemon.lock import HOST_LOCK, TreeLock
from qioi.kernel.hierarchy import Hierarchy
from qioi.lab.folder import MARKER
from qioi.lab.lab import Lab, NodeStatus
from qioi.lab.network import Node
from qioi.model import Role
from qioi.processes.cgroups import Group, Mounts
from qioi.processes.errors import LabError

NOBODY = 65_534


@pytest.fixture
def roots(tmp_path: Path) -> Iterator[Path]:
    """A folder with root's lab, seen by somebody else."""
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    folder = tmp_path / "lab"
    folder.mkdir()
    (folder / MARKER).touch()
    parents = [one for one in folder.parents if one.stat().st_uid == 0 and one.stat().st_mode & 0o077 == 0]
    for one in parents:
        one.chmod(0o711)
    os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        os.seteuid(0)
        for one in parents:
            one.chmod(0o700)


def said(command: click.Command, words: Sequence[str]) -> str:
    """Run a command that fails, and give what it says."""
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 1, result.output
    assert result.output.startswith("Error: ")
    assert result.output.count("\n") == 1
    return result.output


def test_a_folder_of_root_s_is_refused_to_others_in_one_line(roots: Path) -> None:
    assert "Permission denied" in said(lab.command, ["up", "--dir", str(roots.parent / "new")])
    assert f"{roots} is not this user's own" in said(lab.command, ["down", "--dir", str(roots)])
    assert "Permission denied" in said(demo.command, ["--output", str(roots / "results")])


def test_a_place_where_no_folder_can_be_is_named(tmp_path: Path) -> None:
    assert said(lab.command, ["up", "--dir", "/proc/lab"]) == "Error: /proc/lab: No such file or directory\n"


def test_names_are_whole_where_the_status_goes_into_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node("cc-smallbank-peer0-org1", Role.CHAINCODE, "127.0.0.1:17010", "", (), tmp_path / "log")
    one = NodeStatus(node, Group(Mounts(Hierarchy(2, tmp_path)), "g"), (7,), True, 1024, 0.5, node.log)
    monkeypatch.setattr(Lab, "status", lambda _lab: [one])
    line = CliRunner().invoke(lab.command, ["status", "--dir", str(tmp_path / "lab")]).output.splitlines()[1]
    assert line.split() == [node.name, "chaincode", "serves", "7", "1024", "0.5", node.address]


def test_a_disk_that_is_full_after_all_rounds_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(lab_caliper, "run", fill)
    network = tmp_path / "fabric.yaml"
    network.write_text(
        "version: '2.0.0'\ncaliper: {blockchain: fabric}\nchannels: []\norganizations: [{mspid: Org1MSP}]\n"
    )
    output = tmp_path / "results"
    words = ["simple", "--network", str(network), "--output", str(output)]
    assert f"No space left on device (files go to {output})" in said(lab_caliper.command, words)


def test_a_demo_beside_a_daemon_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host := tmp_path / "host").mkdir()
    monkeypatch.setenv(HOST_LOCK, str(host))
    lock = TreeLock(host)
    where = ["--dir", str(tmp_path / "lab"), "--output", str(tmp_path / "results")]
    what = said(demo.command, [*where, "--rate", "10", "--duration", "5", "--warmup", "1"])
    lock.close()
    assert f"a QiOi daemon is running already on this host (pid {os.getpid()})" in what
    assert not (tmp_path / "lab").exists()


def test_a_demo_in_a_folder_of_ones_own_looks_for_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would warn that the ledgers stand on the disk, as somebody else has the folder in memory."""

    def refuse(*_: object) -> None:
        raise AssertionError("looked for")

    def end() -> None:
        raise LabError("not now")

    monkeypatch.setattr("qioi.lab.demo.demo_directory", refuse)
    monkeypatch.setattr("qioi.lab.demo.sysbench_binary", end)
    words = ["--dir", str(tmp_path / "lab"), "--output", str(tmp_path / "results")]
    assert "not now" in said(demo.command, words)


def test_a_demo_does_not_mix_its_results_with_an_earlier_one_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("measured")

    monkeypatch.setattr(demo, "measure", refuse)
    (output := tmp_path / "results").mkdir()
    (output / "result.json").write_text("{}")
    words = ["--dir", str(tmp_path / "lab"), "--output", str(output)]
    assert f"{output} is not empty; name a new folder with --output" in said(demo.command, words)
    assert [file.name for file in output.iterdir()] == ["result.json"]


def test_a_full_disk_is_said_with_the_folders_that_may_stand_on_it(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException) as raised, lab.one_line_errors(tmp_path / "a", tmp_path / "b"):
        Path("/dev/full").write_text("x")
    assert "No space left on device" in raised.value.message
    assert f"{tmp_path}/a, {tmp_path}/b" in raised.value.message


def test_a_reader_that_has_left_is_not_told() -> None:
    """As `head` leaves: click ends without a word then."""
    with pytest.raises(BrokenPipeError), lab.one_line_errors():
        raise BrokenPipeError(32, "Broken pipe")
