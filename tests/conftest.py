"""Settings of the whole suite."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from skipped import Skips

pytest_plugins = ["shared_fixtures", "toy_bus"]  # tests/support is on the path (pyproject.toml)

REPOSITORY = Path(__file__).resolve().parents[1]

# How fast an example runs says nothing on a busy machine: timing never decides a test.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Tests of this machine play several hosts, also side by side; those of the lock have a folder of their own for it.
os.environ["QIOI_HOST_LOCK"] = ""

# A shell starts what runs in the background with ctrl-C ignored, and every process below inherits that: those
# that the tests interrupt would not hear it. nohup(1) does the same with the end of a terminal.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)  # the tests themselves go on; exec(2) resets it for what they start

# A run that is ended, as by timeout(1), takes down what it has started, as one that is interrupted does.
signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--containers",
        type=int,
        default=100,
        help="how many containers come and go while the daemon runs (make test-host: 1000)",
    )
    parser.addoption(
        "--kills", type=int, default=10, help="how often the daemon is killed at a random moment (make test-host: 200)"
    )
    parser.addoption("--kills-seed", type=int, default=7, help="which random moments")
    parser.addoption("--skipped", type=Path, help="a file for the reasons why tests are not run (skipped.py prints it)")


def pytest_configure(config: pytest.Config) -> None:
    if (file := config.getoption("--skipped")) is not None:
        config.pluginmanager.register(Skips(file))


@pytest.fixture(scope="session")
def debian_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The daemon's Debian package, built as `make deb` does; alone in its folder. Tests with it have 900 s."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("no dpkg-deb here: not a Debian")
    out = tmp_path_factory.mktemp("package")
    build = [str(REPOSITORY / "deploy" / "debian" / "build.sh"), str(out)]
    subprocess.run(build, env={**os.environ, "PYTHON": sys.executable}, check=True, timeout=600)
    (package,) = out.glob("qioi_*.deb")
    return package
