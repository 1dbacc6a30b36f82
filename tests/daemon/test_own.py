"""What the daemon knows of its own place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qioi.daemon.own import competing, own_cgroup, why_none
from qioi.kernel.hierarchy import Hierarchy

POD, CONTAINER = "pod1f0c3b52-6b0e-4a3c-9d3a-0d7d3a9f0c11", "ab" * 32


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (f"kubepods/burstable/{POD}/{CONTAINER}", f"kubepods/burstable/{POD}"),
        (f"kubepods/{POD}/{CONTAINER}", f"kubepods/{POD}"),
        (f"kubelet/kubepods/besteffort/{POD}/{CONTAINER}", f"kubelet/kubepods/besteffort/{POD}"),
        (
            f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-{POD}.slice/cri-containerd-{CONTAINER}.scope",
            f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-{POD}.slice",
        ),
        ("system.slice/qioi.service", "system.slice/qioi.service"),
        ("docker/" + CONTAINER, "docker/" + CONTAINER),
        ("machine.slice/libpod-1.scope/container", "machine.slice/libpod-1.scope/container"),
        ("qioi", "qioi"),
    ],
)
def test_a_pods_daemon_competes_as_its_pod(group: str, expected: str) -> None:
    assert competing(group) == expected


#: Joins the group, perhaps in a namespace that begins there, and one below it, and says which group that is.
JOINS = """
import os, sys
from pathlib import Path
from qioi.daemon.own import own_cgroup
from qioi.kernel.hierarchy import find_hierarchy
hierarchy, path, below = find_hierarchy(), *sys.argv[1:]
if below:
    (hierarchy.folder(path) / below / "cgroup.procs").write_text("0")
print(own_cgroup(hierarchy))
"""


@pytest.mark.slow
@pytest.mark.parametrize("namespace", [(), ("unshare", "--cgroup")])
@pytest.mark.parametrize("below", ["", "below"])
def test_its_group_is_found_also_from_a_cgroup_namespace(
    real_group: tuple[Hierarchy, str], namespace: tuple[str, ...], below: str
) -> None:
    hierarchy, parent = real_group
    path = f"{parent}/daemon"
    folder = hierarchy.folder(path)
    (folder / below).mkdir(parents=True)
    join = ["/bin/sh", "-c", 'echo $$ > "$0"; exec "$@"', str(folder / "cgroup.procs")]
    command = [*join, *namespace, sys.executable, "-c", JOINS, path, below]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    if below:
        (folder / below).rmdir()
    assert done.stdout == "/".join(filter(None, (path, below))) + "\n"


def account_of(folder: Path, group: str) -> Path:
    (folder / "account").write_bytes(b"2:cpuset:/other\n1:cpu:/" + os.fsencode(group) + b"\n")
    return folder / "account"


@pytest.mark.parametrize("name", ["ordinary", "\udcff", "\u0085", "with:colon"])
def test_a_group_may_have_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "cgroup.procs").write_text(f"1\n{os.getpid()}\n")
    assert own_cgroup(Hierarchy(1, tmp_path), account_of(tmp_path, name)) == name


@pytest.mark.parametrize("seen", ["", "gone", "../beside"])
def test_a_group_that_no_mount_shows_is_hidden(tmp_path: Path, seen: str) -> None:
    hierarchy = Hierarchy(1, tmp_path)
    assert own_cgroup(hierarchy, account_of(tmp_path, seen)) is None
    assert why_none(hierarchy) == "a cgroup namespace hides the daemon's group: --cgroupns host shows it"


def test_it_is_looked_for_in_a_tree_that_is_deeper_than_calls_may_nest(tmp_path: Path) -> None:
    """Any user with a group of his own may make such a one; a cgroup namespace hides the way to the daemon's."""
    groups = ["a" + "/a" * depth for depth in range(sys.getrecursionlimit() + 50)]
    for group in groups:
        (tmp_path / group).mkdir()
    found = own_cgroup(Hierarchy(1, tmp_path), account_of(tmp_path, "gone"))
    for group in reversed(groups):  # pytest could not remove them
        (tmp_path / group).rmdir()
    assert found is None


def test_a_group_that_is_the_mounts_root_is_hidden_too(tmp_path: Path) -> None:
    """As under Docker, whose default on v2 is a cgroup namespace with a mount of its own."""
    hierarchy = Hierarchy(2, tmp_path)
    (tmp_path / "cgroup.procs").write_text(f"{os.getpid()}\n")
    (tmp_path / "cgroup.type").write_text("domain\n")
    (tmp_path / "account").write_text("0::/\n")
    assert own_cgroup(hierarchy, tmp_path / "account") is None
    assert why_none(hierarchy) == "a cgroup namespace hides the daemon's group: --cgroupns host shows it"


def test_where_a_mount_of_v1_begins_at_its_group_the_mount_is_to_be_the_hosts(
    real_group: tuple[Hierarchy, str],
) -> None:
    """As under Docker without a volume: it mounts the container's own group, in a cgroup namespace or not."""
    hierarchy, path = real_group
    if hierarchy.version == 2:
        pytest.skip("this host has cgroup v2")
    own = Hierarchy(1, hierarchy.folder(path))
    code = (
        "import sys; from pathlib import Path; from qioi.daemon.own import own_cgroup, why_none;"
        "from qioi.kernel.hierarchy import Hierarchy;"
        "own = Hierarchy(1, Path(sys.argv[1])); print(own_cgroup(own)); print(why_none(own))"
    )
    join = ["/bin/sh", "-c", 'echo $$ > "$0"; exec "$@"', str(own.mount / "cgroup.procs")]
    command = [*join, sys.executable, "-c", code, str(own.mount)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [
        "None",
        "the mount begins at the daemon's group: --cgroupns host -v /sys/fs/cgroup:/sys/fs/cgroup shows more",
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_the_root_group_is_none_that_has_shares(tmp_path: Path, version: int) -> None:
    hierarchy = Hierarchy(version, tmp_path)
    (tmp_path / "cgroup.procs").write_text(f"{os.getpid()}\n")
    if version == 1:
        (tmp_path / "release_agent").touch()
    assert own_cgroup(hierarchy, account_of(tmp_path, "")) is None
    assert why_none(hierarchy) == "the daemon runs in the root control group, which has no shares"
