"""`/metrics` as Prometheus' own parser reads it, and the rules and the dashboard that rest on it."""

import http.client
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from pymemcache.client.base import Client

from router import Memcached, Router
from tier import ROOT, Tier
from waiting import until

HTTP = ("--http", "127.0.0.1:0", "--window", "10ms")
RULES = ROOT / "deploy" / "prometheus" / "alerts.yaml"
DASHBOARD = ROOT / "deploy" / "grafana" / "posthaste.json"


def page(port: int) -> str:
    """`GET /metrics`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return answer.read().decode()
    finally:
        connection.close()


def metrics(port: int) -> dict[str, Metric]:
    """The metrics by name, as the parser has them."""
    return {metric.name: metric for metric in text_string_to_metric_families(page(port))}


def metrics_when(port: int, holds: Callable[[dict[str, Metric]], bool]) -> dict[str, Metric]:
    """The metrics, once this is true of them."""
    found: dict[str, Metric] = {}

    def are_there() -> bool:
        found.clear()
        found.update(metrics(port))
        return holds(found)

    until(are_there)
    return found


def reference() -> dict[str, str]:
    """The names and types that the reference has."""
    text = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    return dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", text, re.MULTILINE))


def are_told(found: dict[str, Metric]) -> None:
    """Every metric stands in the reference, with the same type."""
    told = reference()
    for metric in found.values():
        name = metric.name + ("_total" if metric.type == "counter" else "")
        assert told[name] == metric.type
        assert metric.documentation


def histograms_add_up(metric: Metric) -> None:
    """Buckets grow, the last one is the count, and the sum lies between what their ends allow."""
    series: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    counts: dict[tuple[str, ...], float] = {}
    sums: dict[tuple[str, ...], float] = {}
    for sample in metric.samples:
        key = tuple(value for label, value in sorted(sample.labels.items()) if label != "le")
        if sample.name.endswith("_bucket"):
            series.setdefault(key, []).append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_count"):
            counts[key] = sample.value
        else:
            sums[key] = sample.value
    assert series.keys() == counts.keys() == sums.keys()
    for key, buckets in series.items():
        assert buckets == sorted(buckets)
        assert [count for _, count in buckets] == sorted(count for _, count in buckets)
        assert buckets[-1] == (float("inf"), counts[key])
        assert sums[key] >= 0


@pytest.fixture
def router(tmp_path: Path) -> Iterator[Router]:
    """A router with HTTP in front of two servers."""
    servers = [Memcached(tmp_path), Memcached(tmp_path)]
    router = Router(servers, *HTTP)
    yield router
    router.stop()
    for server in servers:
        server.stop()


def test_the_queue_tier_is_read_by_prometheus(start: Callable[..., Tier]) -> None:
    """Types, labels and histograms, for an embedded store."""
    tier = start(*HTTP)
    client = redis.Redis(port=tier.port)
    client.execute_command("QCREATE", 'odd "queue"\\')
    for _ in range(7):
        client.execute_command("SEND", 'odd "queue"\\', "four")
    sent = {"kind": "send", "ending": "ok"}

    def are_counted(found: dict[str, Metric]) -> bool:
        return [s.value for s in found["posthaste_requests"].samples if s.labels == sent] == [7]

    found = metrics_when(tier.http_port, are_counted)
    are_told(found)
    for name in ("posthaste_request_duration_seconds", "posthaste_stage_duration_seconds"):
        histograms_add_up(found[name])
    stages = {sample.labels["stage"] for sample in found["posthaste_stage_duration_seconds"].samples}
    assert stages == {"waiting", "service", "sync"}
    (messages,) = found["posthaste_queue_messages"].samples
    assert (messages.labels, messages.value) == ({"queue": 'odd "queue"\\'}, 7)
    assert found["posthaste_store_message_bytes"].samples[0].value == 28
    events = {sample.labels["event"]: sample.value for sample in found["posthaste_messages"].samples}
    assert events.pop("sent") == 7
    others = {"taken", "acknowledged", "returned", "dead_lettered", "expired", "purged", "deduplicated"}
    assert events == dict.fromkeys(others, 0)
    assert found["posthaste_disk_free_bytes"].samples[0].value > 0
    assert found["process_open_fds"].samples[0].value > 3


def test_what_a_library_tries_when_it_connects_is_no_error(start: Callable[..., Tier]) -> None:
    """It is refused, and the library goes on without: an alert on errors has nothing to say."""
    tier = start(*HTTP)
    client = redis.Redis(port=tier.port, protocol=3)
    with pytest.raises(redis.ResponseError, match="unknown subcommand"):
        client.execute_command("CLIENT", "MAINT_NOTIFICATIONS", "ON")
    with pytest.raises(redis.ResponseError, match="unknown command"):
        client.execute_command("LPUSH", "q", "x")

    def by_ending(found: dict[str, Metric]) -> dict[str, float]:
        samples = found["posthaste_requests"].samples
        return {s.labels["ending"]: s.value for s in samples if s.labels["kind"] == "session"}

    sessions = by_ending(metrics_when(tier.http_port, lambda found: by_ending(found).get("error", 0) > 0))
    assert sessions["error"] == 1, "only the command that does not exist"
    assert sessions["null"] >= 1


def test_only_so_many_queues_are_shown(start: Callable[..., Tier]) -> None:
    """Those that hold most; with 0 none."""
    for shown in (2, 0):
        tier = start(*HTTP, "--metrics-queues", str(shown))
        client = redis.Redis(port=tier.port)
        for queue in range(5):
            client.execute_command("QCREATE", f"q{queue}")
            client.execute_command("SENDMANY", f"q{queue}", *["x"] * (queue + 1))
        found = metrics(tier.http_port)
        queues = found["posthaste_queue_messages"].samples if shown else []
        assert [sample.labels["queue"] for sample in queues] == ["q4", "q3"][:shown]
        assert ("posthaste_queue_messages" in found) == (shown > 0)


def test_the_cache_tier_is_read_by_prometheus(router: Router) -> None:
    """Types, labels and histograms, with each server under its name."""
    with closing(Client(("127.0.0.1", router.port))) as client:
        client.set("a", "1")
        client.get("b")

    def is_counted(found: dict[str, Metric]) -> bool:
        return [sample.value for sample in found["posthaste_get_misses"].samples] == [1]

    found = metrics_when(router.http_port, is_counted)
    are_told(found)
    histograms_add_up(found["posthaste_request_duration_seconds"])
    servers = {f"127.0.0.1:{server.port}" for server in router.servers}
    assert {sample.labels["server"] for sample in found["posthaste_server_live"].samples} == servers
    for name, answers in (("posthaste_server_reply_seconds", 3), ("posthaste_route_answer_seconds", 2)):
        histograms_add_up(found[name])
        counts = [sample.value for sample in found[name].samples if sample.name.endswith("_count")]
        assert sum(counts) == answers
    (of_route,) = found["posthaste_route_requests"].samples
    assert (of_route.labels, of_route.value) == ({"prefix": "", "commands": "", "pool": "default"}, 2)
    assert {sample.labels["pool"] for sample in found["posthaste_pool_looked_up"].samples} == {"default"}


def used(text: str) -> set[str]:
    """The metrics that a text names, without what histograms put behind their names."""
    names = set(re.findall(r"\b(?:posthaste|process)_[a-z_]+[a-z]", text))
    return {re.sub(r"_seconds_(bucket|sum|count)$", "_seconds", name) for name in names}


def test_rules_and_dashboard_name_metrics_that_there_are() -> None:
    """A metric that is renamed takes them along."""
    expressions = [
        target["expr"]
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel.get("targets", [])
    ]
    rules = re.findall(r"^ +expr: (.+(?:\n {10,}.+)*)", RULES.read_text(), re.MULTILINE)
    for text in ("\n".join(expressions), "\n".join(rules)):
        assert len(used(text)) > 5
        assert used(text) <= reference().keys()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not here (Debian: prometheus)")
def test_promtool_accepts_rules_and_pages(start: Callable[..., Tier], router: Router) -> None:
    """The rules hold what their tests say, and the pages of both tiers follow Prometheus' conventions."""
    for command in (
        ["check", "rules", str(RULES)],
        ["test", "rules", str(RULES.with_name("alerts_test.yaml"))],
    ):
        done = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    for port in (start(*HTTP).http_port, router.http_port):
        lint = ["promtool", "check", "metrics"]
        done = subprocess.run(lint, input=page(port), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
