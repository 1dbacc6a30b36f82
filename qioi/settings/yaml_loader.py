"""YAML as it is read here: what PyYAML takes silently, or answers with an error of Python's, is refused.

The shape of a document is judged before values are made of it.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

#: The largest whole number: whoever writes one for a machine keeps to 64 bits.
LARGEST = 2**63 - 1
#: The most levels of a document, and the most values in it with its aliases written out.
DEEPEST, MOST_VALUES = 100, 100_000
#: The tag of a key ``<<``.
MERGE = "tag:yaml.org,2002:merge"
#: The tag of a key ``=``, which is a string like others.
VALUE = "tag:yaml.org,2002:value"


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

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Put merged keys before a mapping's own, and of several merges the first one's last: the last of a key counts.

        PyYAML 6.0.4 has neither order right: https://yaml.org/type/merge.html.
        """
        merged, own = [], []
        for key, value in node.value:
            if key.tag != MERGE:
                if key.tag == VALUE:
                    key.tag = self.DEFAULT_SCALAR_TAG
                own.append((key, value))
                continue
            for source in reversed(value.value if isinstance(value, yaml.SequenceNode) else [value]):
                if not isinstance(source, yaml.MappingNode):
                    raise refusal(source, f"{say(source)} is no mapping to merge")
                self.flatten_mapping(source)
                merged += source.value
        node.value = merged + own


def measure(node: yaml.Node, known: dict[int, tuple[int, int] | None]) -> tuple[int, int]:
    """Give a node's number of values, with its aliases written out, and its levels.

    ``known`` are the nodes that were measured, by id; ``None`` is one that is being measured. MarkedYAMLError: there is
    no end, or a key stands twice, of which PyYAML silently takes the last. When values are made, merged keys stand in a
    mapping, too.
    """
    if id(node) in known:
        its = known[id(node)]
        if its is None:
            raise refusal(node, "an alias stands within what it names")
        return its
    known[id(node)] = None
    if (again := repeated(node)) is not None:
        raise refusal(again, f"key {again.value!r} stands twice")
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


def repeated(node: yaml.Node) -> yaml.ScalarNode | None:
    """Find a key of a mapping that stands in it before."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    known: set[str] = set()
    for key, _ in pairs:
        if isinstance(key, yaml.ScalarNode):
            if key.value in known:
                return key
            known.add(key.value)
    return None


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
