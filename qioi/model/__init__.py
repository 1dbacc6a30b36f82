"""The plain values that the rooms of QiOi exchange. Nothing here does I/O, and nothing of ours is imported."""

from qioi.model.bounds import CEILING, DEFAULT_SHARES, MAX_SHARES, MIN_SHARES, UNBOUNDED, Bounds
from qioi.model.commits import Commit, LeaderChange
from qioi.model.components import ANYBODY, Component, Credentials, Role
from qioi.model.decisions import Decision, Working
from qioi.model.owner import OnRecord, Owner, OwnerKind
from qioi.model.readings import ChannelReading, DelayReading, Foreigner, HostLoad, Stalls

__all__ = [
    "ANYBODY",
    "CEILING",
    "DEFAULT_SHARES",
    "MAX_SHARES",
    "MIN_SHARES",
    "UNBOUNDED",
    "Bounds",
    "ChannelReading",
    "Commit",
    "Component",
    "Credentials",
    "Decision",
    "DelayReading",
    "Foreigner",
    "HostLoad",
    "LeaderChange",
    "OnRecord",
    "Owner",
    "OwnerKind",
    "Role",
    "Stalls",
    "Working",
]
