"""containerd with its CRI, and Podman with its service of Docker's API: of the tests' own, gone afterwards."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from engine_site import LONG, EngineSite
from waiting import DIES_WITH_TEST, until

CRI_CLIENT = Path(__file__).parent / "criclient"
IMAGE = "localhost/hyperledger/fabric-peer:2.5"


def command(*words: object, check: bool = True) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=120)
    if check and done.returncode != 0:
        raise RuntimeError(f"{words[0]}: {done.stderr.strip()[-500:]}")
    return done.stdout.strip()


def processes(folder: Path) -> list[int]:
    """Find what names the folder in its command line."""
    site = EngineSite(folder)
    return site.processes()


def clear(folder: Path, *groups: str) -> None:
    """Unmount what is below the folder, and remove it and the groups."""
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        if line.split(" ")[1].startswith(f"{folder}/"):
            command("umount", line.split(" ")[1])
    for name in groups:
        for top in (*Path("/sys/fs/cgroup").glob(f"*/{name}"), Path("/sys/fs/cgroup") / name):
            for below, _, _ in os.walk(top, topdown=False):
                Path(below).rmdir()
    shutil.rmtree(folder)


class ContainerdSite:
    """containerd alone. Pods share the host's network, so that no plugin for networks is needed."""

    def __init__(self, folder: Path, writer: Path) -> None:
        self.folder, self._writer = folder, writer
        self.process: subprocess.Popen[bytes] | None = None
        self.socket = folder / "containerd.sock"
        self.state = folder / "state" / "io.containerd.runtime.v2.task"
        (folder / "containerd.toml").write_text(f"""version = 2
root = "{folder}/root"
state = "{folder}/state"
[grpc]
address = "{self.socket}"
[ttrpc]
address = "{folder}/ttrpc.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{IMAGE}"
restrict_oom_score_adj = true
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".cni]
conf_dir = "{folder}/cni"
""")

    def start(self) -> None:
        """Start it, and give it the image; whatever fails, :meth:`close` leaves nothing."""
        folder, environment = self.folder, {**os.environ, "CGO_ENABLED": "0"}
        subprocess.run(["go", "build", "-o", str(folder / "criclient"), "."], cwd=CRI_CLIENT, env=environment,
                       check=True, timeout=300)  # fmt: skip
        with (folder / "containerd.log").open("wb") as log:
            self.process = subprocess.Popen(["containerd", "--config", str(folder / "containerd.toml")],
                                            stdout=log, stderr=log, start_new_session=True)  # fmt: skip
        until(lambda: bool(command("ctr", "-a", self.socket, "version", check=False)))
        archive = folder / "image.tar"
        layer = folder / "layer"
        layer.mkdir()
        shutil.copy(self._writer, layer / "writer")
        self._archive(layer, archive)
        command("ctr", "-a", self.socket, "-n", "k8s.io", "images", "import", archive)

    def _archive(self, layer: Path, archive: Path) -> None:
        """Write an image FROM scratch in Docker's format; without arguments its program only waits, as a pause does."""
        import hashlib

        tar = self.folder / "layer.tar"
        command("tar", "-C", layer, "-cf", tar, "writer")
        digest = hashlib.sha256(tar.read_bytes()).hexdigest()
        config = {"architecture": "amd64", "os": "linux", "config": {"Entrypoint": ["/writer"], "Cmd": ["pause", "0"]},
                  "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}}  # fmt: skip
        (self.folder / "config.json").write_text(json.dumps(config))
        manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
        (self.folder / "manifest.json").write_text(json.dumps(manifest))
        command("tar", "-C", self.folder, "-cf", archive, "manifest.json", "config.json", "layer.tar")

    def run(self, pod: str, container: str, rate: int) -> tuple[str, str]:
        """Start a pod of one container, with long lines; give the ids of its sandbox and of the container."""
        logs = self.folder / "pods" / pod
        (logs / container).mkdir(parents=True)
        ids = command(self.folder / "criclient", self.socket, "run", pod, logs, container, IMAGE, "red", rate, 0, LONG)
        sandbox, made = ids.split()
        return sandbox, made

    def remove(self, sandbox: str) -> None:
        command(self.folder / "criclient", self.socket, "remove", sandbox)

    def reopen(self, container: str) -> None:
        command(self.folder / "criclient", self.socket, "reopen", container)

    def close(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
        until(lambda: not processes(self.folder))
        clear(self.folder, "qioi-cri-test")


class PodmanSite:
    """Podman, its own storage, and its service. runc, because crun refuses hosts with both cgroup versions."""

    def __init__(self, folder: Path, writer: Path) -> None:
        self.folder = folder
        self.socket = folder / "podman.sock"
        self._podman = ["podman", "--root", folder / "root", "--runroot", folder / "run", "--tmpdir", folder / "tmp",
                        "--cgroup-manager", "cgroupfs", "--events-backend", "file", "--runtime", "runc"]  # fmt: skip
        layer = folder / "layer.tar"
        command("tar", "-C", writer.parent, "-cf", layer, writer.name)
        command(*self._podman, "import", layer, IMAGE)
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        words = [*self._podman, "system", "service", "--time=0", f"unix://{self.socket}"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([*DIES_WITH_TEST, *map(str, words)], stdout=log, stderr=log)
        try:
            until(self.socket.exists)
        except AssertionError:
            self.process.kill()
            raise

    def stop(self) -> None:
        """End the service; containers have processes of their own and go on."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(60)
        self.socket.unlink(missing_ok=True)

    def run(self, name: str, rate: int, *more: str) -> str:
        # Its default limits are higher than a process without CAP_SYS_RESOURCE may set.
        limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]
        return command(*self._podman, "run", "-d", "--name", name, "--network", "none", *limits, "--log-driver",
                       "k8s-file", *more, IMAGE, "/writer", "red", rate, 0, LONG)  # fmt: skip

    def podman(self, *words: str) -> None:
        command(*self._podman, *words)

    def close(self) -> None:
        self.podman("rm", "-fa", "-t", "0")
        self.stop()
        until(lambda: not processes(self.folder))
        clear(self.folder, "libpod_parent")
