"""HTTP with nothing but the standard library."""

import http.client
import json
from typing import Any, Protocol

Json = Any
# Options with which a tier serves it.
HTTP = ("--http", "127.0.0.1:0")


class HasHttp(Protocol):
    """A tier that serves HTTP."""

    http_port: int


def ask(
    tier: HasHttp,
    method: str,
    path: str,
    body: Json = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, Json]:
    """One request: its status, and its answer as JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", tier.http_port, timeout=120)
    try:
        given = None if body is None else json.dumps(body)
        kind = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, given, {**kind, **(headers or {})})
        answer = connection.getresponse()
        text = answer.read().decode()
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, json.loads(text) if is_json else text
    finally:
        connection.close()
