"""What the daemon knows of its own place."""

from __future__ import annotations

import pytest

from qioi.daemon.own import competing

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
