"""A node in an emulated machine whose kernel has cgroup v2 only, and whose kubelet has systemd make the groups.

etcd, API server, scheduler and controller manager run on this machine, which the guest reaches over qemu's own network;
containerd (2.1), runc and kubelet run in the guest, below its systemd. On its serial line it takes commands, one a
line, and answers them; and it says there, again and again, what the daemon has said last.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

from demo_k8s.control_plane import GUESTS_HOST, ControlPlane, until
from demo_k8s.images import write_image
from demo_k8s.node import IMAGES, LOOPBACK, PAUSE, build_program
from demo_k8s.tools import path
from guest_machine import Guest, UnavailableError, command_disk
from k8s_node import Pods
from k8s_nri import PLUGIN, build_plugin
from systemd_machine import UnavailableError as NoRootError
from systemd_machine import root_file_system

from qioi.processes.errors import LabError

T = TypeVar("T")

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
UNIT = f"""[Service]
Environment=PATH=/opt/k8s:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
ExecStart=/opt/k8s/kubelet --kubeconfig /opt/k8s/kubeconfig --config /opt/k8s/kubelet.yaml \
  --hostname-override {GUEST} --node-ip {ADDRESS} --root-dir /srv/kubelet --cert-dir /srv/kubelet-certificates
StandardOutput=append:/srv/kubelet.log
StandardError=append:/srv/kubelet.log
"""
#: What runs in the guest, as a service of its systemd. Every line that is typed is a command.
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
cp /opt/k8s/kubelet.service /run/systemd/system
systemctl start kubelet
stty -F /dev/ttyS0 -echo
while read -r line; do sh -c "$line" </dev/null; done </dev/ttyS0 &
while :; do
  sleep 2
  tail -q -n 1 /var/log/pods/qioi_*/qioi/*.log 2>/dev/null  # what the daemon has said last, for a test that fails
done
"""


@contextmanager
def node_of_v2(plane: ControlPlane, folder: Path) -> Iterator[NodeOfV2]:
    """Boot it beside a control plane that runs, and has it for a user; UnavailableError where that can't be."""
    try:
        guest = Guest(root_file_system(), folder, MODULES)
    except NoRootError as error:
        raise UnavailableError(str(error)) from None
    program = build_program(folder)
    written = {
        "containerd.toml": CONTAINERD,
        "kubelet.yaml": json.dumps(KUBELET),
        "kubelet.service": UNIT,
        "cni/10-loopback.conf": LOOPBACK,
        "kubeconfig": plane.kubeconfig(f"system:node:{GUEST}").read_text().replace("127.0.0.1", GUESTS_HOST)
        .replace(str(plane.ca), "/opt/k8s/ca.crt"),
    }  # fmt: skip
    files = {f"k8s/{name}": path(name) for name in ("kubelet", "containerd", "containerd-shim-runc-v2", "ctr")}
    files |= {f"k8s/{name}": Path(shutil.which(name) or "") for name in ("runc", "busybox")} | {"k8s/ca.crt": plane.ca}
    for name, text in written.items():
        file = folder / name.replace("/", "-")
        file.write_text(text)
        files[f"k8s/{name}"] = file
    images = [(name, {"/program": program}, entry) for name, entry in IMAGES]
    images.append((PLUGIN, {"/qioi-nri": build_plugin(folder)}, ["/qioi-nri"]))
    for number, (name, content, entry) in enumerate(images):
        files[f"k8s/images/{number}.tar"] = write_image(folder / f"{number}.tar", name, content, entry)
    disk = command_disk(folder, COMMAND, files, 500)
    with guest.booted(disk, processors=2, megabytes=2560, network=True) as process:
        assert process.stdin is not None
        yield NodeOfV2(plane, guest, process.stdin)


class NodeOfV2(Pods):
    """Its pods, and the machine that they are on."""

    def __init__(self, plane: ControlPlane, guest: Guest, terminal: IO[bytes]) -> None:
        self.plane, self.name = plane, GUEST
        self.guest = guest
        self._terminal = terminal
        self._asked = 0

    def wait(self, happened: Callable[[], T], what: str) -> T:
        """Wait until something is true, and give it; or say what cluster and machine have to say."""
        try:
            found: T = until(happened, what, PATIENCE)
        except LabError as error:
            told = self.plane.kubectl("describe", "pods", "-A")[-3000:]
            raise AssertionError(f"{told}\n{self.guest.text()[-3000:]}") from error
        return found

    def do(self, command: str) -> str:
        """Have a shell command done in the machine; give what it printed, in one line."""
        self._asked += 1
        self._terminal.write(f'echo "did {self._asked}: $({{ {command}; }} 2>&1 | tr "\\n" " ")."\n'.encode())
        self._terminal.flush()
        done = re.compile(rf"^did {self._asked}: (.*)\.$", re.MULTILINE)
        return str(self.wait(lambda: done.search(self.guest.text()), f"done: {command}")[1]).strip()
