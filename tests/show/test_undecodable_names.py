"""A name that is no UTF-8 takes no page away, is shown escaped, and is told apart from others.

A control group's name is its maker's, who may be any user; the kernel takes any bytes but / and the line feed in it.
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from toy_daemon import ToySite, peer

from qioi.commands.explain import lines
from qioi.commands.status import show
from qioi.controller.levels.placement import Placement
from qioi.controller.slicing import SliceState
from qioi.model import Foreigner
from qioi.model.names import printable
from qioi.monitor.commits.sources import SourceState
from qioi.show.explain import explain
from qioi.show.explanation import Explanation
from qioi.show.http import RefusedError, get_json, request_json, serve_unix
from qioi.show.metrics import Meter, render
from qioi.show.publisher import Orders, Publisher
from qioi.show.snapshot import encode
from qioi.show.top import History, view

#: Two names that differ in a byte that is no UTF-8 alone.
ONE, OTHER = (os.fsdecode(b"p\xc3\xa9er-" + byte) for byte in (b"\xff", b"\xfe"))
ESCAPED = {"p\u00e9er-\\udcff", "p\u00e9er-\\udcfe"}


@pytest.fixture
def site(tmp_path: Path) -> ToySite:
    """Have a daemon that watches two components of such names, beside groups of such names."""
    site = ToySite(tmp_path, [peer(f"peer{n}", f"docker/{n}") for n in "ab"], channels={"red": {"threshold": 100}})
    site.run(2)
    names = {"peera": ONE, "peerb": OTHER}
    for name in names.values():
        site.group(name)
    components = tuple(
        replace(one, name=names[one.name], cgroup=names[one.name], placement=Placement((names[one.name],), "its own"))
        for one in site.snapshot.components
    )
    kinds = ("log", "metrics")
    site.snapshot = replace(
        site.snapshot,
        components=components,
        foreigners=tuple(Foreigner(name, 1.0) for name in names.values()),
        sources=tuple(SourceState(name, "a.log", None, 1, 1, 0, kind) for name in (ONE, OTHER) for kind in kinds),
        slices=SliceState(slices=dict.fromkeys(names.values(), 1)),
        problems={name: f"{name}: odd" for name in names.values()},
    )
    return site


def published(site: ToySite) -> Publisher:
    return Publisher(
        site.snapshot, site.hierarchy, Orders(print, lambda group: (group,), lambda name: None), lambda: 0.0
    )


def labels(page: bytes, label: str) -> set[str]:
    families = text_string_to_metric_families(page.decode())
    return {sample.labels[label] for one in families for sample in one.samples if label in sample.labels}


def test_metrics_show_them_escaped(site: ToySite) -> None:
    meter = Meter()
    meter.observe(site.snapshot)
    page = render(site.snapshot, meter)
    assert labels(page, "component") == ESCAPED
    assert labels(page, "group") == ESCAPED
    assert b"qioi_periods_total 2" in page
    ages = page[page.index(b"qioi_input_age_seconds{") :]
    assert labels(ages, "component") == ESCAPED


def test_every_page_is_answered_and_such_names_may_be_asked_for(site: ToySite, tmp_path: Path) -> None:
    publisher = published(site)
    with closing(serve_unix(tmp_path / "sock", publisher.routes())):
        document = get_json(tmp_path / "sock", "/status")
        assert [one["name"] for one in document["components"]] == [ONE, OTHER]
        assert get_json(tmp_path / "sock", "/explain", component=OTHER)["component"] == OTHER
        answer = request_json(tmp_path / "sock", "POST", "/adopt", {"component": ONE})
        assert answer["message"].startswith(f"{ONE}: nothing to take up")


@pytest.mark.parametrize(("method", "route"), [("GET", "/explain"), ("POST", "/adopt"), ("POST", "/mine")])
def test_a_refusal_names_what_is_accepted_escaped(site: ToySite, tmp_path: Path, method: str, route: str) -> None:
    with closing(serve_unix(tmp_path / "sock", published(site).routes())), pytest.raises(RefusedError) as refused:
        request_json(tmp_path / "sock", method, route, {"component": "gone", "group": "gone"})
    assert all(one in str(refused.value) for one in ESCAPED)


def test_a_terminal_shows_them_escaped(site: ToySite, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "utf-8", errors="strict"))
    document = site.snapshot.document()
    show(document)
    Console(width=140, file=sys.stdout).print(view(document, History(), 140))
    for key, text in lines(convert(get_explained(site), Explanation)):
        print(key, text)
    sys.stdout.flush()
    shown = raw.getvalue().decode()
    assert all(shown.count(one) >= 5 for one in ESCAPED)


def get_explained(site: ToySite) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(encode(explain(site.snapshot, ONE, site.hierarchy)))
    return document


NAMES = st.lists(st.sampled_from([b"a", b"\xff", b"\xfe", b"\xc3", b"\xc3\xa9"]), max_size=4).map(b"".join)


@given(NAMES, NAMES)
def test_what_is_printed_can_be_encoded_and_keeps_names_apart(one: bytes, other: bytes) -> None:
    shown = [printable(os.fsdecode(name)) for name in (one, other)]
    for text in shown:
        assert text.isprintable()
        text.encode()
    assert (shown[0] == shown[1]) == (one == other)
