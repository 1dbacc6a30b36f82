"""Install a pinned npm package into the user's cache, once for every lock file.

The folder is named after the lock file's content, so a changed pin is a new folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from qioi.kernel.child import Child
from qioi.lab.cache import cache_directory, make_whole
from qioi.lab.signals import uninterrupted
from qioi.processes.errors import LabError
from qioi.processes.launch import last_lines

#: The oldest Node that Caliper 0.6.0 runs on, and Debian 12's own.
NODE_MINIMUM = (18, 19)
#: Seconds that processes get to end before they are killed.
GRACE = 3.0


def find_node() -> tuple[str, str]:
    """Find node and npm; what is missing is said with the name of its apt package."""
    found: dict[str, str] = {}
    for program, package in (("node", "nodejs"), ("npm", "npm")):
        path = shutil.which(program)
        if path is None:
            raise LabError(f"{program} is not installed: `apt-get install {package}` (Caliper runs on Node.js)")
        found[program] = path
    version = subprocess.run([found["node"], "--version"], capture_output=True, text=True, check=False).stdout.strip()
    try:
        numbers = tuple(int(part) for part in version.removeprefix("v").split(".")[:2])
    except ValueError:
        raise LabError(f"{found['node']} --version says {version!r}; a version of Node.js is accepted") from None
    if numbers < NODE_MINIMUM:
        needed = ".".join(map(str, NODE_MINIMUM))
        raise LabError(
            f"{found['node']} is {version}; Node.js {needed} or newer is accepted (`apt-get install nodejs`)"
        )
    return found["node"], found["npm"]


def install(package: Path, *, cache: Path | None = None, say: Callable[[str], None] = lambda _: None) -> Path:
    """Install what ``package``'s lock file pins, unless it is there, and give its node_modules folder."""
    manifest, lock = package / "package.json", package / "package-lock.json"
    try:
        name = str(json.loads(manifest.read_text(encoding="utf-8"))["name"])
        digest = hashlib.sha256(manifest.read_bytes() + lock.read_bytes()).hexdigest()[:12]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(f"{package}: package.json and package-lock.json are not both readable there: {error}") from error
    target = (cache or cache_directory()) / "npm" / f"{name.replace('/', '-')}-{digest}"
    modules = target / "node_modules"
    if modules.is_dir():
        return modules
    _, npm = find_node()
    say(f"installing {name} into {target} (npm, once)")

    def fill(folder: Path) -> None:
        shutil.copy(manifest, folder)
        shutil.copy(lock, folder)
        _npm_ci(npm, folder)

    make_whole(target, fill)
    return modules


def _npm_ci(npm: str, folder: Path) -> None:
    """Run ``npm ci``. No package's own scripts run: nothing here needs one, and they would need a compiler."""
    log = folder / "npm.log"
    with log.open("wb") as output:
        process: Child[bytes] = Child(
            [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=warn", "--fetch-retries=5"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait()
        finally:
            end_session(process)
    if status != 0:
        raise LabError(f"npm ci failed (exit status {status}); the registry must be reachable:\n{last_lines(log, 6)}")


def end_session(process: Child[bytes]) -> None:
    """End a process that leads a session, and every process of that session that is left."""
    with uninterrupted():
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + GRACE
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
                while time.monotonic() < deadline:
                    process.poll()
                    os.killpg(process.pid, 0)
                    time.sleep(0.02)
        process.wait()
