"""The HTTP API is what its OpenAPI document says: every route of a real daemon is called and its answer validated."""

from __future__ import annotations

import http.client
import json
from typing import Any

import jsonschema
import pytest
from ports import free_port
from running import Site, end
from waiting import until

from qioi.show.http import UnixConnection

pytestmark = pytest.mark.slow

#: What the parameters of the document are filled with.
VALUES = {"component": "peer0", "channel": "red", "tps": "500"}


def call(connection: http.client.HTTPConnection, method: str, path: str) -> tuple[int, str, bytes]:
    connection.request(method, path)
    response = connection.getresponse()
    answer = response.status, (response.getheader("Content-Type") or "").split(";")[0], response.read()
    connection.close()
    return answer


def validate(document: dict[str, Any], operation: dict[str, Any], answer: tuple[int, str, bytes]) -> None:
    status, kind, body = answer
    content = operation["responses"][str(status)]["content"]
    assert list(content) == [kind]
    schema = content[kind]["schema"] | {"components": document["components"]}
    value = json.loads(body) if kind == "application/json" else body.decode()
    jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize("threshold", [1000, "auto"])
def test_every_answer_is_as_described(site: Site, threshold: object) -> None:
    port = free_port()
    site.component("peer0")
    site.component("client0", "client")
    site.changes = {"channels": {"red": {"threshold": threshold}}, "metrics": {"port": port}}
    other = f"{site.parent}/other"
    site.hierarchy.folder(other).mkdir()
    values = {**VALUES, "group": other}
    daemon = site.start()
    site.commit_until(lambda: (site.status() or {})["channels"][0]["throughput"] is not None)
    document = json.loads(call(UnixConnection(site.socket), "GET", "/openapi.json")[2])
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    tried = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            query = "&".join(f"{one['name']}={values[one['name']]}" for one in operation["parameters"])
            whole = call(UnixConnection(site.socket), method.upper(), f"{path}?{query}")
            assert whole[0] == 200, whole
            validate(document, operation, whole)
            over_tcp = call(http.client.HTTPConnection("127.0.0.1", port), method.upper(), f"{path}?{query}")
            assert over_tcp[0] == (404 if method == "post" else 200)  # an order needs the socket's rights
            if operation["parameters"]:
                refused = call(UnixConnection(site.socket), method.upper(), path)
                assert refused[0] == 400
                validate(document, operation, refused)
            tried.append(f"{method.upper()} {path}")
    # What is served is what the refusal of an unknown path lists.
    status, _, body = call(UnixConnection(site.socket), "GET", "/nothing")
    assert (status, body.decode().removeprefix("accepted: ").split(", ")) == (404, tried)
    explained = call(UnixConnection(site.socket), "GET", "/explain?component=client0")
    validate(document, document["paths"]["/explain"]["get"], explained)
    until(lambda: (site.status() or {})["channels"][0]["source"] == "socket")
    validate(document, document["paths"]["/status"]["get"], call(UnixConnection(site.socket), "GET", "/status"))
    assert end(daemon)[0] == 0


def test_the_first_answers_are_as_described_too(site: Site) -> None:
    site.component("peer0")
    site.changes = {"period": 60.0}  # nothing has been looked at twice yet
    daemon = site.start()
    document = json.loads(call(UnixConnection(site.socket), "GET", "/openapi.json")[2])
    for path in ("/status", "/explain"):
        answer = call(UnixConnection(site.socket), "GET", f"{path}?component=peer0")
        validate(document, document["paths"][path]["get"], answer)
    assert end(daemon)[0] == 0
