"""What is happening: log sources, commit parsers, throughput windows, scheduling delay."""

from qioi.monitor.commits.counters import Skip, SourceCounters
from qioi.monitor.commits.parser import CommitParser, Event
from qioi.monitor.commits.throughput import DEFAULT_WINDOW, Throughput
from qioi.monitor.logs.component_logs import commit_instant
from qioi.monitor.logs.source import LineReader, LogSource
from qioi.monitor.logs.tail import FileTail
from qioi.monitor.logs.wrappers import LogFormat, detect_format
from qioi.monitor.scheduler.schedstat import SchedstatReader

__all__ = [
    "DEFAULT_WINDOW",
    "CommitParser",
    "Event",
    "FileTail",
    "LineReader",
    "LogFormat",
    "LogSource",
    "SchedstatReader",
    "Skip",
    "SourceCounters",
    "Throughput",
    "commit_instant",
    "detect_format",
]
