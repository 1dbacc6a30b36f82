"""What is said of a listed group whose share the daemon may not write."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from settings_file import GOOD, write

from qioi.controller.levers.files import Files
from qioi.daemon.site import lacking, why_not_written
from qioi.kernel.hierarchy import Hierarchy
from qioi.settings.config import load_config

#: Says what is lacking, as a user of its argument's number, who may be unable to reach its folder by the whole name.
SAYS = """
import os, sys
from pathlib import Path
from qioi.controller.levers.files import Files
from qioi.daemon.site import lacking
from qioi.kernel.hierarchy import Hierarchy
from qioi.settings.config import load_config
config, hierarchy, user = load_config(Path("qioi.yaml")), Hierarchy(2, Path("cgroup")), int(sys.argv[1])
os.setresuid(user, user, user)
print(*(one.line for one in lacking(config, hierarchy, Files(hierarchy)) if "cgroup:" in one.line), sep="\\n", end="")
"""
WITHOUT = ("setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become somebody else")
@pytest.mark.parametrize(
    ("by", "user", "owner", "mode", "says"),
    [
        ((), 0, 1000, 0o444, None),
        (WITHOUT, 0, 0, 0o644, None),
        ((), 65534, 65534, 0o644, None),
        (WITHOUT, 0, 1000, 0o644, "it is user 1000's, and this is user 0"),
        ((), 65534, 0, 0o644, "it is user 0's, and this is user 65534"),
        ((), 65534, 65534, 0o444, "its mode forbids it"),
    ],
)
def test_who_may_not_write_a_share_is_told_what_is_missing(
    tmp_path: Path, by: tuple[str, ...], user: int, owner: int, mode: int, says: str | None
) -> None:
    tmp_path.chmod(0o711)
    write(tmp_path, GOOD)
    share = tmp_path / "cgroup" / "fab" / "peer0" / "cpu.weight"
    share.parent.mkdir(parents=True)
    share.write_text("100\n", encoding="utf-8")
    share.chmod(mode)
    os.chown(share, owner, owner)
    command = [*by, sys.executable, "-c", SAYS, str(user)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if says is None:
        assert done.stdout == ""
    else:
        assert f"{share.relative_to(tmp_path)}: no right to write: {says}: accepted " in done.stdout


@pytest.mark.parametrize(
    ("owner", "user", "read_only", "says"),
    [
        (0, 0, True, "it is mounted read-only: accepted is a mount that can be written"),
        (1000, 0, True, "it is mounted read-only: accepted is a mount that can be written"),
        (1000, 0, False, "it is user 1000's, and this is user 0: accepted are that user and CAP_DAC_OVERRIDE"),
        (0, 1000, False, "it is user 0's, and this is user 1000: accepted are that user and CAP_DAC_OVERRIDE"),
        (7, 7, False, "its mode forbids it: accepted are a mode by which its owner may, and CAP_DAC_OVERRIDE"),
    ],
)
def test_why_a_share_is_not_written(owner: int, user: int, read_only: bool, says: str) -> None:
    assert why_not_written(owner, user, read_only=read_only) == says


def test_a_group_that_goes_as_its_share_is_looked_at_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, hierarchy = load_config(write(tmp_path, GOOD)), Hierarchy(2, tmp_path / "cgroup")
    group = hierarchy.folder("fab/peer0")
    group.mkdir(parents=True)
    (group / hierarchy.file).write_text("100\n", encoding="utf-8")
    (tmp_path / "peer0.log").touch()
    may = os.access

    def vanishing(path: Path, mode: int) -> bool:
        if path == group / hierarchy.file:
            shutil.rmtree(group)
        return may(path, mode)

    monkeypatch.setattr(os, "access", vanishing)
    (lack,) = lacking(config, hierarchy, Files(hierarchy))
    assert lack.group
    assert lack.line.endswith(f"cgroup: {group}: no such control group: accepted is a group that exists")
