"""Who serves a channel: as the roles and channels say, whatever was asked before."""

from __future__ import annotations

import pytest

from qioi.model import Component, Role
from qioi.model.serving import Serving

COMPONENTS = (
    Component("peer0", Role.PEER, "a", ("red",)),
    Component("peer1", Role.PEER, "b", ("red", "blue")),
    Component("orderer0", Role.ORDERER, "c"),  # serves every channel
    Component("orderer1", Role.ORDERER, "d", ("blue",)),
    Component("client0", Role.CLIENT, "e", ("red",)),
)


@pytest.mark.parametrize(
    ("serving", "channel", "names"),
    [
        (Serving(), "red", ("peer0", "peer1", "orderer0")),
        (Serving(), "blue", ("peer1", "orderer0", "orderer1")),
        (Serving(), "green", ("orderer0",)),
        (Serving({Role.ORDERER}), "red", ("orderer0",)),
        (Serving({Role.ORDERER}), "blue", ("orderer0", "orderer1")),
    ],
)
def test_those_of_the_roles_that_have_the_channel_or_none_serve_it(
    serving: Serving, channel: str, names: tuple[str, ...]
) -> None:
    assert serving.names(channel, COMPONENTS) == serving.names(channel, COMPONENTS) == names


def test_other_components_are_looked_through_anew() -> None:
    serving = Serving()
    assert serving.names("red", COMPONENTS) == ("peer0", "peer1", "orderer0")
    assert serving.names("red", COMPONENTS[1:]) == ("peer1", "orderer0")
    assert serving.names("red", COMPONENTS) == ("peer0", "peer1", "orderer0")
