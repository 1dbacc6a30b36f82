"""One API server for the folder's tests; without its binaries they are skipped with a line that says what to do."""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from demo_k8s.control_plane import ControlPlane, lacking
from demo_k8s.objects import install_kind
from ports import free_ports

from qioi.kubernetes.client import Access, Api

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "guest"))  # the emulated machine
_numbers = itertools.count()


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    why = lacking(["kube-apiserver", "kubectl"], ["etcd", "openssl"])
    if why:
        pytest.skip(why)
    plane = ControlPlane(Path(tempfile.mkdtemp(prefix="qioi-k8s-")), free_ports())
    try:
        plane.start()
        install_kind(plane)
        yield plane
    finally:
        plane.close()


@pytest.fixture
def namespace(plane: ControlPlane) -> str:
    name = f"t{next(_numbers)}"
    plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return name


@pytest.fixture
def access(plane: ControlPlane, tmp_path: Path) -> Access:
    """An administrator's."""
    token = tmp_path / "token"
    token.write_text(plane.token())
    return Access(plane.server, plane.ca, token)


@pytest.fixture
def api(access: Access) -> Iterator[Api]:
    with closing(Api(access)) as api:
        yield api
