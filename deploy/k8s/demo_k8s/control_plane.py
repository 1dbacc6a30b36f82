"""A real API server with its etcd, on loopback, in a folder of its own that is removed afterwards.

RBAC decides about rights as in any cluster; a file of static tokens names the users. The tokens are of one run: whoever
has an administrator's can start a privileged pod, and is root on this machine.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from demo_k8s.tools import missing, path
from qioi.kernel.child import mortal
from qioi.processes.errors import LabError

#: Seconds, far longer than anything takes; only a failure waits as long.
PATIENCE = 150.0
#: How a virtual machine of qemu's own network calls this machine's loopback.
GUESTS_HOST = "10.0.2.2"
ADMIN, MANAGER = "admin", "system:kube-controller-manager"


def until(happened: Callable[[], Any], what: str | Callable[[], str], patience: float = PATIENCE) -> Any:
    """Wait for something; give what it gave. LabError names it after ``patience`` seconds, as it is then."""
    deadline = time.monotonic() + patience
    while not (result := happened()):
        if time.monotonic() > deadline:
            raise LabError(f"waited {patience:g} s in vain: {what if isinstance(what, str) else what()}")
        time.sleep(0.1)
    return result


def run(
    command: Sequence[str | Path], *, folder: Path | None = None, text: str | None = None, patience: float = PATIENCE,
    fails: bool = False, **environment: str,
) -> str:  # fmt: skip
    """Run a program to its end; give what it printed (with ``fails``, its complaint). LabError says why not."""
    words = [str(part) for part in command]
    what = " ".join([Path(words[0]).name, *words[1:]])
    try:
        done = subprocess.run(words, cwd=folder, input=text, capture_output=True, text=True, timeout=patience,
                              env={**os.environ, **environment}, check=False)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise LabError(f"{what} did not end within {patience:g} s") from None
    if (done.returncode != 0) != fails:
        raise LabError(f"{what} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stderr if fails else done.stdout


def lacking(tools: Sequence[str], programs: Sequence[str]) -> str | None:
    """Say in one line why a cluster cannot be started; ``None`` if it can."""
    if os.geteuid() != 0:
        return "needs root: starts a Kubernetes API server"
    absent = [name for name in programs if shutil.which(name) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (make k8s-tools installs what Kubernetes needs)"
    unbuilt = missing(tools)
    return f"not built yet: {', '.join(unbuilt)} (make k8s-tools builds them once, in minutes)" if unbuilt else None


class Processes:
    """Programs that are started and ended here, each with a log file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: Sequence[str | Path], **environment: str) -> None:
        """Start a program in a session of its own, which ends with this thread; its output goes to ``<name>.log``."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                mortal([*map(str, command)]), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **environment}, start_new_session=True,
            )  # fmt: skip

    def stop(self, name: str, number: int = signal.SIGTERM) -> None:
        """End a program by a signal, and kill it after 20 s."""
        process = self.running.pop(name, None)
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def check(self, name: str) -> None:
        """LabError with the end of its log if a program has ended."""
        if self.running[name].poll() is not None:
            tail = (self.folder / f"{name}.log").read_text(errors="replace", encoding="utf-8")[-1500:]
            raise LabError(f"{name} has ended with {self.running[name].returncode}: {tail}")

    def close(self) -> None:
        """End all programs, the last one first."""
        for name in reversed(list(self.running)):
            self.stop(name)


class ControlPlane:
    """etcd and kube-apiserver. ``port`` and the two after it are used."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.server = f"https://127.0.0.1:{port}"
        self.processes = Processes(folder)
        self._users: dict[str, tuple[str, str]] = {}
        for user in (ADMIN, MANAGER):
            self.add_user(user, "system:masters")
        self.flags: list[str] = []

    def add_user(self, user: str, group: str) -> None:
        """Have one more user, from the next start on."""
        self._users[user] = (secrets.token_hex(), group)

    def token(self, user: str = ADMIN) -> str:
        """Give a user's token."""
        return self._users[user][0]

    @property
    def ca(self) -> Path:
        """Name the file of the certificate authority."""
        return self.folder / "ca.crt"

    @property
    def pair(self) -> tuple[Path, Path]:
        """Name the files of the API server's certificate and key: etcd and kubelet know nobody without one."""
        return self.folder / "server.crt", self.folder / "server.key"

    def start(self) -> None:
        """Start etcd and the API server, and wait until it serves."""
        self._certificates()
        self._write_tokens()
        peer, client = (f"https://127.0.0.1:{self.port + more}" for more in (2, 1))
        certificate, key = self.pair
        trust: list[str | Path] = []
        for whom in ("", "peer-"):
            trust += [f"--{whom}cert-file", certificate, f"--{whom}key-file", key, f"--{whom}trusted-ca-file", self.ca,
                      f"--{whom}client-cert-auth"]  # fmt: skip
        self.processes.start(
            "etcd", ["etcd", "--data-dir", self.folder / "etcd", "--unsafe-no-fsync", "--name", "one",
                     "--listen-client-urls", client, "--advertise-client-urls", client,
                     "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                     "--initial-cluster", f"one={peer}", *trust],
        )  # fmt: skip
        self.start_server()

    def start_server(self) -> None:
        """Start the API server."""
        keys = self.folder
        certificate, key = self.pair
        self.processes.start(
            "apiserver",
            [path("kube-apiserver"), "--etcd-servers", f"https://127.0.0.1:{self.port + 1}",
             "--etcd-cafile", self.ca, "--etcd-certfile", certificate, "--etcd-keyfile", key,
             "--secure-port", str(self.port), "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1",
             "--cert-dir", keys / "apiserver", "--tls-cert-file", certificate,
             "--tls-private-key-file", key, "--client-ca-file", self.ca,
             "--service-account-issuer", "https://kubernetes.default.svc",
             "--service-account-key-file", keys / "accounts.key",
             "--service-account-signing-key-file", keys / "accounts.key",
             "--token-auth-file", keys / "tokens.csv", "--authorization-mode", "Node,RBAC", "--allow-privileged=true",
             "--kubelet-client-certificate", certificate, "--kubelet-client-key", key,
             "--endpoint-reconciler-type", "none", "--kubelet-preferred-address-types", "InternalIP",
             "--service-cluster-ip-range", "10.96.0.0/16", "--storage-media-type", "application/json", *self.flags],
        )  # fmt: skip
        until(self.ready, "the API server is ready")

    def start_controllers(self) -> None:
        """Start controller manager and scheduler, at the ports 7 and 8 above."""
        common: list[str | Path] = ["--kubeconfig", self.kubeconfig(MANAGER), "--bind-address", "127.0.0.1",
                  "--leader-elect=false"]  # fmt: skip
        self.processes.start(
            "manager",
            [path("kube-controller-manager"), *common, "--secure-port", str(self.port + 7), "--cert-dir",
             self.folder / "manager", "--service-account-private-key-file", self.folder / "accounts.key",
             "--root-ca-file", self.ca, "--use-service-account-credentials=false",
             "--flex-volume-plugin-dir", self.folder / "volume-plugins"],
        )  # fmt: skip
        self.processes.start(
            "scheduler",
            [path("kube-scheduler"), *common, "--secure-port", str(self.port + 8), "--cert-dir",
             self.folder / "scheduler"],
        )  # fmt: skip

    def stop_controllers(self) -> None:
        """End scheduler and controller manager."""
        for name in ("scheduler", "manager"):
            self.processes.stop(name)

    def ready(self) -> bool:
        """Whether the API server says that it is ready."""
        self.processes.check("apiserver")
        try:
            return bool(self.call("GET", "/readyz", raw=True) == b"ok")
        except OSError:
            return False

    def is_node_ready(self, name: str) -> bool:
        """Whether a node is ready; raise if scheduler or controller manager has ended."""
        for program in ("manager", "scheduler"):
            self.processes.check(program)
        nodes = self.call("GET", "/api/v1/nodes")["items"]
        conditions = (c for n in nodes if n["metadata"]["name"] == name for c in n["status"].get("conditions", ()))
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def call(
        self, method: str, where: str, body: Any = None, *, raw: bool = False, kind: str = "application/json"
    ) -> Any:
        """Call the API server as an administrator; HTTPError for a refusal."""
        headers = {"Authorization": f"Bearer {self.token()}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server + where, data, headers, method=method)
        context = ssl.create_default_context(cafile=str(self.ca))
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            content = answer.read()
        return content if raw else json.loads(content)

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """Write a kubeconfig with that user's token."""
        file = self.folder / f"kubeconfig-{user.replace(':', '-')}"
        cluster = {"server": self.server, "certificate-authority": str(self.ca)}
        file.touch(0o600)
        file.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": self.token(user)}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }), encoding="utf-8")  # fmt: skip
        return file

    def kubectl(self, *args: str | Path, text: str | None = None, fails: bool = False) -> str:
        """Run kubectl; give what it printed (with ``fails``, its complaint)."""
        return run([path("kubectl"), "--kubeconfig", self.kubeconfig(), *args], text=text, fails=fails)

    def close(self) -> None:
        """End everything and remove the folder."""
        self.processes.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write_tokens(self) -> None:
        lines = [f'{token},{user},{user},"{group}"\n' for user, (token, group) in self._users.items()]
        file = self.folder / "tokens.csv"
        file.touch(0o600)
        file.write_text("".join(lines), encoding="utf-8")

    def _certificates(self) -> None:
        def openssl(*args: str) -> None:
            run(["openssl", *args], folder=self.folder)

        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=test-ca")
        openssl("req", *curve, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=kube-apiserver")
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "accounts.key")
        names = f"subjectAltName=IP:127.0.0.1,IP:{GUESTS_HOST},IP:10.96.0.1,DNS:localhost,DNS:kubernetes.default.svc\n"
        (self.folder / "names").write_text(names, encoding="utf-8")
        openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
                "-out", "server.crt", "-days", "2", "-extfile", "names")  # fmt: skip
