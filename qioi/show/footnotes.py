"""The lines below the tables of status and top: what is not as it should be."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from qioi.model import MAX_SHARES
from qioi.show.trouble import TroubleKind

#: What is said of a trouble, by its kind: what is seen, what follows from it, and what helps.
TROUBLES = {
    TroubleKind.NO_COMMIT_LINES: (
        "its log is followed and has no line on a commit, although it works: does it log at WARN? Fabric tells commits "
        "at INFO (FABRIC_LOGGING_SPEC); a `metrics_url` tells them as well"
    ),
    TroubleKind.NEVER_COMMITS: (
        "its components work, and no commit of it was ever seen, so that they are raised on trial only: are its peers' "
        "logs the right ones, and at INFO?"
    ),
    TroubleKind.NO_THREADS: (
        "no thread is seen in its control group: either nothing runs there, or the daemon does not see the host's "
        "processes; in a container it needs `--pid host` (hostPID)"
    ),
    TroubleKind.NO_SCHEDULING: (
        "it uses CPU time, and the kernel tells nothing of its waiting (/proc/PID/schedstat): is CONFIG_SCHEDSTATS on, "
        "or the kernel parameter delayacct?"
    ),
    TroubleKind.AT_CEILING: (
        "it waits behind foreign work with all the shares that it may have: `qioi explain` says for what; a `ceiling`, "
        f"stated or not, that is below {MAX_SHARES} may be too low for it"
    ),
    TroubleKind.FOREIGN_SHARE: (
        "somebody else has changed its share, which is left alone; `qioi adopt` takes it up again"
    ),
    TroubleKind.QUOTA: "a CPU quota stops it for a part of the time, its own or one above it: no share lifts that",
    TroubleKind.BURNS: (
        "it burns CPU time without committing, so that it is not raised: a chaincode that runs away, or a process that "
        "does not belong there? The others are protected from it"
    ),
    TroubleKind.NO_EFFECT: (
        "it waits as long with its default share as with a raised one, so that its share went back: are its neighbours "
        "real-time (`chrt -p`), which come before all shares, or in a group beside which no share of it counts?"
    ),
    TroubleKind.OUTSIDE: (
        "what it waits for runs outside of the pods of its class, beside a group that the kubelet rewrites: no share "
        "of a pod's counts against that, and more of it would only be taken from other pods"
    ),
    TroubleKind.OUT_OF_REACH: (
        "it commits less than its T for want of CPUs, although its components have all that they may: T is out of "
        "reach here: lower it (`qioi threshold`), or give the ledger more CPUs"
    ),
    TroubleKind.NOTHING_OURS: "somebody else has changed the share of every component: this host protects nothing",
}


def trouble(document: dict[str, Any]) -> str:
    """Say what one trouble is."""
    return f"{document['about'] or 'host'}: not protected: {TROUBLES[TroubleKind(document['kind'])]}"


def no_longer(document: dict[str, Any]) -> str:
    """Say of one trouble that it is no more, which may be because there is a worse one: by what was seen alone."""
    seen = re.split("[:;] ", TROUBLES[TroubleKind(document["kind"])], maxsplit=1)[0]
    return f"{document['about'] or 'host'}: no longer so: {seen}"


def footnotes(document: dict[str, Any]) -> Iterator[str]:
    """Say what is wrong with what is found, read and configured; a daemon of an older version says less."""
    for one in document.get("troubles", ()):
        if one["kind"] in set(TroubleKind):  # a daemon of a later version may know more
            yield trouble(one)
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
            f"Raised is {group} (components in it: {count}), since work of others runs outside of it: "
            "their shares are shown as what they come to there"
        )


def of_source(source: dict[str, Any]) -> Iterator[str]:
    """Say why a log or an endpoint tells nothing, or not all."""
    about = f"{source['kind']} of {source['component']}"
    if source["problem"]:
        yield f"{about}: {source['problem']}"
    if source.get("behind"):
        yield f"{about}: written faster than it is read: what is said of its channels lags behind"
    if source.get("skipped_bytes"):
        passed = source["skipped_bytes"] / 1e6
        yield f"{about}: {passed:.0f} MB were passed over, as it is written faster than it is read: is it at DEBUG?"
    if source.get("lost_files"):
        yield f"{about}: {source['lost_files']} files were rotated away faster than they are read"
    skipped = source.get("skipped", {})
    if skipped and not source["commits"]:
        reasons = ", ".join(f"{count} {reason}" for reason, count in skipped.items())
        yield f"{about}: no commit is believed: passed over: {reasons}"
