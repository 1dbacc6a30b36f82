"""What a daemon that was killed has left is put back by hand, by its files and the commands of docs/operating.md."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from raised_component import value
from running import BUSY, NAPPING, Site, end

#: Where QiOi is no longer installed.
STEP = (Path(__file__).parents[2] / "docs" / "operating.md").read_text().partition("\n## Remove it, step by step\n")[2]
COMMANDS = re.findall(r"`(echo [^`]+)`", STEP.partition("\n4. ")[2].partition("\n\n")[0])


def entries(journal: Path) -> list[dict[str, Any]]:
    """Read a journal's lines as a person does: the first is its head, and each begins with a number."""
    return [json.loads(line.partition(" ")[2]) for line in journal.read_text().splitlines()[1:]]


def type_in(site: Site, command: str, entry: dict[str, Any]) -> None:
    """Run a command as a shell does, with its words in capitals filled in."""
    words = {"MOUNT": str(site.hierarchy.mount), **{key.upper(): str(found) for key, found in entry.items()}}
    subprocess.run(["/bin/sh", "-c", re.sub(r"\b[A-Z]+\b", lambda word: words[word[0]], command)], check=True)


@pytest.mark.slow
def test_after_a_sigkill_the_documented_commands_bring_everything_back(site: Site) -> None:
    original, leave_idle = COMMANDS
    raised, others = site.component("peer0"), site.component("peer1")
    raised.write_text("700")
    for name in ("peer0", "peer1"):
        site.work(name, NAPPING)
    for number in range(3 * (os.cpu_count() or 1)):
        site.work(f"hog{number}", BUSY)
    hog = site.hierarchy.folder(f"{site.parent}/hog0") / site.hierarchy.file
    idle = hog.with_name("cpu.idle")
    if not idle.exists():
        pytest.skip("this kernel has no cpu.idle (5.15)")
    hog.write_text("3000")
    site.changes = {"channels": {"red": {"law": "adaptive"}}, "best_effort": [f"{site.parent}/hog0"]}
    process = site.start()
    site.commit_until(lambda: value(raised) > 700 and value(others) > 1024 and value(idle) == 1)
    end(process, signal.SIGKILL)
    others.write_text("777")  # by somebody else
    for entry in entries(site.state / "journal"):
        if value(site.hierarchy.folder(entry["path"]) / entry["file"]) in entry["ours"]:
            type_in(site, original, entry)
    for entry in entries(site.state / "idle"):
        type_in(site, leave_idle, entry)
        type_in(site, original, {**entry, "file": site.hierarchy.file})
    assert (value(raised), value(others), value(idle), value(hog)) == (700, 777, 0, 3000)
