"""Java programs that a lab starts, fetched once by Maven into the user's cache, pinned by a pom file of ours."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from qioi.lab.cache import cache_directory, make_whole
from qioi.lab.site import Say, silent
from qioi.processes.errors import LabError

#: Pinned, as all that Maven is asked for.
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
#: Seconds that Maven may need for a download.
PATIENCE = 600.0


@dataclass(frozen=True, slots=True)
class Distribution:
    """What Maven fetches for one system; ``title`` and ``size`` are for messages, ``install`` names what is missing."""

    name: str
    title: str
    size: str
    pom: Path
    install: str

    def java(self) -> str:
        """Find Java, or say what installs it."""
        return self._find("java", "Java, which")

    def jars(self, *, cache: Path | None = None, say: Say = silent) -> Path:
        """Fetch what the pom pins, unless it is there, and give the folder of its jars."""
        digest = hashlib.sha256(self.pom.read_bytes()).hexdigest()[:12]
        target = (cache or cache_directory()) / "maven" / f"{self.name}-{digest}"
        if target.is_dir():
            return target
        maven = self._find("mvn", "Maven, by which")
        say(f"fetching {self.title} into {target} (Maven, {self.size}, once)")
        make_whole(target, lambda folder: self._fetch(maven, folder))
        return target

    def _find(self, program: str, spoken: str) -> str:
        found = shutil.which(program)
        if found is None:
            how = "needs" if program == "java" else "is fetched"
            raise LabError(f"{spoken} {self.title} {how}, is not installed: {self.install}")
        return found

    def _fetch(self, maven: str, folder: Path) -> None:
        scope = ["-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
        try:
            done = subprocess.run(
                [maven, "-q", "-B", "-f", str(self.pom), PLUGIN, *scope],
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise LabError(f"Maven did not fetch {self.title} within {PATIENCE:.0f} s") from None
        if done.returncode != 0:
            reason = next((line for line in done.stdout.splitlines() if "ERROR" in line), "no message")
            raise LabError(f"Maven failed (exit status {done.returncode}); the registry must be reachable: {reason}")
