"""Which channels of one component the law ``adaptive`` answers alike, so that few of them need be asked.

A component may serve a hundred channels, and each has a law of its own. All of them see the same delays and the same
host. So laws that remember the same answer the same, if their channels are of one kind: if all that the law tells
apart in a channel is equal, except how far it is below its threshold. Of that a raise may grow with the error, and
nothing else depends on it within a kind; so where the channels with the least and the largest error get the same, all
between get it too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple

from qioi.controller.laws.adaptive import Adaptive
from qioi.controller.laws.law import ChannelSeen, Law, Seen, Verdict
from qioi.controller.laws.memory import Memory, Tuning
from qioi.controller.laws.need import BELOW, is_active, shortfall

#: A law as it stands after a period, and its verdict.
Answer = tuple[Law, Verdict]
_SURPLUS = -Tuning().surplus


class View(NamedTuple):
    """A channel as a law sees it beside its component. ``kind`` stands for all but ``error``."""

    kind: Hashable
    error: float | None


class Views:
    """The views of one period's channels."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, int] = {}

    def view(self, channel: ChannelSeen, *beside: float | None) -> View:
        """Give the view of a channel; what is ``beside`` the law tells channels apart, too."""
        throughput, threshold, silence, presumed = channel
        seen = Seen(0.0, throughput, threshold, silence, presumed=presumed)
        error = shortfall(seen)
        level = 0 if error is None else 1 if error < _SURPLUS else 2 if error <= BELOW else 3
        kind = (is_active(seen), silence is None, presumed, level, beside)
        return View(self._kinds.setdefault(kind, len(self._kinds)), error)


def answer_all(
    channels: Iterable[str], laws: Mapping[str, Law], views: Mapping[str, View], ask: Callable[[str], Answer]
) -> dict[str, Answer]:
    """Give every channel's answer; ``ask`` asks one channel's law.

    Where a channel was not asked, another one's answer stands for it: law and shares are its own, and the words are its
    own if the verdict's error is. Laws that have come to the same are one object afterwards.
    """
    same: dict[tuple[int, View], list[str]] = {}
    for channel in channels:
        key = id(laws[channel]), views[channel]
        if (known := same.get(key)) is None:
            same[key] = [channel]
        else:
            known.append(channel)
    answers: dict[str, Answer] = {}
    kinds: dict[tuple[int, Hashable], dict[float | None, list[str]]] = {}
    for (number, (kind, error)), its in same.items():
        if isinstance(laws[its[0]], Adaptive):
            kinds.setdefault((number, kind), {})[error] = its
        else:
            answers |= {channel: ask(channel) for channel in its}
    after: dict[Memory, Adaptive] = {}
    for errors in kinds.values():
        for error, (law, verdict) in answer_kind(errors, ask).items():
            if isinstance(law, Adaptive) and after.setdefault(law.memory, law) == law:
                law = after[law.memory]
            answers |= dict.fromkeys(errors[error], (law, verdict))
    return answers


def answer_kind(errors: Mapping[float | None, list[str]], ask: Callable[[str], Answer]) -> dict[float | None, Answer]:
    """Give the answers of channels of one kind with equal laws, by their errors."""
    ends = list(errors) if len(errors) < 3 else [pick(one for one in errors if one is not None) for pick in (min, max)]
    answers = {error: ask(errors[error][0]) for error in ends}
    if len(errors) > len(answers):
        (low, least), (high, most) = answers.values()
        alike = low == high and least.shares == most.shares
        for error in errors.keys() - answers.keys():
            answers[error] = (low, least) if alike else ask(errors[error][0])
    return answers
