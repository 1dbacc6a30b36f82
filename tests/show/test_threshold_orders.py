"""What an operator may say of a threshold, and from when on it holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_daemon import ToySite, peer

from qioi.show.publisher import Orders, Publisher, parse_threshold


def test_an_order_holds_from_the_next_period_on(tmp_path: Path) -> None:
    site = ToySite(tmp_path, [peer("peer0", "g/p")], channels={"red": {"threshold": 100}})
    site.run(1)
    orders = Orders(site.daemon.set_threshold, lambda _: None, print)
    order = Publisher(site.snapshot, site.hierarchy, orders).routes()["POST /threshold"][1]
    for tps in ("250", "300"):
        assert b"from the next period on" in order({"channel": "red", "tps": tps})
    assert site.channel().threshold == 100.0
    site.run(1)
    assert (site.channel().threshold, site.channel().source) == (300.0, "socket")


@pytest.mark.parametrize(("text", "value"), [("auto", None), ("250", 250.0), ("0.5", 0.5)])
def test_a_threshold_is_a_number_or_auto(text: str, value: float | None) -> None:
    assert parse_threshold(text) == value


@pytest.mark.parametrize("text", ["", "fast", "0", "-1", "inf", "nan"])
def test_any_other_word_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match="auto"):
        parse_threshold(text)
