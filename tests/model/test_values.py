"""Values that a period hands on: nobody can change one that somebody else holds."""

from __future__ import annotations

import pytest
from msgspec import Struct

import qioi.daemon.daemon  # noqa: F401 (brings in every room of the daemon's)
from qioi.model import ChannelReading

VALUES = [one for one in Struct.__subclasses__() if one.__module__.startswith("qioi.")]


def test_a_value_refuses_to_be_changed() -> None:
    reading = ChannelReading("red", 50.0, 0.1)
    with pytest.raises(AttributeError):
        reading.throughput = 60.0  # type: ignore[misc]
    assert reading == ChannelReading("red", 50.0, 0.1) != ChannelReading("red", 60.0, 0.1)


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_every_kind_of_value_is_frozen(kind: type[Struct]) -> None:
    assert kind.__struct_config__.frozen
