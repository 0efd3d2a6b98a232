"""Tests ioredis as a Node.js program uses it; the program is node/talk.js."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tier import Tier, message

HERE = Path(__file__).parent


def talk(tier: Tier, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - the library's own options
    """Run the Node.js program, and return what it was answered."""
    done = subprocess.run(
        ["node", HERE / "node" / "talk.js", json.dumps({"port": tier.port, **options})],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


@pytest.mark.parametrize("options", [{}, {"protocol": 2}, {"protocol": 3}], ids=["default", "resp2", "resp3"])
def test_it_connects_with_its_defaults_and_works(tier: Tier, options: dict[str, int]) -> None:
    """Ready check, commands, pipeline, blocking pop, errors."""
    answers = talk(tier, **options)
    assert answers["ready"] is True
    assert answers["queue"] == 1
    assert answers["sent"] == 1
    found = message(answers["message"])
    assert (found["id"], found["from"], found["to"], found["body"]) == (1, "default", None, "two coffees")
    assert answers["acknowledged"] == 1
    assert answers["nothing"] is None
    assert answers["pipelined"] == list(range(2, 102))
    assert answers["refused"].startswith("NOQUEUE")
    assert message(answers["awaited"])["body"] == "from the other connection"


def test_it_logs_in(start: Callable[..., Tier], accounts_file: Path) -> None:
    """The library's username and password are the account and its secret."""
    answers = talk(start("--accounts", str(accounts_file)), username="alice", password="wonderland")
    assert message(answers["message"])["from"] == "alice"
