"""A node in an emulated machine whose kernel has cgroup v2 only, and whose kubelet has systemd make the groups.

etcd, API server, scheduler and controller manager run on this machine, which the guest reaches over qemu's own network;
containerd (2.1), runc and kubelet run in the guest, below its systemd. It says on its serial line, again and again,
what weights its pods' groups have.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from guest_machine import Guest, UnavailableError, command_disk
from k8s_cluster import GUESTS_HOST, ControlPlane
from k8s_node import IMAGES, LOOPBACK, PAUSE, build_program, image_archive
from k8s_pods import Pods
from k8s_tools import path
from systemd_machine import UnavailableError as NoRootError
from systemd_machine import root_file_system

GUEST, ADDRESS = "node-of-v2", "10.0.2.15"
#: Beyond those for the disks: its network, and what containerd makes root file systems with.
MODULES = ("failover", "net_failover", "virtio_net", "overlay")
#: Seconds for whatever takes seconds elsewhere: everything is emulated.
PATIENCE = 400.0

CONTAINERD = f"""version = 3
root = "/srv/containerd"
state = "/run/containerd"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = true
[plugins."io.containerd.cri.v1.runtime".cni]
conf_dir = "/opt/k8s/cni"
"""
KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "cgroupDriver": "systemd",
    "failSwapOn": False, "makeIPTablesUtilChains": False, "resolvConf": "",
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
    "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
}  # fmt: skip
#: What runs in the guest, as a service of its systemd.
COMMAND = f"""#!/bin/sh
exec >/dev/ttyS0 2>&1
export PATH=/opt/k8s:$PATH HOME=/root
mount -t tmpfs -o size=1500m none /srv
busybox ip link set lo up
busybox ip address add {ADDRESS}/24 dev eth0
busybox ip link set eth0 up
busybox ip route add default via {GUESTS_HOST}
echo "127.0.0.1 localhost" >/etc/hosts  # containerd copies both into every pod
: >>/etc/resolv.conf
systemctl start dbus.socket
containerd --config /opt/k8s/containerd.toml >/srv/containerd.log 2>&1 &
until ctr version >/dev/null 2>&1; do sleep 1; done
for image in /opt/k8s/images/*; do ctr -n k8s.io images import "$image"; done
kubelet --kubeconfig /opt/k8s/kubeconfig --config /opt/k8s/kubelet.yaml --hostname-override {GUEST} \
  --node-ip {ADDRESS} --root-dir /srv/kubelet --cert-dir /srv/kubelet-certificates >/srv/kubelet.log 2>&1 &
kubelet=$!
while kill -0 $kubelet; do
  sleep 2
  weights=
  for file in $(find /sys/fs/cgroup/kubepods.slice -name cpu.weight 2>/dev/null); do
    if read -r weight 2>/dev/null <"$file"; then weights="$weights ${{file%/cpu.weight}}=$weight"; fi
  done
  echo "weights:$weights."
  tail -q -n 1 /var/log/pods/qioi_*/qioi/*.log 2>/dev/null  # what the daemon has said last, for a test that fails
done
tail -n 40 /srv/kubelet.log
"""


@contextmanager
def node_of_v2(plane: ControlPlane, folder: Path) -> Iterator[tuple[Pods, Guest]]:
    """Boot it beside a control plane that runs, and has its token; UnavailableError where that can't be."""
    try:
        guest = Guest(root_file_system(), folder, MODULES)
    except NoRootError as error:
        raise UnavailableError(str(error)) from None
    program = build_program(folder)
    written = {
        "containerd.toml": CONTAINERD,
        "kubelet.yaml": json.dumps(KUBELET),
        "cni/10-loopback.conf": LOOPBACK,
        "kubeconfig": plane.kubeconfig(f"{GUEST}-token").read_text().replace("127.0.0.1", GUESTS_HOST)
        .replace(str(plane.ca), "/opt/k8s/ca.crt"),
    }  # fmt: skip
    files = {f"k8s/{name}": path(name) for name in ("kubelet", "containerd", "containerd-shim-runc-v2", "ctr")}
    files |= {f"k8s/{name}": Path(shutil.which(name) or "") for name in ("runc", "busybox")} | {"k8s/ca.crt": plane.ca}
    for name, text in written.items():
        file = folder / name.replace("/", "-")
        file.write_text(text)
        files[f"k8s/{name}"] = file
    for number, (name, entry) in enumerate(IMAGES):
        archive = image_archive(folder, name, {"program": program}, entry)
        files[f"k8s/images/{number}.tar"] = archive.rename(folder / f"{number}.tar")
    disk = command_disk(folder, COMMAND, files, 500)
    with guest.booted(disk, processors=2, megabytes=2560, network=True):
        yield Pods(plane, GUEST), guest


def weights(guest: Guest) -> dict[str, int]:
    """Give what the guest has said last: the weight of every group below kubepods.slice."""
    said = re.findall(r"^weights:(.*)\.$", guest.text(), re.MULTILINE)
    return {name: int(value) for name, value in re.findall(r"(\S+)=(\d+)", said[-1])} if said else {}
