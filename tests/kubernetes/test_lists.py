"""Lists of objects whose size a tenant chooses: they take little memory, and none ends another's."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from k8s_objects import pod_object, policy_object
from k8s_toy_server import Quiet, answering

import qioi.kubernetes.client
from qioi.kubernetes.client import PAGE, Api, ApiError, Object
from qioi.kubernetes.pods import slim
from qioi.kubernetes.policies import PATH, slim_policy

MB = 1024 * 1024
AT_HAND = {"resourceVersion": "0"}


@contextmanager
def serving(objects: list[Any]) -> Iterator[tuple[Api, list[int]]]:
    """Serve a list like an API server: what is at hand as one page. Note how many objects each answer had."""
    sent: list[int] = []

    class Answer(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
            begin = int(query.get("continue", 0))
            whole = query.get("resourceVersion") == "0" or "limit" not in query
            end = len(objects) if whole else min(begin + int(query["limit"]), len(objects))
            page = objects[begin:end]
            if "PartialObjectMetadataList" in self.headers["Accept"]:
                page = [{"metadata": one["metadata"]} for one in page]
            sent.append(len(page))
            metadata = {"resourceVersion": "7", **({"continue": str(end)} if end < len(objects) else {})}
            self.send_response(200)
            self.end_headers()
            try:
                self.wfile.write(b'{"items": [')
                for number, one in enumerate(page):
                    self.wfile.write(b", " * bool(number) + json.dumps(one).encode())
                self.wfile.write(b'], "metadata": ' + json.dumps(metadata).encode() + b"}")
            except OSError:  # the client has read enough
                pass

    with answering(Answer) as api:
        yield api, sent


def sized(number: int, size: int) -> dict[str, Any]:
    return {"metadata": {"namespace": "n", "name": f"o{number}"}, "text": "x" * size}


def names(objects: list[Object]) -> list[str]:
    return [one["metadata"]["name"] for one in objects]


@pytest.mark.parametrize(
    ("count", "size", "answers"),
    [
        (0, 0, [0]),
        (3, 10, [3]),  # what is at hand
        (PAGE + 1, 10, [PAGE + 1]),
        (3 * PAGE, 50, [3 * PAGE, PAGE, PAGE, PAGE]),  # too many at once
        (8, 5_000, [8, 8, 8, 8, 8, 6, 3, 5, 3, 2]),  # pages of PAGE, 50, 25, 12 and, twice, 6 are too large
    ],
)
def test_a_list_that_is_too_large_is_read_in_pages_that_are_not(
    count: int, size: int, answers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qioi.kubernetes.client, "MAX_ANSWER", 20_000)
    objects = [sized(number, size) for number in range(count)]
    with serving(objects) as (api, sent):
        assert api.list(PATH, AT_HAND) == (objects, "7")
    assert sent == answers


def test_what_is_not_older_than_a_version_is_asked_for_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one, older servers read in etcd. A list that is too large is read there, in pages."""
    monkeypatch.setattr(qioi.kubernetes.client, "MAX_ANSWER", 20_000)
    match = {"resourceVersion": "7", "resourceVersionMatch": "NotOlderThan"}
    few, many = ([sized(number, 50) for number in range(count)] for count in (PAGE + 1, 3 * PAGE))
    with serving(few) as (api, sent):
        assert api.list(PATH, match) == (few, "7")
    assert sent == [PAGE + 1]
    with serving(many) as (api, sent):
        assert api.list(PATH, match) == (many, "7")
    assert sent == [3 * PAGE, PAGE, PAGE, PAGE]


@pytest.mark.parametrize("large", [{0}, {4}, {9}, {0, 1, 5}, set(range(10))])
def test_an_object_that_is_too_large_by_itself_is_left_out_and_named(
    large: set[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(qioi.kubernetes.client, "MAX_ANSWER", 20_000)
    objects = [sized(number, 30_000 if number in large else 10) for number in range(10)]
    with serving(objects) as (api, _):
        listed, version = api.list(PATH, AT_HAND)
        assert api.list(PATH, {}) == (listed, version)
    assert names(listed) == [f"o{number}" for number in range(10) if number not in large]
    assert {one.getMessage() for one in caplog.records} == {
        f"kubernetes: n/o{number} has more than 0 MB: left out" for number in large
    }


def test_behind_an_object_that_is_too_large_pages_grow_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qioi.kubernetes.client, "MAX_ANSWER", 20_000)
    objects = [sized(number, 30_000 if number == 0 else 10) for number in range(10 * PAGE)]
    with serving(objects) as (api, sent):
        listed, _version = api.list(PATH, {})
    assert names(listed) == names(objects[1:])
    assert sent == [100, 50, 25, 12, 6, 3, 1, 1, 2, 4, 8, 16, 32, 64, *[100] * 8, 73]


def test_an_object_of_which_even_the_name_comes_with_too_much_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qioi.kubernetes.client, "MAX_ANSWER", 20_000)
    one = {"metadata": {"name": "o", "annotations": {"a": "x" * 30_000}}}
    with serving([one]) as (api, _):
        for _ in range(2):
            with pytest.raises(ApiError, match="the answer has more than"):
                api.list(PATH, AT_HAND)


def policies() -> list[Any]:
    return [policy_object(f"p{n}", selectors={"peers": {"matchLabels": {"k" * MB: "v"}}}) for n in range(60)]


def pods() -> list[Any]:
    made = [pod_object(f"p{n}", labels={"qioi.io/role": "peer"}) for n in range(60)]
    for one in made:
        one["spec"]["containers"][0]["env"] = [{"name": "E", "value": "x" * MB}]
    return made


@pytest.mark.parametrize(("objects", "keeping"), [(policies, slim_policy), (pods, slim)])
def test_sixty_objects_of_a_megabyte_take_a_few(objects: Any, keeping: Any) -> None:
    made = objects()
    with serving(made) as (api, _):
        tracemalloc.start()
        try:
            listed, _version = api.list(PATH, AT_HAND, keeping)
            kept, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert names(listed) == names(made)
    assert kept < MB
    assert most < 30 * MB  # the server's own part is of one object
