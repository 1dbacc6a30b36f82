"""What channels with stated numbers lack, and have to give."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from toy_tenants import period

from qioi.controller.findings.channels import look_at_all
from qioi.controller.findings.tenants import Tenants, tenants_of
from qioi.controller.laws.thresholds import Threshold
from qioi.model import ChannelReading

SOME = Tenants({"red": 0.5, "blue": -0.25, "green": 0.0, "grey": -3.0}, frozenset({"red"}))


def test_only_channels_whose_rates_and_numbers_are_known_are_tenants() -> None:
    one = replace(period(50.0, None), owed={**period(0, 0).owed, "learned": Threshold(10.0, "auto")})
    one = replace(one, channels={**one.channels, "learned": ChannelReading("learned", 5.0, 0.1)})
    stated = frozenset({"red", "blue"})
    assert tenants_of(one.owed, look_at_all(one)) == Tenants({"red": 0.5}, frozenset({"red"}), stated=stated)


@pytest.mark.parametrize(("presumed", "worst"), [((), -0.5), (("quiet",), 1.0)])
def test_a_channel_that_nobody_sends_to_lacks_nothing_beside_one_that_is_sent_to(
    presumed: tuple[str, ...], worst: float
) -> None:
    one = period(50.0, 150.0)
    channels = {**one.channels, "quiet": ChannelReading("quiet", 0.0, 60.0)}
    owed = {**one.owed, "quiet": Threshold(10.0, "configuration")}
    seen = look_at_all(replace(one, channels=channels, owed=owed), presumed)
    tenants = tenants_of(owed, seen)
    assert tenants.worst(("blue", "quiet")) == worst
    assert tenants.worst(("quiet",)) == 1.0
    assert not tenants.have_theirs(("quiet",))


def test_an_idle_channel_has_nothing_to_give() -> None:
    one = Tenants({"busy": -0.5, "idle": 0.25}, frozenset(), frozenset({"idle"}))
    assert (one.worst(("busy", "idle")), one.worst(("idle",))) == (-0.5, 0.25)


@pytest.mark.parametrize(
    ("channels", "worst"),
    [(("red",), 0.5), (("blue", "green"), 0.0), (("grey", "blue"), -0.25), (("blue", "unknown"), 1.0), ((), 1.0)],
)
def test_a_component_is_as_well_off_as_the_channel_that_lacks_most(channels: tuple[str, ...], worst: float) -> None:
    assert SOME.worst(channels) == worst
    assert SOME.have_theirs(channels) is (worst <= 0)
