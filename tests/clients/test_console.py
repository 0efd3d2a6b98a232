"""The web console in a real browser; node/console_queue.js and node/console_cache.js use it.

CONSOLE_PICTURES names a place for pictures, to be looked at.
"""

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from pymemcache.client.base import Client

from router import Router
from tier import Tier

# A browser takes its time where the machine is busy.
pytestmark = pytest.mark.timeout(400)

HERE = Path(__file__).parent
HOSTILE = "<b class=hostile>hostile</b>"
LONG = "W" * 255
# 15 clients who think for a second: node/model.js.
WHAT_IF = {
    "begins": "40",
    "predicted": ["13", "160 ms"],
    "gain": "+6.9 %",
    "refused": 0,
    "shorter": "no interval: too few whole repetitions",
    "one": [False, False, False],
    "asksTooOften": False,
}
CHARTS = [
    "requests per second",
    "response time: 99 % (plain) and median (dashed)",
    "errors per second",
]
STAGES = ["parse", "waiting", "dispatch", "service", "reply"]


def use(program: str, port: int, *arguments: str) -> dict[str, Any]:
    """Let a program use the console that is served on this port; what it saw."""
    done = subprocess.run(
        [
            *("node", HERE / "node" / program, f"http://127.0.0.1:{port}"),
            *(os.environ.get("CONSOLE_PICTURES", ""), *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=360,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@contextmanager
def busy(work: Callable[[], object]) -> Iterator[None]:
    """Somebody who asks and asks meanwhile, so that there is something to see."""
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            work()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_the_console_of_a_queue_tier(start: Callable[..., Tier]) -> None:
    """By keyboard, in light and dark, wide and narrow; whatever is hostile is text."""
    tier = start("--http", "127.0.0.1:0")
    client = redis.Redis(port=tier.port)
    client.execute_command("LOGIN", "alice")
    for number in range(120):
        client.execute_command("QCREATE", f"queue-{number:03}")
    for _ in range(40):
        client.execute_command("SENDMANY", "queue-042", "a", "b", "c")
    for name in ("dead", "two blanks", "two  blanks"):
        client.execute_command("QCREATE", name)
    client.execute_command("QCREATE", LONG, "DEADLETTER", "D" * 255, "AFTER", 3)
    client.execute_command("SEND", LONG, "x", "HEADER", "h", "v" * 5000)
    client.execute_command("QCREATE", HOSTILE, "DEADLETTER", "dead", "AFTER", 1)
    client.execute_command("LOGIN", HOSTILE)
    client.execute_command("SEND", HOSTILE, "<iframe src=//evil.example></iframe>")
    client.execute_command("POP", "QUEUE", HOSTILE, "LEASE", 60000)
    client.execute_command("NACK", 122)
    client.execute_command("SEND", HOSTILE, "x" * 5000)
    client.execute_command("SEND", HOSTILE, b"\xff<script>alert(1)</script>")
    unwanted = redis.Redis(port=tier.port, client_name="<script>")
    unwanted.ping()
    twins = [redis.Redis(port=tier.port, client_name="twin") for _ in range(2)]
    for twin in twins:
        twin.ping()
    with busy(client.ping):
        seen = use("console_queue.js", tier.http_port)
    assert seen == {
        "errors": [],
        "markup": 0,
        "overflow": [],
        "charts": CHARTS,
        "stages": STAGES,
        "alarms": 0,
        "skippedTo": "main of #/queues",
        "fullest": "queue-042",
        "keptFocus": True,
        "sent": f"x-kind: {HOSTILE}\nx-empty: \n<img src=x onerror='document.title=\"owned\"'>",
        "beginning": 1000,
        "kept": "3",
        "blanks": 2,
        "twins": 2,
        "whatIf": WHAT_IF,
    }


def test_the_console_of_a_cache_tier(router: Callable[..., Router]) -> None:
    """Its servers, one of them gone; where a key goes; its clients, one of them sent away."""
    tier = router(3, "--http", "127.0.0.1:0", "--threads", "2")
    address = ("127.0.0.1", tier.port)
    with closing(Client(address)) as client, closing(Client(address)) as other:
        other.set("warm", "x", noreply=False)
        gone = tier.servers[2]
        gone.stop()
        with busy(lambda: client.set("key", "value") and client.get_many(["key", "other"])):
            seen = use("console_cache.js", tier.http_port, f"127.0.0.1:{gone.port}")
    assert seen == {
        "errors": [],
        "markup": 0,
        "overflow": [],
        "pages": ["Overview", "Servers", "Routes", "Clients", "What if"],
        "charts": CHARTS,
        "stages": STAGES,
        "idleShare": "0.0 %",
        "reads": 3,
        "explained": "touch <img/src=x>",
        "clients": 2,
        "whatIf": WHAT_IF,
    }


def test_the_console_acts_as_the_account_of_the_browser(
    start: Callable[..., Tier], accounts_file: Path
) -> None:
    """Where accounts are kept, and the secret goes nowhere else."""
    tier = start("--http", "127.0.0.1:0", "--accounts", str(accounts_file))
    client = redis.Redis(port=tier.port, username="alice", password="wonderland")
    client.execute_command("QCREATE", "letters")
    seen = use("console_accounts.js", tier.http_port)
    assert seen == {
        "errors": [],
        "markup": 0,
        "overflow": [],
        "from": "alice",
        "renewed": 0,
        "isBack": True,
        "askedAgain": 0,
    }
    assert "wonderland" not in tier.log()
