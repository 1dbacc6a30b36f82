"""Builds what a real Kubernetes needs and Debian does not carry, once, into a cache outside the repository.

The sources are Go modules, taken from the module proxy by the go command. Kubernetes replaces its own staging
modules, so `go install PACKAGE@VERSION` refuses it: each tool is built from a module of our own, in the cache.

    python -m demo_k8s.tools [NAME…]     builds what is missing, all tools when none is named
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(os.environ.get("QIOI_K8S_CACHE", "/var/cache/qioi-k8s"))
KUBERNETES = "v1.34.3"
HELM = "v3.19.2"
CONTAINERD = "v2.1.4"


@dataclass(frozen=True)
class Source:
    """A Go module with commands."""

    module: str
    version: str
    flags: str = ""
    replaces: str | None = None  # the staging modules' version; their names are read from the module's own go.mod

    @property
    def folder(self) -> Path:
        """The folder of the module that builds it."""
        return CACHE / "src" / f"{self.module.replace('/', '_')}@{self.version}"


def version_flags() -> str:
    """Stamp the version into the binaries: the API server and kubectl refuse to talk without one."""
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    base = "k8s.io/component-base/version"
    return (
        f"-X {base}.gitVersion={KUBERNETES} -X {base}.gitMajor={major} -X {base}.gitMinor={minor} "
        f"-X k8s.io/client-go/pkg/version.gitVersion={KUBERNETES}"
    )


K8S = Source("k8s.io/kubernetes", KUBERNETES, version_flags(), replaces=f"v0{KUBERNETES.removeprefix('v1')}")
HELM_SOURCE = Source("helm.sh/helm/v3", HELM)
CONTAINERD_SOURCE = Source("github.com/containerd/containerd/v2", CONTAINERD)

TOOLS = {
    "kube-apiserver": (K8S, "cmd/kube-apiserver"),
    "kubectl": (K8S, "cmd/kubectl"),
    "kube-scheduler": (K8S, "cmd/kube-scheduler"),
    "kube-controller-manager": (K8S, "cmd/kube-controller-manager"),
    "kubelet": (K8S, "cmd/kubelet"),
    "helm": (HELM_SOURCE, "cmd/helm"),
}
NRI_TOOLS = {
    "containerd": (CONTAINERD_SOURCE, "cmd/containerd"),
    "containerd-shim-runc-v2": (CONTAINERD_SOURCE, "cmd/containerd-shim-runc-v2"),
    "ctr": (CONTAINERD_SOURCE, "cmd/ctr"),
}
ALL = {**TOOLS, **NRI_TOOLS}


def path(name: str) -> Path:
    """Say where a tool stands once it is built."""
    source, _ = ALL[name]
    return CACHE / "bin" / source.version / name


def missing(names: Iterable[str]) -> list[str]:
    """List what is not built yet."""
    return [name for name in names if not path(name).exists()]


def go(source: Source, *args: str) -> str:
    """Run the go command in the module of our own."""
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod"}
    done = subprocess.run(["go", *args], cwd=source.folder, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{source.module}@{source.version}: go {args[0]} failed with exit code {done.returncode}")
    return done.stdout


def prepare(source: Source) -> None:
    """Make the module of our own: it requires the source and repeats its replacements."""
    if (source.folder / "go.sum").exists():
        return
    source.folder.mkdir(parents=True, exist_ok=True)
    tools = "".join(f"\t{source.module}/{package}\n" for one, package in ALL.values() if one is source)
    text = f"module build\n\ngo 1.24.0\n\ntool (\n{tools})\n\nrequire {source.module} {source.version}\n"
    (source.folder / "go.mod").write_text(text, encoding="utf-8")
    if source.replaces:
        listing = go(source, "mod", "download", "-json", f"{source.module}@{source.version}")
        own = re.search(r'"GoMod": "(.*)"', listing)
        if own is None:
            raise SystemExit(f"{source.module}@{source.version}: the go command did not say where its go.mod is")
        staged = re.findall(r"^\s*(\S+) v0\.0\.0$", Path(own[1]).read_text(encoding="utf-8"), re.MULTILINE)
        lines = "".join(f"\t{name} => {name} {source.replaces}\n" for name in staged)
        (source.folder / "go.mod").write_text(f"{text}\nreplace (\n{lines})\n", encoding="utf-8")
    go(source, "mod", "tidy")


def build(name: str) -> None:
    """Build one tool; it appears under its name only when it is whole."""
    source, package = ALL[name]
    prepare(source)
    final = path(name)
    final.parent.mkdir(parents=True, exist_ok=True)
    partial = final.with_suffix(".partial")
    go(source, "build", "-ldflags", f"-s -w {source.flags}", "-o", str(partial), f"{source.module}/{package}")
    partial.rename(final)


def main() -> None:
    """Build what was asked for."""
    wanted = sys.argv[1:] or list(ALL)
    unknown = [name for name in wanted if name not in ALL]
    if unknown:
        raise SystemExit(f"unknown tool {', '.join(unknown)}; accepted are {', '.join(ALL)}")
    for name in missing(wanted):
        print(f"== building {name} {ALL[name][0].version} into {path(name).parent} (minutes, once)", flush=True)
        build(name)


if __name__ == "__main__":
    main()
