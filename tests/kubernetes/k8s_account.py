"""The daemon's account, with the rights that one of the installations gives it."""

from __future__ import annotations

from pathlib import Path

import yaml
from demo_k8s.control_plane import ControlPlane

from qioi.kubernetes.client import Access

K8S = Path(__file__).parents[2] / "deploy/k8s"


def account(plane: ControlPlane, installation: str, name: str, folder: Path) -> Access:
    """Be the daemon's account, as the installation makes it; its name is another, as other tests look at the base's."""
    plane.kubectl("apply", "-f", K8S / "base/namespace.yaml")
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    made = [one for one in yaml.safe_load_all(plane.kubectl("kustomize", K8S / installation))
            if one["kind"] in kinds and one["metadata"]["name"] == "qioi"]  # fmt: skip
    for one in made:
        one["metadata"]["name"] = name
        if "roleRef" in one:
            one["roleRef"]["name"] = one["subjects"][0]["name"] = name
    plane.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(made))
    answer = plane.call("POST", f"/api/v1/namespaces/qioi/serviceaccounts/{name}/token",
                        {"spec": {"expirationSeconds": 3600}})  # fmt: skip
    token = folder / "token"
    token.write_text(answer["status"]["token"])
    return Access(plane.server, plane.ca, token)
