"""Tests go-redis as a Go program uses it; the program is go/main.go."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tier import Tier, message

HERE = Path(__file__).parent
BUILD_S = 300


@pytest.fixture(scope="session")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the Go program, once."""
    path = tmp_path_factory.mktemp("go") / "talk"
    subprocess.run(
        ["go", "build", "-o", path, "."],
        cwd=HERE / "go",
        env={**os.environ, "GOTOOLCHAIN": "local"},  # never another compiler than the one that is here
        check=True,
        timeout=BUILD_S,
    )
    return path


def run(talk: Path, tier: Tier, *account: str) -> dict[str, Any]:
    """Run the Go program, and return what it was answered."""
    done = subprocess.run(
        [talk, f"127.0.0.1:{tier.port}", *account], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)
    return answers


@pytest.mark.timeout(BUILD_S)
def test_it_connects_with_its_defaults_and_works(talk: Path, tier: Tier) -> None:
    """Greeting, commands, pipeline, blocking pop, errors."""
    answers = run(talk, tier)
    assert (answers["queue"], answers["sent"], answers["acknowledged"]) == (1, 1, 1)
    found = message(answers["message"])
    assert (found["id"], found["from"], found["to"], found["body"]) == (1, "default", None, "two coffees")
    assert found["headers"] == {"kind": "drinks"}
    assert answers["nothing"] is None
    assert answers["refused"].startswith("NOQUEUE")
    assert answers["pipelined"] == answers["purged"] == 100
    assert message(answers["awaited"])["body"] == "from another goroutine"


@pytest.mark.timeout(BUILD_S)
def test_it_logs_in(talk: Path, start: Callable[..., Tier], accounts_file: Path) -> None:
    """The library's username and password are the account and its secret."""
    answers = run(talk, start("--accounts", str(accounts_file)), "alice", "wonderland")
    assert message(answers["message"])["from"] == "alice"
