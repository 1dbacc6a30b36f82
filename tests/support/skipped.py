"""What a run of tests has left out, and why: a file for each run, and the last lines of `make test`
and `make test-host` from all of theirs.

pytest writes such a file for `--skipped FILE`, tests/support/go_tests.py for Go's tests.

    python tests/support/skipped.py FOLDER     prints what the files of a folder say
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

#: Why a test was not run that a mark left out.
UNMARKED = "not part of this run: `make test-host` has them"


class Skips:
    """Counts, by reason, the tests of a run of pytest that did not run."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.reasons: Counter[str] = Counter()

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        # Those that `make test-host` leaves out itself are `make test`'s.
        self.reasons.update(UNMARKED for one in items if one.get_closest_marker("host"))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self.reasons[report.longrepr[2].removeprefix("Skipped: ")] += 1

    def pytest_sessionfinish(self) -> None:
        write(self.file, self.reasons)


def write(file: Path, reasons: Counter[str]) -> None:
    """Write how many tests were left out for each reason."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(reasons))


def lines(folder: Path) -> list[str]:
    """Say for all runs of a folder how many tests were left out for each reason, the most frequent one first."""
    total: Counter[str] = Counter()
    for file in sorted(folder.iterdir()):
        total.update(json.loads(file.read_text()))
    if not total:
        return ["== every test was run"]
    return [f"== {total.total()} tests were not run:", *(f"{count:6}  {why}" for why, count in total.most_common())]


if __name__ == "__main__":
    print("\n".join(lines(Path(sys.argv[1]))))
