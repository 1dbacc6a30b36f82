"""Neither Caliper's manager nor the workers that this has started outlive a killed `qioi lab caliper`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from waiting import until

from qioi.processes.tree import Tree

#: Stands for Caliper's command: a manager with a worker, both of which hold the file ``held`` open.
MANAGER = "exec 9>held\nsleep 1000 &\nwait\n"
COMMAND = """
import sys
from pathlib import Path
from qioi.lab.caliper import launch_manager
from qioi.processes.tree import Tree
modules, output, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
group = Tree(name).group("client") if name else None
launch_manager("/bin/sh", modules, modules, output, group, output / "caliper.log", print)
"""


def holders(file: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if any(link.resolve() == file for link in Path(f"/proc/{process.pid}/fd").iterdir()):
                found.append(process)
        except OSError:  # it has ended
            continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize("grouped", [False, True])
def test_nothing_outlives_a_killed_command(tmp_path: Path, tree: Tree, grouped: bool) -> None:
    script = tmp_path / "modules" / "@hyperledger" / "caliper-cli" / "caliper.js"
    script.parent.mkdir(parents=True)
    script.write_text(MANAGER)
    (output := tmp_path / "output").mkdir()
    tree.group("client").create()
    words = [str(tmp_path / "modules"), str(output), tree.name if grouped else ""]
    command = subprocess.Popen([sys.executable, "-c", COMMAND, *words])
    try:
        until(lambda: len(holders(output / "held")) == 2 or command.poll() is not None)
        assert command.poll() is None
    finally:
        command.kill()
        command.wait()
    try:
        until(lambda: not holders(output / "held"))
    finally:
        for process in holders(output / "held"):
            process.kill()
