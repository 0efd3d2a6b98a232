"""Messages with a `traceparent` lead to spans at a collector, which is played by this test."""

import json
import queue
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import redis

from tier import Tier

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
STAGES = ["parse", "waiting", "dispatch", "service", "reply"]

Span = dict[str, Any]


class Collector:
    """Takes OTLP over HTTP."""

    def __init__(self) -> None:
        """Listen on a free port."""
        self.spans: queue.Queue[Span] = queue.Queue()
        spans = self.spans

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                is_it = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json"
                for resource in body["resourceSpans"] if is_it else ():
                    assert {"key": "service.name", "value": {"stringValue": "posthaste"}} in resource[
                        "resource"
                    ]["attributes"]
                    for scope in resource["scopeSpans"]:
                        for span in scope["spans"]:
                            spans.put(span)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()

    def whole(self, name: str) -> tuple[Span, list[Span]]:
        """The next span of this name, and those below it, which come with it."""
        span = self.spans.get(timeout=120)
        assert span["name"] == name
        below: list[Span] = []
        end = int(span["startTimeUnixNano"])
        while end < int(span["endTimeUnixNano"]):
            below.append(self.spans.get(timeout=120))
            end = int(below[-1]["endTimeUnixNano"])
        return span, below


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector."""
    collector = Collector()
    yield collector
    collector.stop()


def attributes(span: Span) -> dict[str, str]:
    """The attributes of a span, as texts."""
    return {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_message_is_followed_from_send_to_receive(
    start: Callable[..., Tier], collector: Collector, protocol: int
) -> None:
    """Two spans in the sender's trace, each with its stages one after another."""
    tier = start("--traces", collector.url)
    client = redis.Redis(port=tier.port, protocol=protocol)
    client.execute_command("QCREATE", "q")
    client.execute_command("SEND", "q", "without a trace")
    client.execute_command("SEND", "q", "not recorded", "HEADER", "traceparent", PARENT[:-1] + "0")
    number = client.execute_command("SEND", "q", "followed", "HEADER", "traceparent", PARENT)
    client.execute_command("POP", "QUEUE", "q", "COUNT", 10)
    for name, kind in (("send q", "send"), ("receive q", "receive")):
        span, stages = collector.whole(name)
        assert (span["traceId"], span["parentSpanId"], span["kind"]) == (TRACE, SPAN, 2)
        told = attributes(span)
        assert told["messaging.operation.type"] == kind
        assert told["messaging.message.id"] == str(number)
        assert told["messaging.destination.name"] == "q"
        assert told["messaging.message.body.size"] == "8"
        assert [s["name"] for s in stages] == [s for s in STAGES if s in {t["name"] for t in stages}]
        assert "service" in {s["name"] for s in stages}
        at = span["startTimeUnixNano"]
        for stage in stages:
            assert (stage["traceId"], stage["parentSpanId"]) == (TRACE, span["spanId"])
            assert stage["startTimeUnixNano"] == at
            at = stage["endTimeUnixNano"]
        assert at == span["endTimeUnixNano"]
    assert collector.spans.empty()


def test_a_slow_request_is_told_with_its_trace(start: Callable[..., Tier], collector: Collector) -> None:
    """So that whoever reads the log finds the trace."""
    tier = start("--traces", collector.url, "--slow", "0ms", "--log-format", "json")
    client = redis.Redis(port=tier.port)
    client.execute_command("QCREATE", "q")
    client.execute_command("SEND", "q", "without a trace")
    client.execute_command("SEND", "q", "followed", "HEADER", "traceparent", PARENT)
    client.execute_command("POP", "QUEUE", "q", "COUNT", 10)
    client.execute_command("QDELETE", "q")
    while '"delete"' not in tier.log():
        client.ping()
    told = [json.loads(line) for line in tier.log().splitlines() if '"slow request"' in line]
    traces = [(line["kind"], line.get("trace")) for line in told if line["kind"] in {"send", "pop"}]
    assert traces == [("send", None), ("send", TRACE), ("pop", TRACE)]


def test_a_stop_hands_over_what_there_is(start: Callable[..., Tier], collector: Collector) -> None:
    """The last second is not lost."""
    tier = start("--traces", collector.url)
    client = redis.Redis(port=tier.port)
    client.execute_command("QCREATE", "q")
    client.execute_command("SEND", "q", "x", "HEADER", "traceparent", PARENT)
    assert tier.stop() == 0
    assert collector.spans.get_nowait()["name"] == "send q"


def test_a_collector_that_is_not_there_harms_nobody(start: Callable[..., Tier], collector: Collector) -> None:
    """It is told once, and counted."""
    collector.stop()
    tier = start("--traces", collector.url, "--http", "127.0.0.1:0")
    client = redis.Redis(port=tier.port)
    client.execute_command("QCREATE", "q")
    for _ in range(3):
        client.execute_command("SEND", "q", "x", "HEADER", "traceparent", PARENT)
    while "traces are lost" not in tier.log():
        client.ping()
    assert tier.log().count("traces are lost") == 1
