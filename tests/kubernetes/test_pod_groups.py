"""Where a pod's control groups are: every driver, class and runtime, as the kubelet and the runtimes name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from qioi.kubernetes.cgroups import Driver, Layout, Qos, find_layout

UID, ID = "0b9d3c1e-5f6a-4b7c-8d9e-0f1a2b3c4d5e", "4f1c" * 16
UNDERSCORED = UID.replace("-", "_")
SLICE = "kubepods.slice/kubepods"


@pytest.mark.parametrize(
    ("layout", "qos", "pod"),
    [
        (Layout(Driver.CGROUPFS), Qos.GUARANTEED, f"kubepods/pod{UID}"),
        (Layout(Driver.CGROUPFS), Qos.BURSTABLE, f"kubepods/burstable/pod{UID}"),
        (Layout(Driver.CGROUPFS), Qos.BEST_EFFORT, f"kubepods/besteffort/pod{UID}"),
        (Layout(Driver.CGROUPFS, "/kubelet"), Qos.BURSTABLE, f"kubelet/kubepods/burstable/pod{UID}"),
        (Layout(Driver.SYSTEMD), Qos.GUARANTEED, f"{SLICE}-pod{UNDERSCORED}.slice"),
        (Layout(Driver.SYSTEMD), Qos.BURSTABLE,
         f"{SLICE}-burstable.slice/kubepods-burstable-pod{UNDERSCORED}.slice"),
        (Layout(Driver.SYSTEMD), Qos.BEST_EFFORT,
         f"{SLICE}-besteffort.slice/kubepods-besteffort-pod{UNDERSCORED}.slice"),
        (Layout(Driver.SYSTEMD, "/kubelet"), Qos.BURSTABLE,
         "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
         f"kubelet-kubepods-burstable-pod{UNDERSCORED}.slice"),
        (Layout(Driver.SYSTEMD, "kubelet.slice"), Qos.GUARANTEED,
         f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UNDERSCORED}.slice"),
    ],
)  # fmt: skip
def test_a_pod(layout: Layout, qos: Qos, pod: str) -> None:
    assert layout.pod(UID, qos) == pod


@pytest.mark.parametrize(
    ("driver", "identity", "last"),
    [
        (Driver.CGROUPFS, f"containerd://{ID}", ID),
        (Driver.CGROUPFS, f"docker://{ID}", ID),
        (Driver.CGROUPFS, f"cri-o://{ID}", f"crio-{ID}"),
        (Driver.SYSTEMD, f"containerd://{ID}", f"cri-containerd-{ID}.scope"),
        (Driver.SYSTEMD, f"docker://{ID}", f"docker-{ID}.scope"),
        (Driver.SYSTEMD, f"cri-o://{ID}", f"crio-{ID}.scope"),
    ],
)
def test_a_container_is_in_its_pod(driver: Driver, identity: str, last: str) -> None:
    layout = Layout(driver)
    for qos in Qos:
        assert layout.container(UID, qos, identity) == f"{layout.pod(UID, qos)}/{last}"


@pytest.mark.parametrize("root", ["", "/kubelet"])
@pytest.mark.parametrize("driver", Driver)
def test_the_driver_is_seen_by_the_group_that_it_made(tmp_path: Path, driver: Driver, root: str) -> None:
    assert find_layout(tmp_path, root) is None
    (tmp_path / Layout(driver, root).pods()).mkdir(parents=True)
    assert find_layout(tmp_path, root) == Layout(driver, root)
