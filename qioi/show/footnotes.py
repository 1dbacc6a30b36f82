"""What status and top say below their tables: whatever is not as it should be, one line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any


def footnotes(document: dict[str, Any]) -> Iterator[str]:
    """Say what is wrong with what is found, read and configured; a daemon of an older version says less."""
    for about, problem in document.get("problems", {}).items():
        yield f"{about}: {problem}"
    for one in document["sources"]:
        yield from of_source(one)
    configuration = document["configuration"]
    for problem in configuration["problems"]:
        yield f"Reload refused, the configuration from before is in force: {problem}"
    if configuration["at_next_start"]:
        yield f"Takes effect at the next start only: {', '.join(configuration['at_next_start'])}"


def raised_above(document: dict[str, Any]) -> Iterator[str]:
    """Name groups above components that are raised in their place: their own files do not show it."""
    counts: Counter[str] = Counter()
    for one in document["components"]:
        placement = one.get("placement")
        if placement and one["share"] != one["original"]:
            counts.update(group for group in placement["groups"] if group != one["cgroup"])
    for group, count in counts.items():
        yield (
            f"Raised is {group} (components in it: {count}), since foreign work runs outside of it: "
            "their shares are shown as what they come to there"
        )


def of_source(source: dict[str, Any]) -> Iterator[str]:
    """Say why a log or an endpoint tells nothing, or not all."""
    about = f"{source['kind']} of {source['component']}"
    if source["problem"]:
        yield f"{about}: {source['problem']}"
    if source.get("behind"):
        yield f"{about}: written faster than it is read: what is said of its channels lags behind"
    if source.get("lost_files"):
        yield f"{about}: {source['lost_files']} files were rotated away faster than they are read"
    skipped = source.get("skipped", {})
    if skipped and not source["commits"]:
        reasons = ", ".join(f"{count} {reason}" for reason, count in skipped.items())
        yield f"{about}: no commit is believed: passed over: {reasons}"
