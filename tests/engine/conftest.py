"""One engine for the folder's tests. Where it cannot be had they are skipped with the reason."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_site import CHAINCODE, ORDERER, OTHER, PEER, EngineSite, build_writer, install


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
        site.stop(signal.SIGKILL)  # one that runs may not answer
        shutil.rmtree(folder, ignore_errors=True)
        pytest.fail(f"dockerd is installed, and does not start: {error}")
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
