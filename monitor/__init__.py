"""What is happening: log sources, commit parsers, throughput windows, scheduling delay."""

from qioi.monitor.commits import CommitParser, Event, parse_line
from qioi.monitor.counters import Skip, SourceCounters
from qioi.monitor.schedstat import SchedstatReader
from qioi.monitor.source import LineReader, LogSource
from qioi.monitor.tail import FileTail
from qioi.monitor.throughput import DEFAULT_WINDOW, Throughput, commit_instant
from qioi.monitor.wrappers import LogFormat, detect_format

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
    "parse_line",
]
