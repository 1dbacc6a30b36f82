"""What a node says of the means by which it moves shares."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from k8s_objects import pod_object
from k8s_site import Site

from qioi.kubernetes.actuators import Means, Offer, nri_offer, resize_offer

NRI, NO_NRI = Offer(Means.NRI, True, "containerd"), Offer(Means.NRI, False, "no socket")
NO_RESIZE = Offer(Means.RESIZE, False, "no right")
FILES = Offer(Means.FILES, True, "cpu.shares")
NOT_ASKED_FOR = nri_offer(None, 0.0), resize_offer(False, None, 0.0)


@pytest.mark.parametrize(
    ("runtime", "works"), [("containerd v2.1.4", True), ("cri-o v1.33.0", False)], ids=["containerd", "CRI-O"]
)
def test_a_runtime_whose_records_are_not_told_is_not_taken_for_one(tmp_path: Path, runtime: str, works: bool) -> None:
    """CRI-O offers NRI at the same socket: chosen, it would do nothing, and keep requests from being moved."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "plugin.sock"))
        server.listen()
        answering = threading.Thread(target=answer, args=(server, {"ok": True, "runtime": runtime, "containers": 3}))
        answering.start()
        offer = nri_offer(str(tmp_path / "plugin.sock"), 0.0)
        answering.join()
    assert (offer.works, runtime in offer.text) == (works, True)


def answer(server: socket.socket, said: dict[str, Any]) -> None:
    connection, _ = server.accept()
    with connection, connection.makefile("rw") as stream:
        stream.readline()
        stream.write(json.dumps(said) + "\n")


@pytest.mark.parametrize(
    ("offers", "said"),
    [
        ((*NOT_ASKED_FOR, FILES), "files: cpu.shares"),
        ((NO_NRI, NOT_ASKED_FOR[1], FILES), "files: cpu.shares; not nri: no socket"),
        ((NO_NRI, NO_RESIZE, FILES), "files: cpu.shares; not nri: no socket; not resize: no right"),
        ((NRI, NO_RESIZE, FILES), "nri: containerd"),
    ],
)
def test_a_policys_status_says_why_what_is_set_up_was_not_chosen(
    tmp_path: Path, offers: tuple[Offer, ...], said: str
) -> None:
    with closing(Site(tmp_path, offers=offers)) as site:
        site.show(0.0, [pod_object("peer0", labels={"qioi.io/role": "peer"})])
        assert site.entry(0.0, site.read(0.0))["actuator"] == said
