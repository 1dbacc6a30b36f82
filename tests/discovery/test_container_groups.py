"""A container's control group out of /proc/PID/cgroup, for every driver; and weights as runtimes make them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qioi.discovery.base import Found, join
from qioi.discovery.cgroups import NoGroupError, container_group
from qioi.discovery.weights import conversion, linear, quadratic, shares_for
from qioi.model import MAX_SHARES, MIN_SHARES, Component, Role

ID = "4f" * 32


@pytest.mark.parametrize(
    ("version", "text", "group"),
    [
        (1, f"9:name=systemd:/docker/{ID}\n3:cpu,cpuacct:/docker/{ID}\n0::/\n", f"docker/{ID}"),
        (1, f"2:cpuacct:/x\n1:cpu:/system.slice/docker-{ID}.scope\n", f"system.slice/docker-{ID}.scope"),
        (2, f"0::/system.slice/docker-{ID}.scope\n", f"system.slice/docker-{ID}.scope"),
        (2, f"0::/docker/{ID}/init.scope\n", f"docker/{ID}"),  # systemd inside the container
        (2, f"1:name=systemd:/other\n0::/my/parent/{ID}\n", f"my/parent/{ID}"),
    ],
)
def test_every_driver(tmp_path: Path, version: int, text: str, group: str) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(text)
    assert container_group(7, ID, version, tmp_path) == group
    assert container_group(8, ID, version, tmp_path) is None


@pytest.mark.parametrize(
    ("path", "container", "group"),
    [
        ("fabric-net/fabric", "fabric", "fabric-net/fabric"),
        ("default/default", "default", "default/default"),
        ("default/peer/peer", "peer", "default/peer"),  # a group of its own below
        ("peers/org1-peer/peer", "peer", "peers/org1-peer/peer"),
        ("my/peer/peer", "peer", "my/peer"),
        ("system.slice/ctr-peer.scope/init", "peer", "system.slice/ctr-peer.scope"),
        ("system.slice/peer.scope", "peer", "system.slice/peer.scope"),
        (f"kubepods/cri-{ID}/a", ID, f"kubepods/cri-{ID}"),
        (f"libpod-{ID}.scope/{ID}", ID, f"libpod-{ID}.scope"),
        ("system.slice/containerd.service", "container", None),  # its shim's, before it is in its own
        ("peers/org1", "peer", None),
    ],
)
def test_a_short_name_is_that_of_the_container_alone(
    tmp_path: Path, path: str, container: str, group: str | None
) -> None:
    """Clients of containerd give any id; the group above, which others are in, may have it in its name."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(f"0::/{path}\n")
    if group is None:
        with pytest.raises(NoGroupError, match="does not name the container"):
            container_group(7, container, 2, tmp_path, above="default")
    else:
        assert container_group(7, container, 2, tmp_path, above="default") == group


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0::/user.slice\n", "does not name the container"),
        (f"0::/../docker/{ID}\n", "cgroup namespace"),
        ("1:name=systemd:/x\n", "no control group that has the CPU controller"),
    ],
)
def test_a_group_that_cannot_be_told(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(text)
    with pytest.raises(NoGroupError, match=why):
        container_group(7, ID, 2, tmp_path)


@pytest.mark.parametrize("below", ["a\udcff", "a\u2028b", "a\x0cb", "a:b"])
def test_whatever_a_container_calls_a_group_of_its_own_does_not_hide_it(tmp_path: Path, below: str) -> None:
    """The kernel takes any byte in a name but a slash and the end of a line."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_bytes(os.fsencode(f"1:name=systemd:/{below}\n0::/docker/{ID}/{below}\n"))
    assert container_group(7, ID, 2, tmp_path) == f"docker/{ID}"


def test_known_weights() -> None:
    assert [linear(one) for one in (2, 1024, 262_144)] == [1, 39, 10_000]
    assert [quadratic(one) for one in (2, 1024, 262_144)] == [1, 100, 10_000]


@given(st.integers(1, 10_000), st.sampled_from([linear, quadratic]))
def test_every_weight_can_be_asked_for(weight: int, convert: object) -> None:
    shares = shares_for(weight, convert)  # type: ignore[arg-type]
    assert MIN_SHARES <= shares <= MAX_SHARES
    assert convert(shares) == weight  # type: ignore[operator]


@pytest.mark.parametrize(
    ("version", "formula"),
    [("1.1.5+ds1", linear), ("1.3.1", linear), ("1.3.2", quadratic), ("v1.4.0", quadratic), ("", None), ("x", None)],
)
def test_the_formula_of_a_runtime(version: str, formula: object) -> None:
    assert conversion(version) is formula


def test_who_is_named_first_wins() -> None:
    listed = Component("peer0", Role.PEER, "docker/aaa")
    same = Component("found", Role.ORDERER, "docker/aaa")
    namesake = Component("peer0", Role.PEER, "docker/bbb")
    joined = join((Found((listed,), {"red": 5.0}), Found((same, namesake), {"red": 7.0})))
    assert [(one.name, one.cgroup) for one in joined.components] == [
        ("peer0", "docker/aaa"),
        ("peer0@bbb", "docker/bbb"),
    ]
    assert joined.thresholds == {"red": 7.0}
