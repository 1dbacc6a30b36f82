"""The daemon's image, built from its Dockerfile by a real engine; from inside one it protects containers beside it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from engine_site import PEER, EngineSite
from waiting import PATIENCE, until

from qioi.kernel.hierarchy import find_hierarchy

pytestmark = [pytest.mark.slow, pytest.mark.host, pytest.mark.timeout(900)]  # the package is built first

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.append(str(REPOSITORY / "tests" / "daemon"))

from systemd_machine import UnavailableError, root_file_system  # noqa: E402

IMAGE, BASE = "qioi:test", "debian-with-python:test"


@pytest.fixture(scope="module")
def image(engine: EngineSite, debian_package: Path) -> Iterator[str]:
    """Build it as `make image` does, on a Debian 12 of debootstrap's."""
    try:
        root = root_file_system()
    except UnavailableError as error:
        pytest.skip(f"no Debian to build on: {error}")
    with contextlib.closing(engine.client()) as client:
        with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as tar:
            repository, _, tag = BASE.partition(":")
            client.api.import_image_from_stream(tar.stdout, repository=repository, tag=tag)
        dockerfile = str(REPOSITORY / "deploy" / "docker" / "Dockerfile")
        lines: list[dict[str, Any]] = list(
            client.api.build(
                path=str(debian_package.parent), dockerfile=dockerfile, tag=IMAGE, buildargs={"BASE": BASE},
                rm=True, forcerm=True, decode=True, network_mode="none",
            )
        )  # fmt: skip
        assert "errorDetail" not in lines[-1], lines[-3:]
    yield IMAGE
    with contextlib.closing(engine.client()) as client:
        for one in (IMAGE, BASE):
            client.api.remove_image(one, force=True)


def share(container: str) -> int:
    hierarchy = find_hierarchy()
    return int((hierarchy.folder(f"docker/{container}") / hierarchy.file).read_text())


def start(engine: EngineSite, image: str, folder: Path, **changes: object) -> str:
    """Run the daemon as deploy/README.md says, with this engine's own paths."""
    etc, state, disk = folder / "etc", folder / "run", folder / "disk"
    for one in (etc, state, disk):
        one.mkdir(exist_ok=True)
    document = {
        "period": 0.2,
        # The rest of this host's work is nothing to the test: the containers' own level is where it looks.
        "docker": {"socket": str(engine.socket)},
        "defaults": {"law": "proportional", "threshold": 1000},
        "metrics": {"port": 0},
        **changes,
    }
    (etc / "qioi.yaml").write_text(yaml.safe_dump(document))
    logs = engine.folder / "data" / "containers"
    binds = [
        "/sys/fs/cgroup:/sys/fs/cgroup:rw", f"{state}:/run/qioi:rw", f"{disk}:/var/lib/qioi:rw", f"{etc}:/etc/qioi:ro",
        f"{engine.socket}:{engine.socket}:rw", f"{logs}:{logs}:ro",
    ]  # fmt: skip
    with contextlib.closing(engine.client()) as client:
        made = client.api.create_container(
            image, name="qioi",
            host_config=client.api.create_host_config(
                binds=binds, pid_mode="host", network_mode="none", cap_drop=["ALL"],
                cap_add=["DAC_READ_SEARCH", "SYS_NICE"], security_opt=["no-new-privileges"], read_only=True,
            ),
        )  # fmt: skip
        client.api.start(made)
        return str(made["Id"])


def logs(engine: EngineSite) -> str:
    with contextlib.closing(engine.client()) as client:
        return str(client.api.logs("qioi").decode())


def levels(container: str) -> list[int]:
    """The shares of the container's group and of its parent: where it is raised depends on who else works here."""
    hierarchy = find_hierarchy()
    return [share(container), int((hierarchy.folder("docker") / hierarchy.file).read_text())]


def until_raised(engine: EngineSite, peer: str, before: list[int]) -> None:
    """Wait until it has raised something. Where it has ended instead, its logs say why: another daemon on this host."""

    def ended() -> bool:
        with contextlib.closing(engine.client()) as client:
            return str(client.api.inspect_container("qioi")["State"]["Status"]) == "exited"

    until(lambda: levels(peer) != before or ended())
    assert levels(peer) != before, logs(engine)


def test_it_raises_a_neighbour_container_and_puts_it_back(engine: EngineSite, image: str, tmp_path: Path) -> None:
    peer = engine.run(PEER, "peer0", rate=10)
    before = levels(peer)
    start(engine, image, tmp_path)
    until_raised(engine, peer, before)
    # The host's own daemon and commands know of it: one daemon a host.
    refused = subprocess.run(
        [sys.executable, "-m", "qioi.cli", "restore", "--state-dir", str(tmp_path / "run")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert refused.returncode == 1
    assert "stop it, and it restores by itself" in refused.stderr
    assert max(levels(peer)) > 1024, logs(engine)
    with contextlib.closing(engine.client()) as client:
        answer = client.api.exec_create("qioi", ["qioi", "status", "--output", "json"])
        assert b"peer0" in client.api.exec_start(answer)
        client.api.stop("qioi", timeout=int(PATIENCE))
        assert client.api.inspect_container("qioi")["State"]["ExitCode"] == 0, logs(engine)
    assert levels(peer) == before


def test_what_a_killed_daemon_container_has_left_is_put_back_by_a_run_of_restore(
    engine: EngineSite, image: str, tmp_path: Path
) -> None:
    peer = engine.run(PEER, "peer0", rate=10)
    before = levels(peer)
    start(engine, image, tmp_path)
    until_raised(engine, peer, before)
    with contextlib.closing(engine.client()) as client:
        client.api.kill("qioi")
        assert levels(peer) != before
        binds = ["/sys/fs/cgroup:/sys/fs/cgroup:rw", f"{tmp_path / 'run'}:/run/qioi:rw",
                 f"{tmp_path / 'disk'}:/var/lib/qioi:rw", f"{engine.socket}:{engine.socket}:rw"]  # fmt: skip
        client.containers.run(
            image, ["restore"], volumes=binds, pid_mode="host", network_mode="none", cap_drop=["ALL"], remove=True
        )
    assert levels(peer) == before
    assert engine.record("peer0") in (0, 1024)


def test_as_it_comes_it_only_looks(engine: EngineSite, image: str) -> None:
    with contextlib.closing(engine.client()) as client:
        container = client.containers.run(image, name="qioi", network_mode="none", detach=True)
        until(lambda: b"dry run: nothing is written" in container.logs())
        container.stop(timeout=int(PATIENCE))
        assert client.api.inspect_container("qioi")["State"]["ExitCode"] == 0, logs(engine)
