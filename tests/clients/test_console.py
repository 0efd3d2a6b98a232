"""The web console in a real browser; the program that uses it is node/console.js."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import redis

from tier import Tier

HERE = Path(__file__).parent


def test_it_is_used_by_keyboard_in_light_and_dark_wide_and_narrow(start: Callable[..., Tier]) -> None:
    """Figures, lists, a queue, a message that would like to be markup.

    CONSOLE_PICTURES names a place for pictures.
    """
    tier = start("--http", "127.0.0.1:0")
    client = redis.Redis(port=tier.port)
    client.execute_command("LOGIN", "alice")
    for number in range(120):
        client.execute_command("QCREATE", f"queue-{number:03}")
    for _ in range(40):
        client.execute_command("SENDMANY", "queue-042", "a", "b", "c")
    client.execute_command("QCREATE", "<b>hostile</b>")
    client.execute_command("SEND", "<b>hostile</b>", "plain", "HEADER", "kind", "test", "PRIORITY", 3)
    done = subprocess.run(
        [
            "node",
            HERE / "node" / "console.js",
            f"http://127.0.0.1:{tier.http_port}",
            os.environ.get("CONSOLE_PICTURES", ""),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen == {
        "errors": [],
        "stages": ["parse", "waiting", "dispatch", "service", "reply"],
        "fullest": "queue-042",
        "title": "<b>hostile</b> - Posthaste",
        "images": 0,
        "kept": "2",
        "overview_overflow": False,
        "queues_overflow": False,
        "store_overflow": False,
    }
