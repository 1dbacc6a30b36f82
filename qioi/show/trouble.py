"""States in which something is not protected though the daemon runs: their kinds."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class TroubleKind(StrEnum):
    """What is the matter."""

    NO_COMMIT_LINES = "no-commit-lines"  # a peer works, and its log has no line on a commit
    NEVER_COMMITS = "never-commits"  # a channel's components work, and no commit of it was ever seen
    NO_THREADS = "no-threads"  # no thread is seen in a component's control group
    NO_SCHEDULING = "no-scheduling"  # a component uses CPU time, and the kernel tells nothing of its scheduling
    AT_CEILING = "at-ceiling"  # a component waits behind foreign work with all the shares that it may have
    FOREIGN_SHARE = "foreign-share"  # somebody else has changed a component's share, which is left alone
    QUOTA = "quota"  # a component's CPU quota stops it, or one above it
    BURNS = "burns"  # a component takes CPU time without committing, and is not raised
    NO_EFFECT = "no-effect"  # a component waits as long with its default share as with a raised one
    OUTSIDE = "outside"  # a pod's neighbour is met at a group that the kubelet rewrites
    OUT_OF_REACH = "out-of-reach"  # a channel is below its T for want of CPUs, although its components are raised
    NOTHING_OURS = "nothing-ours"  # that holds for every component that a policy raises


class Trouble(Struct, frozen=True):
    """One of them. ``about`` is a component or a channel, and empty where it is the whole host."""

    kind: TroubleKind
    about: str
