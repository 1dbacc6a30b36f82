"""The configuration's section `kubernetes`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from qioi.settings.sections import File, Strict, absolute, inside_the_mount, is_web_address


def server_url(url: str) -> str:
    """Accept an API server's address, with a path where it stands behind a proxy. Queries are each request's own."""
    if not is_web_address(url) or "?" in url or "#" in url:
        raise ValueError("accepted is a URL such as https://10.96.0.1:443")
    return url.rstrip("/")


def kubelet_root(group: str) -> str:
    """Accept a kubelet's --cgroup-root, which may begin with a slash; empty or `/`: the outermost group."""
    if inner := group.strip("/"):
        inside_the_mount(inner)
    return group


class KubernetesConfig(Strict):
    """A cluster, whose pods on this node are watched. In a pod none of these keys is needed."""

    node: Annotated[str, Field(min_length=1)] | None = None  # default: $NODE_NAME
    server: Annotated[str, AfterValidator(server_url)] | None = None  # default: the pod's own
    ca: File | None = None
    token: File | None = None
    cgroup_root: Annotated[str, AfterValidator(kubelet_root)] = ""  # the kubelet's --cgroup-root
    logs: Annotated[str, AfterValidator(absolute)] = "/var/log/pods"
    nri: Annotated[str, AfterValidator(absolute)] | None = None  # the socket of our plugin, not containerd's own
    resize: bool = False  # pods' requests may be changed, where their policy wants it too
