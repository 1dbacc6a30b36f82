"""The snapshot as JSON, and as the plain values that a client has of it."""

from __future__ import annotations

import json
from pathlib import Path

from toy_daemon import ToySite, peer

from qioi.controller.guard.restore import Result
from qioi.show.snapshot import encode


def test_a_document_is_what_a_client_reads_from_the_json(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}}, boost_cap=0.5)
    site.toy.used = {"": 2.0, "docker": 1.0, "docker/p": 0.1}
    site.toy.tps, site.toy.waits = {"red": 50.0}, {"peer0": (0.1, 0.9)}
    snapshot = site.run(3)
    document = snapshot.document()
    assert document["components"][0]["placement"]["groups"] == ["docker/p", "docker"]
    assert document["totals"]["writes"]["skipped"] == snapshot.totals.writes[Result.SKIPPED]


def test_a_group_whose_name_is_no_utf_8_is_sent_all_the_same() -> None:
    name = b"batch/\xff".decode(errors="surrogateescape")
    assert json.loads(encode({"group": name})) == {"group": name}
