"""Problems are said once for as long as they last, and a bounded number of them."""

from __future__ import annotations

import pytest

from qioi.controller import said
from qioi.controller.said import OVER, SaidProblems


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(said, "MOST", 4)


def say(problems: SaidProblems, now: float, *names: str) -> None:
    for name in names:
        problems.say(now, name, f"{name} is wrong")


def heard(caplog: pytest.LogCaptureFixture) -> list[str]:
    messages = [one.removesuffix(" is wrong") for one in caplog.messages]
    caplog.clear()
    return messages


FULL = "4 problems are logged: others are not, until some of these are over"


def test_a_problem_that_lasts_is_said_once_and_again_when_it_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    problems = SaidProblems()
    for second in range(int(3 * OVER)):
        say(problems, float(second), "a")
    assert heard(caplog) == ["a"]
    say(problems, 5 * OVER, "a", "b")
    assert heard(caplog) == ["a", "b"]
    problems.forget("a")
    say(problems, 5 * OVER, "a", "b")
    assert heard(caplog) == ["a"]


def test_too_many_are_said_to_be_and_the_next_ones_when_there_is_room(caplog: pytest.LogCaptureFixture) -> None:
    problems = SaidProblems()
    for second in range(3):
        say(problems, float(second), *"abcdef")
    assert heard(caplog) == ["a", "b", "c", "d", FULL]
    problems.forget("a")
    say(problems, 3.0, *"bcdef")
    assert heard(caplog) == ["e"]  # that there is no room again is no news
    say(problems, 4.0 + OVER, *"fghij")
    assert heard(caplog) == ["f", "g", "h", "i", FULL]
    say(problems, 5.0 + OVER, *"fghij")
    assert heard(caplog) == []
