"""From a cgroup v2 weight back to the CPU shares that an engine must be told to arrive at it.

An engine speaks v1 shares; its runtime makes a weight of them, by one of two formulas. Sources: runc's
libcontainer/cgroups ConvertCPUSharesToCgroupV2Value up to 1.3.1; opencontainers/cgroups since runc 1.3.2.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable

from qioi.model import MAX_SHARES, MIN_SHARES

Conversion = Callable[[int], int]


def linear(shares: int) -> int:
    """Convert as runc did up to 1.3.1: 1024 shares are weight 39."""
    return 1 + (shares - 2) * 9999 // 262142


def quadratic(shares: int) -> int:
    """Convert as runc does since 1.3.2, by a curve through (2, 1), (1024, 100) and (262144, 10000)."""
    if shares <= MIN_SHARES:
        return 1
    if shares >= MAX_SHARES:
        return 10_000
    power = math.log2(shares)
    return math.ceil(10 ** ((power * power + 125 * power) / 612 - 7 / 34))


def conversion(runc: str) -> Conversion | None:
    """Choose by runc's version, such as ``1.1.5+ds1``; ``None`` for what is no version."""
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", runc)
    if found is None:
        return None
    return quadratic if tuple(int(part) for part in found.groups()) >= (1, 3, 2) else linear


def shares_for(weight: int, convert: Conversion) -> int:
    """Give the smallest share that becomes ``weight``; both formulas only rise, and leave no weight out."""
    return MIN_SHARES + bisect_left(range(MIN_SHARES, MAX_SHARES + 1), weight, key=convert)
