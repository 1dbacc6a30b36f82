"""A lab's folder is trusted, so one that others may have made or filled is refused before anything in it is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from qioi.lab.folder import MARKER
from qioi.lab.lab import DAEMON_STATE, Lab
from qioi.lab.options import LabOptions
from qioi.processes.errors import LabError

NOBODY = 65_534
SMALL = LabOptions(peers_per_org=1, orderers=1, consenter="solo")


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder that another user has made to look like a lab's, with a lock that leads to a file of this user's."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to somebody else")
    (tmp_path / "target").write_text("whole\n")
    folder = tmp_path / "lab"
    (folder / DAEMON_STATE).mkdir(parents=True)
    (folder / MARKER).write_text(f"x\n{tmp_path}/engine.sock\n\n")
    (folder / DAEMON_STATE / "lock").symlink_to(tmp_path / "target")
    for one in (folder, *folder.rglob("*")):
        os.chown(one, NOBODY, NOBODY, follow_symlinks=False)
    return folder


@pytest.mark.parametrize("act", [Lab, lambda folder: Lab(folder).down(), lambda folder: Lab(folder).up(SMALL)])
def test_what_another_user_has_planted_is_not_looked_into(planted: Path, act: Callable[[Path], object]) -> None:
    with pytest.raises(LabError, match=f"^{planted} is not this user's own: accepted is a folder that belongs to user"):
        act(planted)
    assert planted.with_name("target").read_text() == "whole\n"
    assert (planted / MARKER).exists()


def test_what_is_planted_after_the_first_look_is_refused_too(planted: Path) -> None:
    hidden = planted.rename(planted.with_name("hidden"))
    lab = Lab(planted)
    hidden.rename(planted)
    for act in (lab.down, lambda: lab.up(SMALL)):
        with pytest.raises(LabError, match="is not this user's own"):
            act()
    assert planted.with_name("target").read_text() == "whole\n"


def test_an_empty_folder_of_another_user_is_no_place_for_a_lab(planted: Path) -> None:
    (empty := planted.with_name("empty")).mkdir()
    os.chown(empty, NOBODY, NOBODY)
    with pytest.raises(LabError, match=f"^{empty} is not this user's own"):
        Lab(empty).up(SMALL)
    assert not any(empty.iterdir())


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_a_folder_to_which_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    (folder := tmp_path / "lab").mkdir()
    folder.chmod(mode)
    with pytest.raises(LabError, match=f"^{folder} is not this user's own"):
        Lab(folder).up(SMALL)


def test_a_link_of_another_user_is_not_followed(planted: Path) -> None:
    (link := planted.with_name("link")).symlink_to(planted.with_name("ours"))
    assert Lab(link).directory.name == "ours"
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(LabError, match=f"^{link} is a link of user {NOBODY}"):
        Lab(link)


@pytest.mark.slow
def test_nobody_else_sees_into_a_lab_s_folder(lab: Lab, base_port: int) -> None:
    lab.up(LabOptions(peers_per_org=1, orderers=1, consenter="solo", base_port=base_port))
    assert lab.directory.stat().st_mode & 0o777 == 0o700
