"""Mistakes of levers: what is read and written through one kernel file or call."""

from __future__ import annotations

from mutants import Sources

of = Sources("controller", ("tests/controller/guard", "tests/controller/levers")).mutants

LEVERS = [
    *of(
        "levers/idle.py",
        ("idle: the weight is not restored", "if self._access.read(path) == self._default != value:", "if False:"),
        ("idle: another's weight is overwritten", "if self._access.read(path) == self._default != value:", "if True:"),
        (
            "idle: what was idle is held",
            "        if value == IDLE:\n            raise",
            "        if False:\n            raise",
        ),
        (
            "idle: a restore is not read back",
            "if (now := self._access.read(path)) != value:",
            "if (now := self._access.read(path)) != now:",
        ),
        ("idle: the kernel's own weight is a stranger's", "return (*ours, self._default)", "return ours"),
        (
            "idle: what can't be read is idle",
            "    except CgroupError:\n        return False\n",
            "    except CgroupError:\n        return True\n",
        ),
    ),
    *of(
        "levers/shares.py",
        ("shares: an idle group's are held", "if value < MIN_WEIGHT or (", "if False and ("),
        ("shares: a group that has the path is read as the old one", "if not kept:  # opened", "if False:  # opened"),
        (
            "shares: a stranger's file stays open",
            "                self._files.forget(file)  # else",
            "                pass  # else",
        ),
        ("shares: a file that is gone is an error", "if kept and is_gone(error):", "if False:"),
    ),
    *of(
        "levers/slices.py",
        ("slices: a thread without any has one", "if found.policy not in FAIR:", "if False:"),
        (
            "slices: the default is a value",
            "return 0 if found.slice in self._defaults else found.slice",
            "return found.slice",
        ),
        ("slices: the default never moves", "        self._defaults.add(self.default)\n", ""),
        (
            "slices: what sleeps has a slice of its own",
            "self._defaults.add(self.default)",
            "self._defaults = {self.default}",
        ),
        (
            "slices: nice is lost",
            "replace(self._scheduler.read(tid), slice=value)",
            "replace(self._scheduler.read(tid), slice=value, nice=0)",
        ),
        ("slices: what has none is held", "if value == NOT_FAIR:", "if False:"),
        ("slices: longer than the default", "if wanted >= 0.8 * default:", "if False:"),
        ("slices: a default is given", "round(2e9 * run)) | 1", "round(2e9 * run))"),
        ("slices: they move with every run", "if before is not None and", "if False and"),
    ),
    *of(
        "levers/eevdf.py",
        ("slices: flags are written that no one may", "flags & RESET_ON_FORK, nice", "flags, nice"),
        ("slices: any kernel has them", "if version >= (FIRST if early else SAFE):", "if True:"),
        (
            "slices: an ended thread is a failure",
            "ThreadGoneError if number == errno.ESRCH else SliceError",
            "SliceError",
        ),
    ),
    *of(
        "levers/groups.py",
        ("another group is written", "if GroupId(found.st_dev, found.st_ino) != identity:", "if False:"),
    ),
    *of("levers/lever.py", ("nothing is checked", "if self.identity(place) != identity:", "if False:")),
    *of("levers/files.py", ("a group that is gone is a failure", "if not os.access(folder, os.F_OK):", "if False:")),
]
