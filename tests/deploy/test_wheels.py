"""The wheel, with the ledger's binary and without: what is in it, and that it runs from where it was installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from ports import free_ports

pytestmark = [pytest.mark.slow, pytest.mark.host, pytest.mark.timeout(900)]  # builds by pip and Go may have cold caches

REPOSITORY = Path(__file__).resolve().parents[2]
BINARY = "qioi/_bin/qioi-ledger"


def build(folder: Path, *, ledger: bool) -> Path:
    """Build a wheel as a user's pip does, without touching the source tree's own build folder."""
    (folder / "extra.cfg").write_text(f"[build]\nbuild_base = {folder / 'build'}\n")
    environment = {**os.environ, "DIST_EXTRA_CONFIG": str(folder / "extra.cfg")}
    environment.pop("QIOI_NO_LEDGER", None)
    if not ledger:
        environment["QIOI_NO_LEDGER"] = "1"
    words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder / "out")]
    subprocess.run([*words, str(REPOSITORY)], env=environment, check=True, timeout=600)
    (wheel,) = (folder / "out").glob("*.whl")
    return wheel


def install(wheel: Path, site: Path) -> None:
    words = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(words, check=True, timeout=120)


def qioi(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run what is installed in ``site``; only its dependencies are this environment's."""
    # -S: no .pth file, or the source tree that this environment has installed would be found in its place.
    code = "import sys; from qioi.cli import main; sys.argv[0] = 'qioi'; main()"
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{sysconfig.get_paths()['purelib']}"}
    environment.pop("QIOI_LEDGER", None)
    command = [sys.executable, "-S", "-c", code, *arguments]
    return subprocess.run(command, cwd=site, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_without_the_ledger_it_is_for_any_machine_and_the_lab_says_what_is_missing(tmp_path: Path) -> None:
    wheel = build(tmp_path, ledger=False)
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert BINARY not in names
    for part in ("monitor/__init__.py", "controller/__init__.py", "interference/sysbench.py", "lab/report.html.j2"):
        assert f"qioi/{part}" in names
    assert not [name for name in names if "demo_k8s" in name or name.startswith("qioi/lab/kubernetes/")]
    # One namespace, and nothing else, is installed.
    assert {name.split("/")[0] for name in names} == {"qioi", wheel.name.split("-py3")[0] + ".dist-info"}
    install(wheel, tmp_path / "site")
    assert "cpu controller" in qioi(tmp_path / "site", "check").stdout
    done = qioi(tmp_path / "site", "lab", "up", "--dir", str(tmp_path / "lab"))
    assert done.returncode == 1
    assert "the ledger's binary qioi-ledger is missing" in done.stderr


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go: builds the ledger")
def test_with_the_ledger_it_is_for_this_machine_and_brings_a_lab_up(tmp_path: Path) -> None:
    wheel = build(tmp_path, ledger=True)
    assert "-py3-none-linux_" in wheel.name
    (entry,) = (one for one in zipfile.ZipFile(wheel).infolist() if one.filename.endswith(f"/{BINARY}"))
    assert entry.external_attr >> 16 & 0o111 == 0o111  # it may be run
    site = tmp_path / "site"
    install(wheel, site)
    small = ("--orgs", "1", "--peers-per-org", "1", "--orderers", "1", "--consenter", "solo")
    lab = ("--dir", str(tmp_path / "lab"))
    try:
        up = qioi(site, "lab", "up", *lab, *small, "--base-port", str(free_ports()))
        assert up.returncode == 0, up.stderr
        assert str(site) in Path(f"/proc/{first_pid(site, lab)}/exe").readlink().as_posix()
    finally:
        assert qioi(site, "lab", "down", *lab).returncode == 0


def first_pid(site: Path, lab: tuple[str, str]) -> int:
    return int(json.loads(qioi(site, "lab", "status", *lab, "--output", "json").stdout)[0]["pids"][0])
