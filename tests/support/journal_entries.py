"""Entries of a journal, as `journalctl -o export` writes them."""

from __future__ import annotations

COMMIT = (
    b"\x1b[34m2026-01-02 03:04:05.678 UTC 002b INFO\x1b[0m [kvledger] commit -> [red] Committed block [%d] with 3 "
    b"transaction(s) in 1ms (state_validation=0ms block_and_pvtdata_commit=0ms state_commit=0ms) commitHash=[ab]"
)


def entry(number: int, message: bytes, binary: bool | None = None) -> bytes:
    """Write an entry as `journalctl -o export` does."""
    head = b"__CURSOR=s=ab;i=%x\n__REALTIME_TIMESTAMP=17%014d\n_BOOT_ID=cd\n" % (number, number)
    if binary or (binary is None and (b"\n" in message or b"\x1b" in message)):
        return head + b"MESSAGE\n" + len(message).to_bytes(8, "little") + message + b"\n\n"
    return head + b"MESSAGE=" + message + b"\n\n"
