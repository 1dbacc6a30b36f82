"""containerd's own record of shares, changed by the NRI plugin: against a real containerd, as a kubelet uses it."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from demo_k8s.control_plane import lacking, until
from demo_k8s.tools import NRI_TOOLS
from k8s_nri import GROUP, NriSite

from qioi.controller.guard.guard import Guard
from qioi.controller.guard.journal import Journal
from qioi.controller.guard.restore import Result
from qioi.controller.levers.files import Files
from qioi.daemon.recover import recover
from qioi.discovery.nri_records import Plugin, conversion_of, nri_owner, shares_to_tell
from qioi.discovery.owners import EngineOwners
from qioi.discovery.records import NoRecordError, RecordError, RefusedError
from qioi.discovery.weights import Conversion, linear, quadratic
from qioi.kernel.hierarchy import Hierarchy, find_hierarchy
from qioi.kubernetes.actuators import NriNames
from qioi.model import Owner, OwnerKind

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def site() -> Iterator[NriSite]:
    why = lacking(list(NRI_TOOLS), ["go", "runc"])
    if why:
        pytest.skip(why)
    if find_hierarchy().version != 1:
        pytest.skip("the tests' containerd is set up for cgroup v1")
    site = NriSite(Path(tempfile.mkdtemp(prefix="qioi-nri-")))
    try:
        site.start()
        yield site
    finally:
        site.close()


class Container:
    """One container, and the guard that holds its group."""

    def __init__(self, site: NriSite, name: str, state: Path) -> None:
        self.site, self.state = site, state
        self.sandbox, self.identity = site.run(name)
        self.group = f"{GROUP}/{self.identity}"
        self.hierarchy: Hierarchy = find_hierarchy()
        self.owner = nri_owner(site.plugin.path, self.identity, "shares", 1024)

    def guard(self, owners: EngineOwners) -> Guard:
        guard = Guard(self.hierarchy, Files(self.hierarchy), Journal(self.state), owners)
        guard.hold(self.group, self.owner)
        return guard

    def shares(self) -> int:
        return int((self.hierarchy.folder(self.group) / "cpu.shares").read_text())

    def record(self) -> int:
        return self.site.plugin.shares(self.identity)


@pytest.fixture
def container(site: NriSite, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Container]:
    one = Container(site, request.node.name.replace("_", "-")[:40], tmp_path)
    yield one
    site.remove(one.sandbox)


@pytest.fixture
def owners(tmp_path: Path) -> Iterator[EngineOwners]:
    with closing(EngineOwners(find_hierarchy(), tmp_path, pause=0.05)) as owners:
        yield owners


@pytest.mark.host
@pytest.mark.slow
def test_what_is_told_outlives_what_containerd_writes_for_others(container: Container) -> None:
    site = container.site
    assert (container.record(), container.shares()) == (1024, 1024)
    (container.hierarchy.folder(container.group) / "cpu.shares").write_text("4096")
    site.update(container.identity, memory=64 * MEGABYTE)
    assert container.shares() == 1024  # the files alone: containerd knows better
    site.plugin.set_shares(container.identity, 4096)
    assert (container.record(), container.shares()) == (4096, 4096)
    site.update(container.identity, memory=32 * MEGABYTE)
    assert (container.record(), container.shares()) == (4096, 4096)


@pytest.mark.host
@pytest.mark.slow
def test_the_record_follows_the_guard_and_comes_back(container: Container, owners: EngineOwners) -> None:
    guard = container.guard(owners)
    assert [one.result for one in guard.apply({container.group: 8192})] == [Result.OK]
    until(lambda: container.record() == 8192, "containerd was told")
    container.site.update(container.identity, memory=64 * MEGABYTE)
    assert container.shares() == 8192
    assert not guard.is_foreign(container.group)
    assert [one.result for one in guard.restore()] == [Result.OK]
    assert (container.record(), container.shares()) == (1024, 1024)


@pytest.mark.host
@pytest.mark.slow
def test_what_a_kubelet_has_asked_for_since_is_left_alone(container: Container, owners: EngineOwners) -> None:
    guard = container.guard(owners)
    guard.apply({container.group: 8192})
    until(lambda: container.record() == 8192, "containerd was told")
    container.site.update(container.identity, shares=512)
    until(lambda: container.record() == 512, "the plugin has seen it")
    assert [one.result for one in guard.restore()] == [Result.FOREIGN]
    assert (container.record(), container.shares()) == (512, 512)


@pytest.mark.host
@pytest.mark.slow
def test_a_containerd_that_restarts_is_told_then(container: Container, owners: EngineOwners) -> None:
    guard = container.guard(owners)
    guard.apply({container.group: 2048})
    until(lambda: container.record() == 2048, "containerd was told")
    container.site.stop_containerd()
    until(lambda: not container.site.connected(), "the plugin has noticed")
    assert [one.result for one in guard.apply({container.group: 4096})] == [Result.OK]  # the kernel's own needs nobody
    assert container.shares() == 4096
    until(owners.problem, "it is said that the record is behind")
    container.site.start_containerd()
    until(lambda: container.record() == 4096, "containerd is told when it is back")
    until(lambda: owners.problem() is None, "all is well again")
    assert container.shares() == 4096
    guard.restore()
    assert (container.record(), container.shares()) == (1024, 1024)


@pytest.mark.host
@pytest.mark.slow
def test_a_daemon_that_died_leaves_a_journal_that_names_the_record(container: Container, owners: EngineOwners) -> None:
    container.guard(owners).apply({container.group: 8192})
    until(lambda: container.record() == 8192, "containerd was told")
    recovery = recover(container.state, container.state, container.hierarchy)
    assert recovery.clean, recovery
    assert (container.record(), container.shares()) == (1024, 1024)


@pytest.mark.host
@pytest.mark.slow
def test_a_container_that_is_gone_is_an_expected_answer(site: NriSite) -> None:
    sandbox, container = site.run("gone")
    site.remove(sandbox)
    with pytest.raises(NoRecordError, match="no such container"):
        site.plugin.set_shares(container, 2048)


def test_a_plugin_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"none.sock: No such file or directory$"):
        Plugin(str(tmp_path / "none.sock")).runtime()


def test_what_the_plugin_refuses_is_about_one_container(tmp_path: Path) -> None:
    path = tmp_path / "plugin.sock"
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with closing(connection):
                connection.recv(4096)
                connection.sendall(b'{"ok": false, "error": "containerd has not updated 12ab"}\n')

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(RefusedError, match=r"plugin.sock: containerd has not updated 12ab$"):
            Plugin(str(path)).set_shares("12ab", 2048)
        thread.join()


@pytest.mark.parametrize(
    ("version", "shares", "found", "expected"),
    [
        (1, 1024, 1024, "shares"),
        (2, 1024, linear(1024), "linear"),
        (2, 102, quadratic(102), "quadratic"),
        (2, 1024, 57, None),  # somebody has changed it before us
        (2, 2, 1, None),  # the formulas agree: it cannot be told
    ],
)
def test_the_conversion_is_told_by_what_it_has_made(
    version: int, shares: int, found: int, expected: str | None
) -> None:
    assert conversion_of(version, shares, found) == expected


def test_a_conversion_that_could_not_be_told_is_looked_for_again(tmp_path: Path) -> None:
    """In the middle of a resize request and weight are of different times."""
    hierarchy, container, group = Hierarchy(2, tmp_path), f"containerd://{'a' * 64}", tmp_path / "pod/container"
    group.mkdir(parents=True)
    names = NriNames("/run/plugin.sock", hierarchy)

    def name(request: str, shares: int) -> Owner | None:
        (group / hierarchy.file).write_text(str(linear(shares)))
        return names(container, "pod/container", request)

    assert name("2", 1024) is None
    assert name("2", 5000) is None  # this may be ours
    assert name("3", 3072) == nri_owner("/run/plugin.sock", "a" * 64, "linear", 3072)
    assert name("3", 5000) == nri_owner("/run/plugin.sock", "a" * 64, "linear", 3072)
    names.keep_only(set())
    assert name("2", 2048) == nri_owner("/run/plugin.sock", "a" * 64, "linear", 2048)


@pytest.mark.parametrize("where", ["/run/plugin.sock", "/run/before.sock"])
def test_a_container_that_was_kept_raised_has_the_name_that_it_had(where: str, tmp_path: Path) -> None:
    """Its weight is ours, and tells nothing of the runtime; the plugin may be elsewhere since."""
    hierarchy, kept, other = Hierarchy(2, tmp_path), "a" * 64, "b" * 64
    (tmp_path / "pod/container").mkdir(parents=True)
    (tmp_path / "pod/container" / hierarchy.file).write_text(str(linear(8192)))
    former = (nri_owner(where, kept, "linear", 1024), Owner(OwnerKind.DOCKER, other))
    names = NriNames("/run/plugin.sock", hierarchy, former)
    for _ in range(2):
        assert names(f"containerd://{kept}", "pod/container", "1") == nri_owner(
            "/run/plugin.sock", kept, "linear", 1024
        )
        assert names(f"containerd://{other}", "pod/container", "1") is None
        names.keep_only(set())


@pytest.mark.parametrize(
    ("value", "convert", "found", "told"),
    [
        (28, linear, 716, 716),  # 710 makes it as well, but was not there
        (82, linear, 716, 2126),
        (28, linear, 102, 710),  # resized since: what was there is no original any more
        (100, quadratic, 1024, 1024),
        (1, quadratic, 0, 2),  # of a former journal, which does not say
        (4096, int, 1024, 4096),
    ],
)
def test_the_shares_that_were_on_record_are_put_back(value: int, convert: Conversion, found: int, told: int) -> None:
    assert shares_to_tell(value, convert, found) == told
