"""Tells which changes of a share are news to an operator.

A share moves a little in many periods. What matters is that it was raised, that its release has begun,
and that it is back where it was found; the rest is for those who look closely.
"""

from __future__ import annotations

from dataclasses import dataclass

#: A share this part above the last one that was said is news again.
RISE = 0.25
#: A share this part below it says that the release has begun.
FALL = 0.2


@dataclass(frozen=True, slots=True)
class _Said:
    """What was said of one component last: a share, and whether its release has been said too."""

    share: int
    releasing: bool = False


def _news(said: _Said | None, original: int, share: int) -> tuple[_Said | None, str | None]:
    """Take a new share in; give what is remembered from now on, and what is to be said, if anything.

    ``said`` is ``None`` while the share is where it was found.
    """
    if share == original:
        return None, "back at its default" if said else None
    if said is None:
        return _Said(share, share < original), "raised" if share > original else "lowered"
    if share > said.share * (1 + RISE):
        return _Said(share), "raised"
    if said.releasing:
        return _Said(min(said.share, share), True), None
    if share < said.share * (1 - FALL):
        return _Said(share, True), "release begun"
    return said, None


class News:
    """What was said last of the share of each group, or of each component."""

    def __init__(self) -> None:
        self._said: dict[str, _Said | None] = {}

    def of(self, name: str, original: int, share: int) -> str | None:
        """Take the new share of one of them in; give what is to be said, if anything."""
        self._said[name], what = _news(self._said.get(name), original, share)
        return what

    def forget(self, name: str) -> None:
        """Forget one that was put back or removed."""
        self._said.pop(name, None)
