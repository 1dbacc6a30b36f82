"""Containers of a real containerd (by its CRI) and of a real Podman are found, followed, raised and let go."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_site import build_writer, commits, install
from sites import ContainerdSite, PodmanSite
from test_docker_daemon import Daemon
from waiting import PATIENCE, until

from qioi.discovery.containerd import ContainerdDiscovery
from qioi.discovery.docker import DockerDiscovery
from qioi.discovery.engine import PODMAN
from qioi.kernel.hierarchy import find_hierarchy
from qioi.model import Commit, Component, Role
from qioi.model.groups import chain
from qioi.monitor.logs.source import LogSource

pytestmark = [pytest.mark.slow, pytest.mark.host]


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    missing = install()  # Docker's package brings containerd and runc
    if missing:
        pytest.skip(missing)
    return build_writer(tmp_path_factory.mktemp("writer"))


@pytest.fixture(scope="module")
def containerd(writer: Path) -> Iterator[ContainerdSite]:
    site = ContainerdSite(Path(tempfile.mkdtemp(prefix="qioi-cri-")), writer)
    try:
        site.start()
        yield site
    finally:
        site.close()


@pytest.fixture(scope="module")
def podman(writer: Path) -> Iterator[PodmanSite]:
    if shutil.which("podman") is None:
        pytest.skip("not installed: podman (apt-get install podman)")
    folder = Path(tempfile.mkdtemp(prefix="qioi-podman-"))
    try:
        site = PodmanSite(folder, writer)
    except (RuntimeError, AssertionError, subprocess.TimeoutExpired) as error:
        shutil.rmtree(folder)
        pytest.skip(f"podman does not start here: {error}")
    yield site
    site.close()


def share(component: Component) -> int:
    hierarchy = find_hierarchy()
    return int((hierarchy.folder(component.cgroup) / hierarchy.file).read_text())


def test_a_container_of_the_cri_is_found_and_its_log_is_followed_over_a_rotation(containerd: ContainerdSite) -> None:
    discovery = ContainerdDiscovery(str(containerd.state), find_hierarchy().version, every=0.0)
    assert discovery.found().components == ()
    sandbox, container = containerd.run("peer0-abc", "peer", 20)
    try:
        until(lambda: len(discovery.found().components) == 1)
        (component,) = discovery.found().components
        assert (component.name, component.role, component.log_format) == ("default/peer0-abc/peer", Role.PEER, "cri")
        assert component.cgroup.endswith(container)
        assert share(component) > 0
        log = Path(component.log or "")
        source, blocks = LogSource(log, component.name, log_format="cri"), []

        def seen(count: int) -> bool:
            blocks.extend(one.block for one in source.poll() if isinstance(one, Commit))
            return len(blocks) >= count

        until(lambda: seen(3))
        log.rename(log.with_name("0.log.20261121-000000"))  # as the kubelet does
        containerd.reopen(container)
        before = len(blocks)
        until(lambda: seen(before + 5))
        source.close()
        assert blocks == list(range(blocks[0], blocks[0] + len(blocks)))
        assert discovery.found() is discovery.found()
    finally:
        containerd.remove(sandbox)
    until(lambda: discovery.found().components == ())
    assert discovery.found().problems == {}


def test_no_containerd_is_a_problem_and_no_more(tmp_path: Path) -> None:
    found = ContainerdDiscovery(str(tmp_path / "none"), 1).found()
    assert found.components == ()
    assert "No such file or directory" in found.problems[f"containerd {tmp_path / 'none'}"]


def test_podmans_containers_are_found_and_followed(podman: PodmanSite) -> None:
    discovery = DockerDiscovery(str(podman.socket), find_hierarchy().version, kind=PODMAN)
    try:
        assert discovery.wait(PATIENCE)
        podman.run("peer0", 20)
        podman.run("labelled", 0, "--label", "io.qioi.role=orderer")
        until(lambda: {one.name for one in discovery.found().components} == {"peer0", "labelled"})
        found = {one.name: one for one in discovery.found().components}
        assert (found["peer0"].role, found["labelled"].role) == (Role.PEER, Role.ORDERER)
        assert (found["peer0"].log_format, found["peer0"].owner) == ("cri", None)
        assert share(found["peer0"]) > 0
        blocks = commits(found["peer0"], 5)
        assert blocks == list(range(blocks[0], blocks[0] + len(blocks)))
        podman.podman("rm", "-f", "-t", "0", "labelled")
        until(lambda: {one.name for one in discovery.found().components} == {"peer0"})
        podman.stop()
        until(lambda: discovery.found().problems != {})
        podman.start()
        until(lambda: discovery.found().problems == {})
        assert [one.name for one in discovery.found().components] == ["peer0"]
    finally:
        discovery.close()
        podman.podman("rm", "-fa", "-t", "0")


@pytest.mark.parametrize("section", ["podman", "containerd"])
def test_the_daemon_raises_and_puts_back(section: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    site = request.getfixturevalue(section)
    daemon = Daemon(tmp_path, site)
    del daemon.document["docker"]
    daemon.document[section] = {"socket": str(site.socket)} if section == "podman" else {"state": str(site.state)}
    made = (site.run("peer1", 10),) if section == "podman" else site.run("peer1", "peer", 10)
    # Which level is raised depends on where the host's other work is.
    hierarchy = find_hierarchy()
    group = next(hierarchy.mount.rglob(f"*{made[-1]}")).relative_to(hierarchy.mount)
    files = [hierarchy.folder(level) / hierarchy.file for level in chain(str(group))]
    before = [file.read_text() for file in files]
    try:
        daemon.start()
        until(lambda: [file.read_text() for file in files] != before)
        until(lambda: [one["cgroup"] for one in daemon.components().values()] == [str(group)])  # a status follows
        assert daemon.end() == 0, daemon.log()
        assert [file.read_text() for file in files] == before
    finally:
        site.podman("rm", "-fa", "-t", "0") if section == "podman" else site.remove(made[0])
