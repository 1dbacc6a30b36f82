"""Loopback ports that nobody takes before a test's processes listen on them.

They are below those that the kernel gives to clients (ip_local_port_range, from 32768 on), so that no connection of
somebody else's can have one. Runs of tests beside each other keep away from each other's by names in the abstract
socket space (unix(7)), which the kernel frees when their holder ends.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

#: Between what else listens on a machine, and the clients' ports.
FIRST, LAST = 19_000, 32_000
#: So many are reserved at once.
BLOCK = 200

_kept = ExitStack()
_single: Iterator[int] = iter(())


@contextmanager
def reserved() -> Iterator[int]:
    """Have :data:`BLOCK` ports in a row; give the first."""
    for base in range(FIRST, LAST, BLOCK):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as holder:
            try:
                holder.bind(f"\0qioi-test-ports-{base}")
                for port in range(base, base + BLOCK):
                    socket.create_server(("127.0.0.1", port)).close()
            except OSError:
                continue
            yield base
            return
    raise RuntimeError(f"no {BLOCK} free ports in a row between {FIRST} and {LAST}")


def free_ports() -> int:
    """Reserve :data:`BLOCK` ports in a row until this process ends; give the first."""
    return _kept.enter_context(reserved())


def free_port() -> int:
    """Reserve one port until this process ends."""
    global _single
    if (port := next(_single, None)) is None:
        port, *more = range(first := free_ports(), first + BLOCK)
        _single = iter(more)
    return port
