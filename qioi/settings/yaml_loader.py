"""YAML as it is read here: what PyYAML takes silently, or answers with an error of Python's, is refused.

The shape of a document is judged before values are made of it.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import yaml

#: The largest whole number: whoever writes one for a machine keeps to 64 bits.
LARGEST = 2**63 - 1
#: The most levels of a document, and the most values in it with its aliases written out.
DEEPEST, MOST_VALUES = 100, 100_000


class StrictLoader(yaml.SafeLoader):
    """Refuses keys that stand twice, values that are not of their tag, and documents that never end or are too deep."""

    def get_single_node(self) -> yaml.Node | None:
        """Refuse a document by its shape, before a value is made of it."""
        node = super().get_single_node()
        if node is not None:
            measure(node, {})
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Refuse a value that its tag does not allow: PyYAML raises all kinds of errors for those."""
        try:
            value = super().construct_object(node, deep)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
            raise misfit(node) from None
        if isinstance(value, int) and abs(value) > LARGEST:
            raise refusal(node, f"{say(node)} is beyond 64 bits")
        if isinstance(value, str) and any("\ud800" <= one <= "\udfff" for one in value):
            raise refusal(node, f"{say(node)} holds half of a character")
        return value

    def construct_mapping(self, node: yaml.Node, deep: bool = False) -> dict[Any, Any]:
        """Refuse a key that stands twice: YAML says that keys are unique, PyYAML silently takes the last one."""
        if not isinstance(node, yaml.MappingNode):
            raise misfit(node)
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key in (key for key, count in Counter(keys).items() if count > 1):
            raise refusal(node, f"key {key!r} stands twice")
        return super().construct_mapping(node, deep)


def measure(node: yaml.Node, known: dict[int, tuple[int, int] | None]) -> tuple[int, int]:
    """Give a node's number of values, with its aliases written out, and its levels. MarkedYAMLError: there is no end.

    ``known`` are the nodes that were measured, by id; ``None`` is one that is being measured.
    """
    if id(node) in known:
        its = known[id(node)]
        if its is None:
            raise refusal(node, "an alias stands within what it names")
        return its
    known[id(node)] = None
    values, levels = 1, 0
    for inner in parts(node):
        its = measure(inner, known)
        values, levels = values + its[0], max(levels, its[1])
    if levels >= DEEPEST or values > MOST_VALUES:
        raise refusal(node, f"more than {DEEPEST} levels, or {MOST_VALUES:,} values with aliases written out")
    known[id(node)] = values, levels + 1
    return values, levels + 1


def parts(node: yaml.Node) -> list[yaml.Node]:
    """Give the nodes in a node."""
    if isinstance(node, yaml.MappingNode):
        return [one for pair in node.value for one in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def refusal(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    """Make the error that names a node's line."""
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


def misfit(node: yaml.Node) -> yaml.MarkedYAMLError:
    """Make the error that says that a node is not what its tag says."""
    return refusal(node, f"{say(node)} is no {node.tag.rpartition(':')[2]}")


def say(node: yaml.Node) -> str:
    """Show a scalar; of others, say what they are."""
    if isinstance(node, yaml.ScalarNode):
        return shorten(node.value)
    return "a mapping" if isinstance(node, yaml.MappingNode) else "a sequence"


def shorten(value: object) -> str:
    """Show a value in at most 60 characters."""
    try:
        text = json.dumps(value, default=str)
    except TypeError:  # YAML's keys may be dates; JSON's may not
        text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
