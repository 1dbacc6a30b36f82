"""Who disturbs: interferers, as the lab and the experiments start them."""

from __future__ import annotations

from qioi.interference.sysbench import Report, Sysbench, parse_reports, rates, sysbench_binary, total_over_time

__all__ = ["Report", "Sysbench", "parse_reports", "rates", "sysbench_binary", "total_over_time"]
