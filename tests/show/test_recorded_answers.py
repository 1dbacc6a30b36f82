"""HTTP answers keep what their readers know of them: compared with answers on record (tests/data/http)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from toy_daemon import ToySite, peer

from qioi.show.publisher import Orders, Publisher

RECORD = Path(__file__).parents[1] / "data" / "http"
#: What no two runs share.
VOLATILE = {"version", "pid", "time", "loop", "lateness", "loaded", "file"}


def answers(folder: Path) -> dict[str, Any]:
    """Every JSON answer after three periods with a component that is raised and one that no policy raises."""
    site = ToySite(
        folder,
        [peer("peer0", "docker/p", "red", "blue"), peer("client0", "docker/c", role="client")],
        channels={"red": {"threshold": 100}, "blue": {"threshold": "auto"}},
        boost_cap=0.5,
    )
    site.toy.used = {"": 2.0, "docker": 1.0, "docker/p": 0.1, "docker/c": 0.2}
    site.toy.tps = {"red": 50.0, "blue": 20.0}
    site.toy.waits = {"peer0": (0.1, 0.9), "client0": (0.2, 0.0)}
    orders = Orders(print, lambda _: None, print)
    publisher = Publisher(site.snapshot, site.hierarchy, orders)
    publisher.publish(site.run(3))
    routes = publisher.routes()
    asked = {
        "status": routes["GET /status"][1]({}),
        "explain": routes["GET /explain"][1]({"component": "peer0"}),
        "explain_client": routes["GET /explain"][1]({"component": "client0"}),
        "threshold": routes["POST /threshold"][1]({"channel": "red", "tps": "auto"}),
        "openapi": routes["GET /openapi.json"][1]({}),
    }
    return {name: json.loads(answer) for name, answer in asked.items()}


def open_ended(schema: Any) -> Any:
    """The schema with room for what a later version adds."""
    if isinstance(schema, dict):
        return {key: open_ended(one) for key, one in schema.items() if key != "additionalProperties" or one}
    return [open_ended(one) for one in schema] if isinstance(schema, list) else schema


def assert_says(answer: Any, record: Any, where: str) -> None:
    """Every value on record stands in the answer; what was added since is no matter."""
    if isinstance(record, dict):
        assert isinstance(answer, dict), where
        for key, value in record.items():
            assert key in answer, f"{where}.{key}"
            if key not in VOLATILE:
                assert_says(answer[key], value, f"{where}.{key}")
    elif isinstance(record, list) and len(record) == len(answer):
        for number, (one, other) in enumerate(zip(answer, record, strict=True)):
            assert_says(one, other, f"{where}[{number}]")
    elif isinstance(record, float):
        assert answer == pytest.approx(record), where
    else:
        assert (type(answer), answer) == (type(record), record), where


@pytest.mark.parametrize("name", ["status", "explain", "explain_client", "threshold"])
def test_an_answer_says_what_it_said(tmp_path: Path, name: str) -> None:
    assert_says(answers(tmp_path)[name], json.loads((RECORD / f"{name}.json").read_text()), name)


def test_answers_are_as_the_document_on_record_describes_them(tmp_path: Path) -> None:
    new = answers(tmp_path)
    old = json.loads((RECORD / "openapi.json").read_text())
    assert set(old["components"]["schemas"]) <= set(new["openapi"]["components"]["schemas"])
    for path, methods in old["paths"].items():
        for method, operation in methods.items():
            assert_says(new["openapi"]["paths"][path][method], operation, f"{method} {path}")
    models = {"status": "Snapshot", "explain": "Explanation", "explain_client": "Explanation", "threshold": "Message"}
    for name, model in models.items():
        for document in (open_ended(old), new["openapi"]):
            schema = {"$ref": f"#/components/schemas/{model}", "components": document["components"]}
            jsonschema.validate(new[name], schema, cls=jsonschema.Draft202012Validator)
