"""The OpenAPI document of the daemon's HTTP API: what is served where, and what the answers look like.

Schemas come from the very values that are sent (qioi.show.snapshot, qioi.show.explanation); a test calls every route of
a real daemon and holds its answers against this document.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

from msgspec.json import schema_components

from qioi.show.explanation import Explanation
from qioi.show.snapshot import Snapshot

Schema = dict[str, Any]

PLACE = "#/components/schemas/{name}"
TEXT: Schema = {"type": "string"}


@dataclass(frozen=True, slots=True)
class Operation:
    """One route: what it is for, its query parameters with what each is, and the name of its answer's schema.

    Without a schema the answer is plain text. ``refusal`` is the status of another answer, and what that says.
    """

    summary: str
    parameters: tuple[tuple[str, str], ...] = ()
    schema: str | None = None
    refusal: tuple[int, str] | None = None


OPERATIONS = {
    "GET /status": Operation("What the daemon saw and did in its last period", schema="Snapshot"),
    "GET /explain": Operation(
        "How the share of one component was decided", (("component", "its name in /status"),), "Explanation"
    ),
    "POST /threshold": Operation(
        "Set what a channel is owed, until the daemon's next start; on the Unix socket only",
        (("channel", "its name in /status"), ("tps", "transactions per second, or `auto` to have it learned")),
        "Message",
    ),
    "POST /mine": Operation(
        "Take a foreign control group for the operator's own, until the daemon's next start; on the Unix socket only",
        (("group", "its path below the CPU controller's mount, as in /status"),),
        "Message",
    ),
    "POST /adopt": Operation(
        "Take up a component again whose share somebody else has changed, which is its original from then on; "
        "on the Unix socket only",
        (("component", "its name in /status"),),
        "Message",
    ),
    "GET /openapi.json": Operation("This document", schema="OpenAPI"),
    "GET /metrics": Operation("Metrics in Prometheus' text format"),
    "GET /healthz": Operation("Whether the daemon's loop runs: OK", refusal=(503, "For how long it has not")),
}


def record(**fields: Schema) -> Schema:
    """Describe an object that has all of these and nothing else."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def reference(name: str) -> Schema:
    """Point at a schema."""
    return {"$ref": PLACE.format(name=name)}


@cache
def schemas() -> dict[str, Schema]:
    """Give every schema by its name."""
    _, named = schema_components((Snapshot, Explanation), ref_template=PLACE)
    for schema in named.values():
        if "properties" in schema:  # every field is always sent
            schema |= {"required": list(schema["properties"]), "additionalProperties": False}
    return named | {
        "Message": record(message=TEXT),
        "OpenAPI": {"type": "object", "required": ["openapi", "info", "paths", "components"]},
    }


def document(routes: Iterable[str]) -> Schema:
    """Describe these routes, each as method and path."""
    paths: dict[str, Schema] = {}
    for route in routes:
        method, path = route.split(" ")
        paths.setdefault(path, {})[method.lower()] = describe(OPERATIONS[route])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "QiOi",
            "version": version("qioi"),
            "description": "Served on the daemon's Unix socket (`socket` in its configuration). Its metrics address "
            "(`metrics.listen` and `metrics.port`) answers the same questions on loopback, and takes no order. There a "
            "request's Host must be an address or localhost, or the answer is 403. Every error is one line of text.",
        },
        "paths": paths,
        "components": {"schemas": schemas()},
    }


def describe(operation: Operation) -> Schema:
    """Describe one operation."""
    plain = {"text/plain": {"schema": TEXT}}
    content = plain if operation.schema is None else {"application/json": {"schema": reference(operation.schema)}}
    responses = {"200": {"description": operation.summary, "content": content}}
    if operation.parameters:
        responses["400"] = {"description": "What is not accepted, and what is", "content": plain}
    if operation.refusal:
        status, text = operation.refusal
        responses[str(status)] = {"description": text, "content": plain}
    return {
        "summary": operation.summary,
        "parameters": [
            {"name": name, "in": "query", "required": True, "description": text, "schema": TEXT}
            for name, text in operation.parameters
        ],
        "responses": responses,
    }
