"""Interferers: CPU-bound, memory-bound, I/O-bound and Spark neighbours of a ledger."""

from __future__ import annotations

from qioi.interference.instances import Instances
from qioi.interference.spark import Spark, spark_home
from qioi.interference.stress import StressNg, stress_binary
from qioi.interference.sysbench import Report, Sysbench, parse_reports, rates, sysbench_binary, total_over_time

__all__ = [
    "Instances",
    "Report",
    "Spark",
    "StressNg",
    "Sysbench",
    "parse_reports",
    "rates",
    "spark_home",
    "stress_binary",
    "sysbench_binary",
    "total_over_time",
]
