"""Who may speak to the cluster of the demo and of the tests: nobody but its own programs, and root."""

from __future__ import annotations

import json
import ssl
import urllib.request
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest
from demo_k8s.control_plane import ADMIN, MANAGER, ControlPlane

pytestmark = pytest.mark.slow
#: Two of etcd's addresses, by their distance from the API server's port: for clients, and for members.
ETCD = {"clients": 1, "members": 2}


def test_tokens_are_of_one_run(tmp_path: Path) -> None:
    planes = [ControlPlane(tmp_path, 1), ControlPlane(tmp_path, 1)]
    assert len({plane.token(user) for plane in planes for user in (ADMIN, MANAGER)}) == 4


def test_a_token_that_can_be_guessed_is_refused(plane: ControlPlane) -> None:
    request = urllib.request.Request(f"{plane.server}/api/v1/nodes", headers={"Authorization": "Bearer admin-token"})
    with pytest.raises(HTTPError, match="401"):
        urllib.request.urlopen(request, context=ssl.create_default_context(cafile=str(plane.ca)), timeout=30)


def test_no_other_user_reads_keys_or_tokens(plane: ControlPlane) -> None:
    secrets = [*plane.folder.glob("*.key"), plane.folder / "tokens.csv", plane.kubeconfig()]
    assert len(secrets) == 5
    assert {file.name: oct(file.stat().st_mode & 0o077) for file in secrets} == dict.fromkeys(
        (file.name for file in secrets), "0o0"
    )
    assert json.loads(plane.kubeconfig().read_text())["users"][0]["user"]["token"] == plane.token()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("port", ETCD.values(), ids=ETCD)
def test_etcd_refuses_whoever_has_no_certificate(plane: ControlPlane, port: int, scheme: str) -> None:
    """It holds what the API server does, and asks for no rights."""
    context = ssl.create_default_context(cafile=str(plane.ca)) if scheme == "https" else None
    with pytest.raises((URLError, ConnectionError, ssl.SSLError)) as refused:
        urllib.request.urlopen(f"{scheme}://127.0.0.1:{plane.port + port}/version", context=context, timeout=30)
    assert "Connection refused" not in str(refused.value)
