"""Fabric's commit line, as a peer of 2.x writes it."""

from __future__ import annotations

from datetime import UTC, datetime


def commit_line(channel: str, block: int, transactions: int, at: datetime | None = None) -> str:
    """Give the line, with its end, of a block that was committed at that time, by default now."""
    stamp = (at or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return (
        f"{stamp} UTC 002b INFO [kvledger] commit -> [{channel}] Committed block [{block}] with {transactions} "
        "transaction(s) in 1ms (state_validation=0ms block_and_pvtdata_commit=0ms state_commit=0ms) commitHash=[ab]\n"
    )
