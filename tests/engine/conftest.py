"""One engine for the folder's tests, started where it can be; otherwise they are skipped with the reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_site import CHAINCODE, ORDERER, OTHER, PEER, EngineSite, build_writer


def install() -> str | None:
    """Install Debian's engine where it is missing; say why it cannot be had."""
    if os.geteuid() != 0:
        return "needs root: starts a container engine"
    if shutil.which("go") is None:
        return "needs Go: builds the one program of its images"
    if shutil.which("dockerd"):
        return None
    done = subprocess.run(
        ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "docker.io"],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return None if done.returncode == 0 else f"docker.io cannot be installed: {done.stderr.strip()[-200:]}"


@pytest.fixture(scope="session")
def engine() -> Iterator[EngineSite]:
    pytest.importorskip("docker", reason="the Docker SDK is not installed")
    missing = install()
    if missing:
        pytest.skip(missing)
    folder = Path(tempfile.mkdtemp(prefix="qioi-docker-"))
    site = EngineSite(folder)
    try:
        site.start()
    except (RuntimeError, AssertionError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"dockerd does not start here: {error}")
    try:
        site.make_image(build_writer(folder), PEER, ORDERER, CHAINCODE, OTHER)
        yield site
    finally:
        site.close()


@pytest.fixture(autouse=True)
def no_containers_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "engine" in request.fixturenames:
        site = request.getfixturevalue("engine")
        if site.ended():
            site.start()
        site.remove_all()
