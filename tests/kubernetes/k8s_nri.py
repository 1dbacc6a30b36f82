"""A containerd that has NRI, without a kubelet, and QiOi's plugin at it: in one folder, gone afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

from demo_k8s.control_plane import Processes, until
from demo_k8s.host import CPU, kill, members, remove_groups
from demo_k8s.images import write_image
from demo_k8s.node import PAUSE, build_program
from demo_k8s.tools import path

from qioi.discovery.nri_records import Plugin
from qioi.discovery.records import RecordError

REPOSITORY = Path(__file__).parents[2]
PLUGIN = "docker.io/library/qioi-nri:0.2.0.dev0"  # the image that deploy/k8s names
GROUP = "qioi-cri-test"  # the CRI client's parent of all pods' groups


def build_plugin(folder: Path) -> Path:
    """Build the plugin as it is deployed: static."""
    target = folder / "qioi-nri"
    subprocess.run(["go", "build", "-trimpath", "-ldflags=-s -w", "-o", target, "."], check=True, timeout=600,
                   cwd=REPOSITORY / "deploy/k8s/nri", env={**os.environ, "CGO_ENABLED": "0"})  # fmt: skip
    return target


class NriSite:
    """containerd and the plugin. Pods share the host's network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "containerd.sock"
        self.processes = Processes(folder)
        self.plugin = Plugin(str(folder / "plugin.sock"))
        self._client = folder / "criclient"

    def start(self) -> None:
        client = REPOSITORY / "tests/engine/criclient"
        subprocess.run(["go", "build", "-o", self._client, "."], cwd=client, check=True, timeout=600,
                       env={**os.environ, "CGO_ENABLED": "0"})  # fmt: skip
        (self.folder / "containerd.toml").write_text(f"""version = 3
root = "{self.folder}/root"
state = "{self.folder}/state"
[grpc]
address = "{self.socket}"
[ttrpc]
address = "{self.folder}/ttrpc.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "{self.folder}/opt"
[plugins."io.containerd.nri.v1.nri"]
socket_path = "{self.folder}/nri.sock"
plugin_path = "{self.folder}/nri-plugins"
plugin_config_path = "{self.folder}/nri-config"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
conf_dir = "{self.folder}/cni"
[plugins."io.containerd.grpc.v1.cri"]
stream_server_port = "0"
""")
        self.start_plugin(build_plugin(self.folder))  # before containerd: it waits for it
        self.start_containerd()
        program = build_program(self.folder)
        archive = write_image(self.folder / "image.tar", PAUSE, {"/program": program}, ["/program"])
        self._ctr("-n", "k8s.io", "images", "import", archive)

    def start_plugin(self, binary: Path) -> None:
        self.processes.start("plugin", [binary, "-runtime", self.folder / "nri.sock", "-listen", self.plugin.path])

    def start_containerd(self) -> None:
        tools = path("containerd").parent  # its shim is beside it
        self.processes.start("containerd", [tools / "containerd", "--config", self.folder / "containerd.toml"],
                             PATH=f"{tools}:{os.environ['PATH']}")  # fmt: skip
        until(lambda: self._ctr("version", check=False), "containerd answers")
        until(self.connected, "the plugin is connected")

    def connected(self) -> bool:
        try:
            return bool(self.plugin.runtime().name)
        except RecordError:
            return False

    def stop_containerd(self) -> None:
        self.processes.stop("containerd", signal.SIGKILL)

    def run(self, pod: str) -> tuple[str, str]:
        """Start a pod of one container with 1024 shares; give the ids of its sandbox and of the container."""
        logs = self.folder / "pods" / pod
        (logs / "main").mkdir(parents=True)
        sandbox, container = self._cri("run", pod, logs, "main", PAUSE, "pause").split()
        return sandbox, container

    def update(self, container: str, *, shares: int = 0, memory: int = 0) -> None:
        """Do what a kubelet does for a resize; 0 leaves a value as it is."""
        self._cri("update", container, shares, memory)

    def remove(self, sandbox: str) -> None:
        self._cri("remove", sandbox)

    def close(self) -> None:
        kill(members([CPU / GROUP]))
        self.processes.close()
        for one in Path("/proc").glob("[0-9]*/cmdline"):  # the runtime's shims outlive it
            with contextlib.suppress(OSError):
                command = one.read_bytes()
                if b"containerd-shim" in command and str(self.socket).encode() in command:
                    os.kill(int(one.parent.name), signal.SIGKILL)
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        for mount in reversed(mounts):
            if mount.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
        remove_groups(GROUP)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _cri(self, *words: object) -> str:
        done = subprocess.run(
            [self._client, self.socket, *map(str, words)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _ctr(self, *words: object, check: bool = True) -> bool:
        command = [path("ctr"), "-a", self.socket, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done.returncode == 0
