"""Images FROM scratch, made without an engine: a program and the libraries that it loads, as a Docker archive.

containerd (`ctr -n k8s.io images import`), Docker (`docker load`) and kind (`kind load image-archive`) take them.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path

from demo_k8s import SOURCE_TREE
from qioi.interference import sysbench_binary
from qioi.lab.network import find_binary
from qioi.processes.errors import LabError

#: The names that manifests have, as engines write them out.
LEDGER_IMAGE, SYSBENCH_IMAGE, DAEMON_IMAGE = (
    f"docker.io/library/{name}:0.2.0.dev0" for name in ("qioi-ledger", "qioi-sysbench", "qioi")
)
#: A library as ldd(1) shows it: `libm.so.6 => /lib/…/libm.so.6 (0x…)` or `/lib64/ld-linux-x86-64.so.2 (0x…)`.
_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
#: This machine's architecture, as images name it.
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
#: Parts of Python's library that a daemon does not need. It needs compiled modules: its container's root is read-only,
#: so each start would compile all that it imports, which doubles the CPU time of a start on a crowded node.
_LEFT_OUT = re.compile(
    r"/(site-packages|test|tests|idlelib|tkinter|ensurepip|lib2to3|config-[^/]*)(/|$)|\.opt-[12]\.pyc$"
)


def write_image(
    archive: Path,
    name: str,
    files: Mapping[str, Path],
    entry: Sequence[str],
    environment: Mapping[str, str] | None = None,
) -> Path:
    """Write an image of one layer. ``files`` are by their absolute paths in the image; a folder is taken whole."""
    layer = archive.with_suffix(".layer")
    with tarfile.open(layer, "w") as tar:
        for target, source in files.items():
            tar.add(source, target.lstrip("/"), filter=_plain)
    digest = hashlib.sha256()
    with layer.open("rb") as content:
        while block := content.read(1 << 20):
            digest.update(block)
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", **(environment or {})}
    config = {
        "architecture": ARCHITECTURE,
        "os": "linux",
        "config": {"Entrypoint": list(entry), "Env": [f"{key}={value}" for key, value in variables.items()]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest.hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        tar.add(layer, "layer.tar")
        for member, document in (("config.json", config), ("manifest.json", manifest)):
            text = json.dumps(document).encode()
            info = tarfile.TarInfo(member)
            info.size = len(text)
            tar.addfile(info, BytesIO(text))
    layer.unlink()
    return archive


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out what is not needed, and the files' owners."""
    if _LEFT_OUT.search(f"/{info.name}"):
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def libraries(programs: Iterable[Path]) -> dict[str, Path]:
    """Find what programs and modules load, at the places where the loader looks for it."""
    found: dict[str, Path] = {}
    for program in programs:
        said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
        found |= {one: Path(one).resolve() for one in _LIBRARY.findall(said)}
    return found


def ledger_image(folder: Path) -> Path:
    """Make the ledger's image: its one static binary."""
    return write_image(folder / "ledger.tar", LEDGER_IMAGE, {"/usr/bin/qioi-ledger": find_binary()},
                       ["/usr/bin/qioi-ledger"])  # fmt: skip


def sysbench_image(folder: Path) -> Path:
    """Make sysbench's image from this host's."""
    binary = Path(sysbench_binary())
    files = {"/usr/bin/sysbench": binary, **libraries([binary])}
    return write_image(folder / "sysbench.tar", SYSBENCH_IMAGE, files, ["/usr/bin/sysbench"])


def daemon_image(folder: Path) -> Path:
    """Make the daemon's image: this host's Python, and the package as pip installs it, without extras."""
    site = folder / "site-packages"
    source = copy_source(folder / "source")
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(site)]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False,
                          env={**os.environ, "QIOI_NO_LEDGER": "1"})  # fmt: skip
    if done.returncode != 0:
        raise LabError(f"pip could not install {source}: {done.stderr.strip()[-500:]}")
    binary, library = Path(sys.executable).resolve(), Path(sysconfig.get_path("stdlib"))
    modules = [*library.glob("lib-dynload/*.so"), *site.rglob("*.so")]
    own = [Path(sys.base_prefix) / "lib" / str(sysconfig.get_config_var("INSTSONAME"))]
    files = {
        "/usr/bin/python3": binary,
        str(library): library,
        str(site_packages(library)): site,
        **{str(one): one.resolve() for one in own if one.exists()},
        **libraries([binary, *modules]),
    }
    start = folder / "qioi"
    start.write_text("#!/usr/bin/python3\nfrom qioi.cli import main\n\nmain()\n", encoding="utf-8")
    start.chmod(0o755)
    files["/usr/local/bin/qioi"] = start
    environment = {"PYTHONHOME": sys.base_prefix, "PYTHONPATH": str(site_packages(library)),
                   "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
    return write_image(folder / "daemon.tar", DAEMON_IMAGE, files, ["/usr/local/bin/qioi"], environment)


def copy_source(target: Path) -> Path:
    """Copy what pip needs of the source tree: a build in place would find removed modules in build/."""
    target.mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(SOURCE_TREE / name, target)
    for name in ("qioi", "monitor", "controller", "interference", "caliper-configs"):
        shutil.copytree(SOURCE_TREE / name, target / name, symlinks=True,
                        ignore=shutil.ignore_patterns("__pycache__", "node_modules", "_bin"))  # fmt: skip
    return target


def site_packages(library: Path) -> Path:
    """Say where the package stands in the image."""
    return Path("/opt/qioi") / library.name
