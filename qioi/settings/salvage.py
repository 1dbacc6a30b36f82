"""Takes what is wrong out of a document, so that the rest is checked too and every problem is told at once."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Set
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)
Problem = Mapping[str, Any]
Place = tuple[int | str, ...]

#: A component needs all of these.
NEEDED = ("name", "role", "cgroup")


def sift(model: type[Model], document: object) -> tuple[Model | None, list[Problem], Set[Place]]:
    """Validate; give what is right of it (``None``: nothing), pydantic's errors, and the places that were left out."""
    problems: list[Problem] = []
    left_out: set[Place] = set()
    while True:
        try:
            return model.model_validate(document), problems, left_out
        except ValidationError as error:
            found = error.errors(include_url=False)
        problems = problems or list(found)
        if not isinstance(document, dict):
            return None, problems, left_out
        document = copy.deepcopy(document)
        places = {without(one["loc"]) for one in found}
        # Later items of a list are taken out first, so that the others keep their numbers.
        ordered = sorted(places, key=lambda place: [(isinstance(part, int), part) for part in place], reverse=True)
        if not all([remove(document, place) for place in ordered]):
            return None, problems, left_out
        left_out |= places


def without(place: Place) -> Place:
    """Say what is left out for a problem: in components and policies as little as can be, else the key at the top."""
    match place:
        case ("components", number, key, *_) if key not in NEEDED:
            return ("components", number, key)
        case ("components", number, *_) | ("defaults", number, *_):
            return (place[0], number)
        case ("channels", channel, key, *_):
            return ("channels", channel, key)
        case _:
            return place[:2] if place[:1] == ("channels",) else place[:1]


def remove(document: Any, place: Place) -> bool:
    """Take a value out or, if there is none, what should hold it. Say whether that was possible."""
    for end in range(len(place), 0, -1):
        inner = document
        try:
            for part in place[: end - 1]:
                inner = inner[part]
            del inner[place[end - 1]]
        except (KeyError, IndexError, TypeError):
            continue
        return True
    return False
