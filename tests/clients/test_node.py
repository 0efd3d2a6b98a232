"""Tests ioredis (node/talk.js) and node-redis (node/talk_node_redis.js) as Node.js programs use them."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tier import Tier, message

HERE = Path(__file__).parent


def talk(program: str, options: dict[str, Any]) -> dict[str, Any]:
    """Run the Node.js program, and return what it was answered."""
    done = subprocess.run(
        ["node", HERE / "node" / program, json.dumps(options)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


def ioredis(tier: Tier, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - the library's own options
    """Talk by ioredis."""
    return talk("talk.js", {"port": tier.port, **options})


def node_redis(tier: Tier, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - the library's own options
    """Talk by node-redis."""
    return talk("talk_node_redis.js", {"socket": {"host": "127.0.0.1", "port": tier.port}, **options})


Talk = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("talk", "options"),
    [
        pytest.param(ioredis, {}, id="ioredis"),
        pytest.param(ioredis, {"protocol": 2}, id="ioredis-resp2"),
        pytest.param(ioredis, {"protocol": 3}, id="ioredis-resp3"),
        pytest.param(node_redis, {}, id="node-redis"),
        pytest.param(node_redis, {"RESP": 2}, id="node-redis-resp2"),
        pytest.param(node_redis, {"RESP": 3}, id="node-redis-resp3"),
    ],
)
def test_it_connects_with_its_defaults_and_works(tier: Tier, talk: Talk, options: dict[str, int]) -> None:
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


@pytest.mark.parametrize("talk", [ioredis, node_redis])
def test_it_logs_in(start: Callable[..., Tier], accounts_file: Path, talk: Talk) -> None:
    """The library's username and password are the account and its secret."""
    answers = talk(start("--accounts", str(accounts_file)), username="alice", password="wonderland")
    assert message(answers["message"])["from"] == "alice"
