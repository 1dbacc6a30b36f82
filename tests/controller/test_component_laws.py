"""The laws of a component, while the channels that it serves change."""

from __future__ import annotations

import pytest

from qioi.controller.component_laws import ComponentLaws
from qioi.controller.policy import Policy

RED, BLUE = Policy("red", "adaptive"), Policy("blue", "adaptive")


@pytest.mark.parametrize(
    ("served", "shares"),
    [
        ([[RED], [BLUE]], {"blue": 8000}),  # what another channel had asked for is in force: as from an earlier daemon
        ([[RED], [RED, BLUE]], {"red": 8000, "blue": 1024}),
        ([[RED], [RED, BLUE], [RED]], {"red": 8000}),
        ([[RED], [BLUE], [BLUE, RED]], {"blue": 8000, "red": 1024}),
    ],
)
def test_a_channel_that_is_served_no_more_leaves_its_share_to_those_that_are(
    served: list[list[Policy]], shares: dict[str, int]
) -> None:
    laws = ComponentLaws()
    for policies in served:
        laws.prepare(tuple(policies), 1024, 0, lambda _channel: 8000.0)
    assert laws.shares() == shares
