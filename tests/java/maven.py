"""Compile a Java program of ours against what its pom.xml pins: Maven resolves, javac compiles.

What Maven fetches stays in its own cache (~/.m2), the classes in a folder of the test run.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

#: Pinned, as all that Maven is asked for.
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
#: The oldest Java that the sources compile with (records, `var`), and Debian 12's own.
JAVA_MINIMUM = 17
#: Seconds that one call may take. Empty caches and a slow registry: 100 MB for all programs together.
PATIENCE = 900
#: How often Maven is called where it fails or hangs: what it has fetched it keeps, so each call goes on from there.
TRIES = 3
#: A connection that says nothing for a minute is given up, not after half an hour; what a registry refuses for the
#: moment (503) is asked for again (https://maven.apache.org/wagon/wagon-providers/wagon-http/).
NETWORK = (
    "-Dmaven.wagon.rto=60000",
    "-Dmaven.wagon.http.retryHandler.count=5",
    "-Dmaven.wagon.http.serviceUnavailableRetryStrategy.class=standard",
)


class JavaMissingError(Exception):
    """A program that is needed is not there."""


@dataclass(frozen=True)
class Compiled:
    """Classes, and what they need."""

    classpath: str

    def command(self, main: str) -> list[str]:
        """Start ``main`` in a small machine: several run at once on two cores."""
        return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", self.classpath, main]


def find_java() -> None:
    """Say in one line what is missing."""
    packages = {"javac": "openjdk-17-jdk-headless", "mvn": "maven"}
    missing = [package for program, package in packages.items() if shutil.which(program) is None]
    if missing:
        raise JavaMissingError(f"Java is not all there: apt-get install {' '.join(missing)}")
    said = subprocess.run(["javac", "-version"], capture_output=True, text=True, check=True).stdout
    version = said.split()[-1]
    if int(version.split(".")[0]) < JAVA_MINIMUM:
        raise JavaMissingError(f"javac is {version}; {JAVA_MINIMUM} or newer is accepted (openjdk-17-jdk-headless)")


def compile_program(project: Path, folder: Path) -> Compiled:
    """Resolve ``project``/pom.xml and compile ``project``/src into ``folder``."""
    folder.mkdir(parents=True)
    listed, classes = folder / "classpath", folder / "classes"
    _resolve(["mvn", "-q", "-B", *NETWORK, "-f", str(project / "pom.xml"), PLUGIN, f"-Dmdep.outputFile={listed}"])
    needed = listed.read_text().strip()
    sources = [str(source) for source in sorted((project / "src").glob("*.java"))]
    _run(["javac", "-proc:none", "-cp", needed, "-d", str(classes), *sources])
    return Compiled(f"{classes}:{needed}")


def _resolve(command: list[str]) -> None:
    for _ in range(TRIES - 1):
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            return _run(command)
        command = [*command, "-U"]  # what could not be fetched is not taken for missing
    return _run(command)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, f"{' '.join(command[:2])} failed:\n{done.stdout}{done.stderr}"
