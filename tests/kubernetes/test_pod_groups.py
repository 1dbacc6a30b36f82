"""Where a pod's control groups are: every driver, class and runtime, as the kubelet and the runtimes name them."""

from __future__ import annotations

from pathlib import Path

import pytest

from qioi.controller.levels.placement import REWRITTEN, Levels
from qioi.kernel.hierarchy import Hierarchy
from qioi.kubernetes.cgroups import Driver, Layout, Qos, find_layout
from qioi.model.groups import chain, parent_of
from qioi.show.explain import levels as explained

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
        (Layout(Driver.CGROUPFS, "/my-root"), Qos.GUARANTEED, f"my-root/kubepods/pod{UID}"),
        (Layout(Driver.SYSTEMD, "/my-root"), Qos.GUARANTEED,
         f"my_root.slice/my_root-kubepods.slice/my_root-kubepods-pod{UNDERSCORED}.slice"),
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


@pytest.mark.parametrize("driver", Driver)
def test_a_driver_of_before_has_left_its_groups(tmp_path: Path, driver: Driver) -> None:
    """A pod keeps its uid when the kubelet's driver is changed; its containers are made anew."""
    for one in Driver:
        (tmp_path / Layout(one).container(UID, Qos.BURSTABLE, f"containerd://{one}")).mkdir(parents=True)
    assert find_layout(tmp_path, "") is None
    assert find_layout(tmp_path, "", [(UID, Qos.BURSTABLE, "containerd://other")]) is None
    running = [(UID, Qos.BURSTABLE, "containerd://other"), (UID, Qos.BURSTABLE, f"containerd://{driver}")]
    assert find_layout(tmp_path, "", running) == Layout(driver)


@pytest.mark.parametrize("root", ["", "/kubelet", "/my-root"])
@pytest.mark.parametrize("driver", Driver)
@pytest.mark.parametrize("qos", Qos)
def test_only_what_the_kubelet_rewrites_is_left_out(driver: Driver, root: str, qos: Qos) -> None:
    layout = Layout(driver, root)
    container = layout.container(UID, qos, f"containerd://{ID}")
    ours = [group for group in chain(container) if not REWRITTEN.search(group)]
    inside = [container, layout.pod(UID, qos)]
    assert [group for group in ours if group in inside] == inside
    theirs = set(chain(parent_of(layout.pod(UID, qos)))) - set(chain(parent_of(layout.pods())))
    assert not theirs.intersection(ours)  # the classes' groups, and that of all pods


#: A ledger's class, its neighbours', whether the neighbours can be met, and at which group they are.
CLASSES = [
    (Qos.GUARANTEED, Qos.GUARANTEED, True),
    (Qos.GUARANTEED, Qos.BURSTABLE, True),
    (Qos.GUARANTEED, Qos.BEST_EFFORT, True),
    (Qos.BURSTABLE, Qos.BURSTABLE, True),
    (Qos.BURSTABLE, Qos.BEST_EFFORT, False),
    (Qos.BURSTABLE, Qos.GUARANTEED, False),
    (Qos.BEST_EFFORT, Qos.BEST_EFFORT, True),
    (Qos.BEST_EFFORT, Qos.BURSTABLE, False),
    (Qos.BEST_EFFORT, Qos.GUARANTEED, False),
]


@pytest.mark.parametrize(("version", "file"), [(1, "cpu.shares"), (2, "cpu.weight")])
@pytest.mark.parametrize("driver", Driver)
@pytest.mark.parametrize(("ledger", "neighbour", "met"), CLASSES)
def test_the_level_that_matters_by_class_is_chosen_and_shown(
    tmp_path: Path, driver: Driver, version: int, file: str, ledger: Qos, neighbour: Qos, met: bool
) -> None:
    layout, hog = Layout(driver), "f" * 36
    component = layout.container(UID, ledger, f"containerd://{ID}")
    pod, beside = layout.pod(UID, ledger), layout.pod(hog, neighbour)
    used: dict[str, float] = {"": 2.0}
    for group in {*chain(component), *chain(beside)}:
        (tmp_path / group).mkdir(parents=True, exist_ok=True)
        (tmp_path / group / file).write_text("100\n")
        used[group] = 0.1 * (group in chain(component)) + 1.5 * (group in chain(beside))
    used[""] = 1.6
    placement = Levels().step(0.0, [component], used, 2, [])[component]
    assert placement.groups == (pod,)  # the innermost that is ours, either way
    assert ("which the kubelet rewrites" in placement.why) != met
    shown = {one.group: one for one in explained(Hierarchy(version, tmp_path), component, placement)}
    assert [group for group, one in shown.items() if one.acted] == [pod]
    where = next(group for group in chain(pod) if parent_of(group) in chain(beside))
    assert shown[where].foreign == pytest.approx(1.5)
    assert (where == pod) == met
    assert shown[pod].file == file
