"""Settings of the whole suite."""

import signal

import pytest
from hypothesis import settings

# How fast an example runs says nothing on a busy machine: timing never decides a test.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# A shell starts what runs in the background with ctrl-C ignored, and every process below inherits that: those
# that the tests interrupt would not hear it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
