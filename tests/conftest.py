"""Settings of the whole suite."""

import pytest
from hypothesis import settings

# How fast an example runs says nothing on a busy machine: timing never decides a test.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kills", type=int, default=10, help="how often the daemon is killed at a random moment (make test-host: 200)"
    )
