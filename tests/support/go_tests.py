"""Run Go's tests, and write down which of them were skipped and why, which `go test` tells only where all is told.

python tests/support/go_tests.py FILE ARGUMENT…     runs `go test ARGUMENT…`; FILE is for skipped.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from skipped import write


def follow(events: Iterable[str]) -> Counter[str]:
    """Print what `go test` would have printed; count the reasons of those that were skipped."""
    said: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    reasons: Counter[str] = Counter()
    for line in events:
        if not line.startswith("{"):
            print(line, end="")  # of the build
            continue
        event = json.loads(line)
        name = event.get("Package", event.get("ImportPath", "")), event.get("Test", "")
        match event["Action"]:
            case "output" | "build-output" if not name[1]:
                if event["Output"] != "PASS\n":
                    print(event["Output"], end="", flush=True)
            case "output":
                said[name].append(event["Output"])
            case "fail":
                print(take(said, *name), end="", flush=True)
            case "skip" if name[1]:
                reasons[why(take(said, *name))] += 1
            case "pass":
                said.pop(name, None)
    return reasons


def take(said: defaultdict[tuple[str, str], list[str]], package: str, test: str) -> str:
    """Take what a test has said; without one, what all those of the package have that did not end: why it ended."""
    names = [one for one in said if one[0] == package and test in ("", one[1])]
    return "".join(line for one in names for line in said.pop(one))


def why(text: str) -> str:
    """Give a skipped test's reason: it follows the place, `file_test.go:12: reason`."""
    found = [line.split(": ", 1)[1].strip() for line in text.splitlines() if "_test.go:" in line and ": " in line]
    return found[-1] if found else "no reason given"


def main() -> int:
    file, *arguments = sys.argv[1:]
    command = ["go", "test", "-json", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reasons = follow(process.stdout)
    write(Path(file).resolve(), reasons)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
