"""What is different with each kind of law."""

from __future__ import annotations

from typing import get_args

import pytest

from qioi.controller.laws.adaptive import Adaptive
from qioi.controller.laws.kinds import KINDS
from qioi.controller.laws.law import Law, rest_of
from qioi.controller.laws.proportional import Proportional
from qioi.kubernetes.policies import LAWS
from qioi.model import Bounds, Role
from qioi.settings.file import PolicyConfig

BOUNDS = Bounds(1024, 8192)
OTHERS = Bounds(2048, 4096)


def test_algorithm_1_is_followed_to_the_letter() -> None:
    """By throughput alone: it needs a threshold, and nothing else says anything about what it asks for."""
    literal, adaptive = KINDS["proportional"], KINDS["adaptive"]
    for kind, yes in ((literal, True), (adaptive, False)):
        assert kind.is_literal is kind.needs_threshold is kind.takes_k is yes
        assert kind.is_prompt is kind.takes_limits is kind.follows_neighbours is not yes
    assert adaptive.roles - literal.roles == {Role.CHAINCODE, Role.SUPPORT}
    assert Role.CLIENT not in adaptive.roles


def test_a_file_and_a_cluster_s_policy_may_name_every_kind() -> None:
    literal, _ = get_args(PolicyConfig.model_fields["law"].annotation)
    assert set(get_args(literal)) == set(LAWS) == KINDS.keys()


def test_a_law_begins_at_its_default_within_its_bounds() -> None:
    for kind in KINDS.values():
        law = kind.begin(None, 512, BOUNDS, 2.0)
        assert (law.default, law.bounds, law.share, rest_of(law)) == (512, BOUNDS, 1024, 1024)
    assert KINDS["proportional"].begin(None, 1024, BOUNDS, 2.0) == Proportional(1024, 2.0, 1024, BOUNDS)


@pytest.mark.parametrize(
    ("name", "before", "share"),
    [
        ("adaptive", Adaptive.start(1024, BOUNDS).at(3000), 3000),
        ("adaptive", Adaptive.start(1024, BOUNDS).at(8192), 4096),
        ("adaptive", Proportional(3000), 2048),
        ("proportional", Proportional(3000), 2048),
        ("proportional", Adaptive.start(1024, BOUNDS).at(3000), 2048),
    ],
)
def test_a_law_goes_on_with_the_memory_of_its_own_kind(name: str, before: Law, share: float) -> None:
    law = KINDS[name].begin(before, 2048, OTHERS, 4.0)
    assert (law.default, law.bounds, law.share) == (2048, OTHERS, share)
