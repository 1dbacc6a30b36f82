"""Evaluate label selectors like the API's own controllers (apimachinery: LabelSelectorAsSelector)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether labels meet all of a selector's requirements; an empty one selects everything. ValueError.

    Every requirement is evaluated, so one that cannot be is found by any labels.
    """
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    met = [labels.get(key) == value for key, value in wanted.items()]
    met += [_holds(one, labels) for one in selector.get("matchExpressions") or ()]
    return all(met)


def _holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(str(requirement["key"]))
    values = requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise ValueError(f"operator {requirement['operator']!r}: accepted are In, NotIn, Exists, DoesNotExist")
