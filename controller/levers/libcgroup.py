"""Shares through libcgroup: a thin binding to the few calls that read and write one value.

The library is loaded on use, never at import. It does not convert between v1 and v2 values, so values are in the
file's own unit. Source: libcgroup.h (2.0).
"""

from __future__ import annotations

import ctypes
import os
import threading
from ctypes import POINTER, byref, c_char_p, c_int, c_uint64, c_void_p
from typing import Final

from qioi.controller.levers.files import explain
from qioi.controller.levers.lever import Identity
from qioi.kernel.errors import CgroupError
from qioi.kernel.hierarchy import Hierarchy

#: Names under which distributions install the library: 2.x (Debian 12), 0.4x to 1.x.
SONAMES: Final = ("libcgroup.so.2", "libcgroup.so.1")
#: error.h: the real reason is in errno.
ECGOTHER: Final = 50016
#: error.h: the value is the last one of the file.
ECGEOF: Final = 50023
CONTROLLER: Final = b"cpu"


class LibcgroupMissingError(CgroupError):
    """libcgroup is not installed, or uses another hierarchy."""


class Libcgroup:
    """Access through the library. Calls are serialised, because it keeps its mount table in globals."""

    name = "libcgroup"

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._hierarchy = hierarchy
        self._lock = threading.Lock()
        self._library = load()
        self._check(self._library.cgroup_init(), "")
        self._check_mount()

    def read(self, path: str) -> int:
        """Read the weight from the value's first line. CgroupError."""
        handle = c_void_p()
        buffer = ctypes.create_string_buffer(64)
        file = self._hierarchy.file.encode()
        with self._lock:
            begin = self._library.cgroup_read_value_begin
            result = begin(CONTROLLER, os.fsencode(path), file, byref(handle), buffer, len(buffer))
            if result in (0, ECGEOF):
                self._library.cgroup_read_value_end(byref(handle))
        if result != ECGEOF:
            self._check(result, path)
        try:
            return int(buffer.value)
        except ValueError:
            raise CgroupError(f"{self._hierarchy.folder(path)}/{self._hierarchy.file}: no number") from None

    def write(self, path: str, value: int, identity: Identity) -> None:
        """Write the weight; libcgroup leaves every other value of the group as it is. CgroupError.

        The library knows a group by its path alone: one that is made anew right after the caller's check is written to.
        """
        del identity
        library = self._library
        with self._lock:
            group = library.cgroup_new_cgroup(os.fsencode(path))
            if not group:
                raise CgroupError(f"libcgroup refuses the group name {path!r}")
            try:
                controller = library.cgroup_add_controller(group, CONTROLLER)
                if not controller:
                    raise CgroupError(f"libcgroup cannot add the cpu controller to {path!r}")
                result = library.cgroup_set_value_uint64(controller, self._hierarchy.file.encode(), value)
                result = result or library.cgroup_modify_cgroup(group)
            finally:
                library.cgroup_free(byref(c_void_p(group)))
        self._check(result, path)

    def _check_mount(self) -> None:
        """Check that the library uses the same hierarchy. LibcgroupMissingError."""
        mount = c_char_p()
        self._check(self._library.cgroup_get_subsys_mount_point(CONTROLLER, byref(mount)), "")
        found = os.fsdecode(mount.value or b"")
        libc_free(mount)
        if found != str(self._hierarchy.mount):
            raise LibcgroupMissingError(f"libcgroup uses {found or 'no mount'}, not {self._hierarchy.mount}")

    def _check(self, result: int, path: str) -> None:
        """Raise, for a result that is not 0, the error that the files would raise."""
        if result == 0:
            return
        number = self._library.cgroup_get_last_errno() if result == ECGOTHER else 0
        if path and (number or not os.access(self._hierarchy.folder(path), os.F_OK)):
            raise explain(number, self._hierarchy, path)
        text = (self._library.cgroup_strerror(result) or b"").decode(errors="replace")
        raise CgroupError(f"libcgroup: {path or self._hierarchy.mount}: {text} ({result})")


def load() -> ctypes.CDLL:
    """Load the library and declare the calls that are used. LibcgroupMissingError."""
    for name in SONAMES:
        try:
            library = ctypes.CDLL(name, use_errno=True)
            break
        except OSError:
            continue
    else:
        raise LibcgroupMissingError(f"libcgroup is not installed (looked for {', '.join(SONAMES)})")
    signatures: dict[str, tuple[object, list[object]]] = {
        "cgroup_init": (c_int, []),
        "cgroup_new_cgroup": (c_void_p, [c_char_p]),
        "cgroup_add_controller": (c_void_p, [c_void_p, c_char_p]),
        "cgroup_set_value_uint64": (c_int, [c_void_p, c_char_p, c_uint64]),
        "cgroup_modify_cgroup": (c_int, [c_void_p]),
        "cgroup_free": (None, [POINTER(c_void_p)]),
        "cgroup_read_value_begin": (c_int, [c_char_p, c_char_p, c_char_p, POINTER(c_void_p), c_char_p, c_int]),
        "cgroup_read_value_end": (c_int, [POINTER(c_void_p)]),
        "cgroup_get_subsys_mount_point": (c_int, [c_char_p, POINTER(c_char_p)]),
        "cgroup_get_last_errno": (c_int, []),
        "cgroup_strerror": (c_char_p, [c_int]),
    }
    for call, (result, arguments) in signatures.items():
        function = getattr(library, call)
        function.restype, function.argtypes = result, arguments
    return library


def libc_free(pointer: ctypes.c_char_p) -> None:
    """Free memory that libcgroup allocated for its caller."""
    libc = ctypes.CDLL(None)
    libc.free.restype, libc.free.argtypes = None, [c_char_p]
    libc.free(pointer)
