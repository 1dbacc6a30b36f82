"""The address families that deploy/systemd/qioi.service allows are those that the daemon asks the kernel for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import PATIENCE

from qioi.discovery.seen_containers import HERE

UNIT = Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "qioi.service"
#: The number of socket(2), by machine.
SOCKET = {"x86_64": 41, "aarch64": 198}
#: Refuses all but some families as systemd does for RestrictAddressFamilies= (seccomp(2)), and asks for addresses.
RESTRICTED = """
import ctypes, errno, struct, sys
from qioi.discovery.seen_containers import names_of_this_host
number, *families = map(int, sys.argv[1:])
LOAD, EQUAL, RETURN, ALLOW, ERRNO = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000
rows = [(LOAD, 0, 0, 0), (EQUAL, 0, len(families) + 2, number), (LOAD, 0, 0, 16)]
rows += [(EQUAL, len(families) - place, 0, family) for place, family in enumerate(families)]
rows += [(RETURN, 0, 0, ERRNO | errno.EAFNOSUPPORT), (RETURN, 0, 0, ALLOW)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
header = ctypes.create_string_buffer(struct.pack("HP", len(rows), ctypes.addressof(program)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, header, 0, 0) == 0, ctypes.get_errno()
print(*names_of_this_host())
"""
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}


def allowed() -> list[str]:
    (line,) = (one for one in UNIT.read_text().splitlines() if one.startswith("RestrictAddressFamilies="))
    return line.partition("=")[2].split()


def addresses(families: list[str]) -> set[str]:
    """Give the host's addresses, those of links among them, as a daemon knows them that may use these families only."""
    if (machine := os.uname().machine) not in SOCKET:
        pytest.skip(f"socket(2) has another number on {machine}")
    numbers = [str(number) for number in (SOCKET[machine], *(FAMILIES[family] for family in families))]
    command = [sys.executable, "-c", RESTRICTED, *numbers]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return {name for name in set(done.stdout.split()) - HERE if ":" in name}


def test_the_service_knows_the_hosts_addresses() -> None:
    assert addresses(allowed())


def test_without_netlink_it_would_know_none() -> None:
    assert not addresses([one for one in allowed() if one != "AF_NETLINK"])
