"""What a node says of the means by which it moves shares."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from k8s_objects import pod_object
from k8s_site import Site

from qioi.kubernetes.actuators import Means, Offer, nri_offer, resize_offer

NRI, NO_NRI = Offer(Means.NRI, True, "containerd"), Offer(Means.NRI, False, "no socket")
NO_RESIZE = Offer(Means.RESIZE, False, "no right")
FILES = Offer(Means.FILES, True, "cpu.shares")
NOT_ASKED_FOR = nri_offer(None, 0.0), resize_offer(False, None, 0.0)


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
