"""A whole real node: etcd, API server, scheduler, controller manager, containerd and kubelet, in one folder.

:meth:`Node.close` removes all that it has made of this machine (:mod:`demo_k8s.host`). After SIGKILL its programs end
with their process, and :func:`demo_k8s.host.remove_left` removes the rest. Pods run on the host's network, so that the
host's addresses stay as they are.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path

from demo_k8s.control_plane import ControlPlane, Processes, run, until
from demo_k8s.host import LOGS, Footprint, hierarchies
from demo_k8s.images import write_image
from demo_k8s.tools import path
from qioi.processes.errors import LabError

NODE, OTHER = "node-one", "node-two"
PAUSE = "qioi.test/pause:1"
#: The image of the tests' pods.
WORK = "qioi.test/work:1"
#: Both images of a node, with what their program is told to do by default.
IMAGES = ((PAUSE, ["/program", "pause"]), (WORK, ["/program"]))
#: The pods' network: none but the host's.
LOOPBACK = json.dumps({"cniVersion": "0.4.0", "name": "lo", "type": "loopback"})

#: The one program of the tests' images: it stands in for a peer, for a hog, and for Kubernetes' pause.
PROGRAM = """package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func used() time.Duration {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func burn(d time.Duration) {
	for end := used() + d; used() < end; {
	}
}

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	go func() { <-end; os.Exit(0) }()
	if len(os.Args) < 2 || os.Args[1] == "pause" {
		select {}
	}
	if os.Args[1] == "hog" {
		for {
			burn(time.Second)
		}
	}
	// peer CHANNEL RATE [WORK]: a commit line each, after WORK ms of CPU time
	rate, _ := strconv.Atoi(os.Args[3])
	work := 2
	if len(os.Args) > 4 {
		work, _ = strconv.Atoi(os.Args[4])
	}
	for block := 1; ; block++ {
		time.Sleep(time.Second / time.Duration(rate))
		burn(time.Duration(work) * time.Millisecond)
		now := time.Now().UTC().Format("2006-01-02 15:04:05.000")
		fmt.Fprintf(os.Stderr, "%s UTC 002b INFO [kvledger] commit -> [%s] Committed block [%d] with 10 "+
			"transaction(s) in 1ms (state_validation=0ms block_and_pvtdata_commit=0ms state_commit=0ms) "+
			"commitHash=[ab]\\n", now, os.Args[2], block)
	}
}
"""


def build_program(folder: Path) -> Path:
    """Build the one program of the images."""
    source = folder / "program"
    source.mkdir()
    (source / "main.go").write_text(PROGRAM, encoding="utf-8")
    (source / "go.mod").write_text("module program\n\ngo 1.24\n", encoding="utf-8")
    run(["go", "build", "-ldflags=-s -w", "-o", "program", "."], folder=source, patience=600, CGO_ENABLED="0",
        GOFLAGS="")  # fmt: skip
    return source / "program"


def own_address() -> str:
    """Give an address of this machine that is not a loopback one: the kubelet wants such."""
    text = run(["ip", "-j", "-4", "addr", "show", "scope", "global"])
    addresses = [one["local"] for device in json.loads(text) for one in device.get("addr_info", ())]
    if not addresses:
        raise LabError("this machine has no address but loopback ones: a kubelet needs one")
    return str(addresses[0])


class Node:
    """A cluster of one node, or one more node of it ``beside`` the first. Ports from ``port`` on are used, 20 of them.

    ``tools`` holds the containerd to take, with its shim; without, it is Debian's, which has no NRI. The other node has
    containerd and kubelet of its own on the same machine: its pods' groups are below one of its own, their logs too.
    """

    def __init__(self, folder: Path, port: int, tools: Path = Path("/usr/bin"), *, beside: Node | None = None) -> None:
        self.folder = folder
        self.nri = folder / "nri"
        self._tools = tools
        self.port = port
        self.plane: ControlPlane = beside.plane if beside else ControlPlane(folder, port)
        self.name = OTHER if beside else NODE
        self.root = f"qioi-{OTHER}" if beside else ""
        self.logs = Path(f"{LOGS}-{OTHER}" if beside else LOGS)
        self._first = beside is None
        if self._first:
            for name in (NODE, OTHER):
                self.plane.add_user(f"system:node:{name}", "system:nodes")
        self.processes = Processes(folder)
        self.containerd_socket = folder / "containerd.sock"
        self._footprint = Footprint(self.name, folder, self.root, self.logs)
        self._footprint.record()

    def start(self) -> None:
        """Start everything and wait until the node is ready."""
        if self._first:
            self.plane.start()
        else:
            for hierarchy in hierarchies():
                (hierarchy / self.root).mkdir(exist_ok=True)
        address = own_address()
        self._start_containerd()
        program = build_program(self.folder)
        for name, entry in IMAGES:
            self.import_image(write_image(self.folder / "image.tar", name, {"/program": program}, entry))
        (self.folder / "kubelet.yaml").write_text(json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "address": address, "port": self.port + 5, "healthzPort": self.port + 6, "readOnlyPort": 0,
            "failSwapOn": False, "failCgroupV1": False, "cgroupDriver": "cgroupfs", "makeIPTablesUtilChains": False,
            # It can't listen on loopback alone: the API server calls it at the node's address, which may not be that.
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False},
                               "x509": {"clientCAFile": str(self.plane.ca)}},
            "authorization": {"mode": "AlwaysAllow"}, "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": f"unix://{self.containerd_socket}", "maxPods": 300,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "podLogsDir": str(self.logs), "cgroupRoot": f"/{self.root}",
            "containerLogMaxSize": "1Mi", "containerLogMonitorInterval": "3s",
            "registerNode": True, "syncFrequency": "10s", "volumePluginDir": str(self.folder / "volume-plugins"),
        }), encoding="utf-8")  # fmt: skip
        self.address = address
        self.start_kubelet()
        if self._first:
            self.plane.start_controllers()
        until(self.is_ready, "the node is ready")

    def start_kubelet(self) -> None:
        """Start the kubelet."""
        self.processes.start(
            "kubelet", [path("kubelet"), "--kubeconfig", self.plane.kubeconfig(f"system:node:{self.name}"),
                        "--config", self.folder / "kubelet.yaml", "--hostname-override", self.name,
                        "--node-ip", self.address, "--root-dir", self.folder / "kubelet",
                        "--cert-dir", self.folder / "kubelet-certificates"],
        )  # fmt: skip

    def start_containerd(self) -> None:
        """Start containerd and wait until it answers."""
        self.processes.start("containerd", [self._tools / "containerd", "--config", self.folder / "containerd.toml"],
                             PATH=f"{self._tools}:{os.environ['PATH']}")  # fmt: skip
        until(self._answers, "containerd answers")

    def is_ready(self) -> bool:
        """Whether the node is ready; raise if containerd or the kubelet has ended."""
        for name in ("containerd", "kubelet"):
            self.processes.check(name)
        return self.plane.is_node_ready(self.name)

    def _start_containerd(self) -> None:
        config = self.folder / "containerd.toml"
        (self.folder / "cni").mkdir()
        (self.folder / "cni" / "10-loopback.conf").write_text(LOOPBACK, encoding="utf-8")
        config.write_text(
            f"""version = 2
root = "{self.folder}/containerd-root"
state = "{self.folder}/containerd-state"
[grpc]
address = "{self.containerd_socket}"
[ttrpc]
address = "{self.folder}/ttrpc.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "{self.folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
Root = "{self.folder}/runc"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{self.folder}/cni"
[plugins."io.containerd.nri.v1.nri"]
socket_path = "{self.nri}/nri.sock"
plugin_path = "{self.folder}/nri-plugins"
plugin_config_path = "{self.folder}/nri-config"
""",
            encoding="utf-8",
        )
        self.start_containerd()

    def _ctr(self, *args: str | Path) -> str:
        return run([self._tools / "ctr", "-a", self.containerd_socket, "-n", "k8s.io", *args])

    def _answers(self) -> bool:
        self.processes.check("containerd")
        with contextlib.suppress(LabError):
            self._ctr("version")
            return True
        return False

    def import_image(self, archive: Path) -> None:
        """Import an image and remove its archive."""
        self._ctr("images", "import", archive)
        archive.unlink()

    def close(self) -> None:
        """End everything and remove what it made on this host. LabError names what is left."""
        with contextlib.suppress(Exception):
            if self._first and "apiserver" in self.plane.processes.running:
                self.plane.kubectl("delete", "pods,daemonsets,deployments,statefulsets,jobs", "-A", "--all",
                                   "--force", "--grace-period=0", "--wait=false")  # fmt: skip
                time.sleep(3)
        if self._first:
            self.plane.stop_controllers()
        self.processes.stop("kubelet")
        self._footprint.kill_pods()
        self.processes.close()
        if self._first:
            self.plane.processes.close()
        self._footprint.remove()
