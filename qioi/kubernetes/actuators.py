"""Choose the means by which a node's shares are moved, at the start, in the order of preference.

NRI: the group's file is written at once, and containerd's record of the container follows, so that containerd later
writes our value. Resize: the pod's request is changed, and the kubelet writes the shares. Files: the files of
containers' and pods' groups are written. A pod's own group, above its containers, has no record in containerd, so its
file is written with NRI too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from qioi.discovery.nri_records import Plugin, conversion_of, nri_owner
from qioi.discovery.records import RecordError
from qioi.kernel.hierarchy import Hierarchy
from qioi.kubernetes.client import Api, ApiError
from qioi.kubernetes.requests import milli, shares_of
from qioi.model import Owner, OwnerKind
from qioi.settings.kubernetes import KubernetesConfig

#: Seconds that the plugin has to start and connect: its container starts at the same time as the daemon's.
#: The API server has as many to answer: it may be away while it is upgraded.
PATIENCE = 5.0
#: The runtime that has a record of shares which the plugin can change, and the scheme of its containers' ids.
RECORDING = "containerd"
JSON = "application/json"


class Means(StrEnum):
    """The actuators, the preferred one first."""

    NRI = "nri"
    RESIZE = "resize"
    FILES = "files"


@dataclass(frozen=True, slots=True)
class Offer:
    """Whether one of the means works here, a message for people, and whether the configuration wants it.

    ``unanswered``: the API server did not say, so it has to be asked again.
    """

    means: Means
    works: bool
    text: str
    wanted: bool = True
    unanswered: bool = False

    def __str__(self) -> str:
        return f"{self.means}: {self.text}"


def offers(
    section: KubernetesConfig, api: Api | None, hierarchy: Hierarchy, patience: float = PATIENCE
) -> tuple[Offer, ...]:
    """Check all means. ``api`` is ``None`` where the API server cannot be asked."""
    nri = nri_offer(section.nri, patience)
    resize = resize_offer(section.resize, api, 0.0 if nri.works else patience)
    files = f"{hierarchy.file} of containers and pods, cgroup v{hierarchy.version} at {hierarchy.mount}"
    return nri, resize, Offer(Means.FILES, True, files)


def choose(found: Iterable[Offer]) -> Offer:
    """Give the first offer that works."""
    return next(one for one in found if one.works)


def story(found: Iterable[Offer]) -> str:
    """Say which means was chosen, and why those that are wanted and preferred to it were not."""
    found = tuple(found)
    chosen = choose(found)
    lacking = (one for one in found[: found.index(chosen)] if one.wanted)
    return "; ".join([str(chosen), *(f"not {one}" for one in lacking)])


def nri_offer(path: str | None, patience: float) -> Offer:
    """Check the plugin, and wait up to ``patience`` seconds for it to start and connect."""
    if path is None:
        return Offer(Means.NRI, False, "not configured: kubernetes.nri names the plugin's socket", wanted=False)
    deadline = time.monotonic() + patience
    while True:
        try:
            runtime = Plugin(path).runtime()
        except RecordError as error:
            if time.monotonic() >= deadline:
                return Offer(Means.NRI, False, str(error))
            time.sleep(0.2)
            continue
        if not runtime.name.startswith(RECORDING):
            return Offer(Means.NRI, False, f"{runtime.name}: the records of {RECORDING} alone are told")
        return Offer(Means.NRI, True, f"{runtime.name} by the plugin at {path}; pods' own groups by their files")


def resize_offer(wanted: bool, api: Api | None, patience: float) -> Offer:
    """Check whether the API server can resize pods and we have the right to; it has ``patience`` seconds to answer."""
    if not wanted:
        return Offer(Means.RESIZE, False, "not opted in: kubernetes.resize", wanted=False)
    if api is None:
        return Offer(Means.RESIZE, False, "the API server can't be asked")
    deadline = time.monotonic() + patience
    while True:
        try:
            lack = find_lack(api)
        except ApiError as error:
            if time.monotonic() >= deadline:
                return Offer(Means.RESIZE, False, str(error), unanswered=True)
            time.sleep(0.2)
            continue
        text = "requests of pods whose policy has resize: true; other pods by their files"
        return Offer(Means.RESIZE, lack is None, lack or text)


def find_lack(api: Api) -> str | None:
    """Say what resizing pods lacks; ``None`` if nothing. ApiError."""
    resources = api.request("get", "GET", "/api/v1", {}).get("resources") or ()
    if not any(one.get("name") == "pods/resize" for one in resources):
        return "the API server has no subresource pods/resize: it has from 1.33 on"
    refused = next((one for one in ("resize", "status") if not may_patch(api, one)), None)
    return refused and f"no right to patch pods/{refused}: see overlays/resize"


def may_patch(api: Api, subresource: str, namespace: str = "") -> bool:
    """Ask the API server whether we may patch a subresource of a namespace's pods, or of all there are. ApiError."""
    asked = {"verb": "patch", "resource": "pods", "subresource": subresource, "namespace": namespace}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
              "spec": {"resourceAttributes": asked}}  # fmt: skip
    where = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return bool(api.request("post", "POST", where, {}, review, JSON)["status"].get("allowed"))


class NriNames:
    """Names the owners of containers' shares for the plugin at ``path``; a name once given stays.

    A name contains how the runtime converts shares to weights, which is found by the original value only. Where it
    cannot be found, as in the middle of a resize, the next change of the request tries again. ``owners`` are the owners
    of groups that an earlier daemon left raised on purpose, as it named them.
    """

    def __init__(self, path: str, hierarchy: Hierarchy, owners: Iterable[Owner] = ()) -> None:
        self._path = path
        self._hierarchy = hierarchy
        #: By container. The plugin may be at another socket now.
        self._former = {one.name: replace(one, where=path) for one in owners if one.kind == OwnerKind.NRI}
        self._names: dict[str, Owner] = {}
        self._untold: dict[str, str] = {}  # by identity: the request for which the conversion was not found

    def __call__(self, identity: str, cgroup: str, request: str) -> Owner | None:
        """Name the owner by the container's identity, its group, and the CPU request that the kubelet has applied.

        ``None`` where it is not known how the runtime converts shares to weights.
        """
        scheme, _, number = identity.partition("://")
        if scheme != RECORDING:
            return None
        if number in self._former:
            self._names[identity] = self._former[number]
        if identity not in self._names and self._untold.get(identity) != request:
            try:
                found = int((self._hierarchy.folder(cgroup) / self._hierarchy.file).read_text(encoding="utf-8"))
            except (OSError, ValueError):
                return None
            shares = shares_of(milli(request) or 0)
            conversion = conversion_of(self._hierarchy.version, shares, found)
            if conversion is None:
                self._untold[identity] = request
            else:
                self._names[identity] = nri_owner(self._path, number, conversion, shares)
        return self._names.get(identity)

    def keep_only(self, identities: set[str]) -> None:
        """Forget containers that are gone."""
        self._names = {identity: name for identity, name in self._names.items() if identity in identities}
        self._untold = {identity: request for identity, request in self._untold.items() if identity in identities}
