"""The snapshot as plain values: what `dataclasses.asdict` gives, sooner."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from toy_daemon import ToySite, peer

from qioi.show.snapshot import plain


def test_it_is_taken_apart_as_asdict_does(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "docker/p")], channels={"red": {"threshold": 100}}, boost_cap=0.5)
    site.toy.used = {"": 2.0, "docker": 1.0, "docker/p": 0.1}
    site.toy.tps, site.toy.waits = {"red": 50.0}, {"peer0": (0.1, 0.9)}
    snapshot = site.run(3)
    assert snapshot.document() == asdict(snapshot)
    assert json.loads(json.dumps(snapshot.document())) == json.loads(json.dumps(asdict(snapshot)))


def test_values_of_other_kinds_stay_as_they_are(tmp_path: Path) -> None:
    assert plain({"a": (1, None, tmp_path)}) == {"a": (1, None, tmp_path)}
