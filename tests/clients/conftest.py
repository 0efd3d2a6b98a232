"""Fixtures of servers for the tests, each with a store of its own and stopped when its test ends."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from posthaste import Client

from router import Memcached, Router
from tier import Tier, program
from web import HTTP

Connect = Callable[..., Client]


def is_here(command: list[str], oldest: tuple[int, ...]) -> bool:
    """Whether a program is here that is new enough for the library tried with it."""
    if shutil.which(command[0]) is None:
        return False
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+)\.(\d+)", said)
    return found is not None and (int(found[1]), int(found[2])) >= oldest


# Libraries whose language is not here are left out, and the first lines of the report say so.
LEFT_OUT = {
    file: f"{file} is left out: {needs} is not here"
    for file, needs, command, oldest in (
        ("test_node.py", "Node.js 20 or newer", ["node", "--version"], (20, 0)),
        ("test_console_modules.py", "Node.js 20 or newer", ["node", "--version"], (20, 0)),
        ("test_console.py", "Chromium (with Node.js 20)", ["chromium", "--version"], (100, 0)),
        ("test_go_redis.py", "Go 1.26 or newer", ["go", "version"], (1, 26)),
    )
    if not is_here(command, oldest)
}
collect_ignore = list(LEFT_OUT)


def pytest_report_header() -> list[str]:
    """What is tested, and what is not."""
    return [f"posthaste: {program()}", *LEFT_OUT.values()]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Tier]]:
    """Start a server with further arguments."""
    tiers: list[Tier] = []

    def start(*arguments: str) -> Tier:
        directory = tmp_path / f"tier-{len(tiers)}"
        directory.mkdir()
        tiers.append(Tier(directory, *arguments))
        return tiers[-1]

    yield start
    for tier in tiers:
        tier.kill()


@pytest.fixture
def tier(start: Callable[..., Tier]) -> Tier:
    """A server as it starts by default."""
    return start()


@pytest.fixture
def web(start: Callable[..., Tier]) -> Tier:
    """A server that serves HTTP."""
    return start(*HTTP)


@pytest.fixture
def accounts_file(tmp_path: Path) -> Path:
    """A file with the account `alice`, whose secret is `wonderland`."""
    path = tmp_path / "accounts.txt"
    subprocess.run(
        [program(), "admin", "account", "add", "alice", "--file", path],
        input="wonderland\n",
        text=True,
        check=True,
        capture_output=True,
    )
    return path


@pytest.fixture
def memcached(tmp_path: Path) -> Iterator[Callable[[], Memcached]]:
    """Start a memcached of the distribution's."""
    started: list[Memcached] = []

    def start() -> Memcached:
        started.append(Memcached(tmp_path))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def router(memcached: Callable[[], Memcached]) -> Iterator[Callable[..., Router]]:
    """Start a router in front of so many servers, with further arguments."""
    routers: list[Router] = []

    def start(servers: int, *arguments: str) -> Router:
        routers.append(Router([memcached() for _ in range(servers)], *arguments))
        return routers[-1]

    yield start
    for tier in routers:
        tier.stop()


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Connect a client to a port; it is closed with the test."""
    clients: list[Client] = []

    def connect(port: int, **options: Any) -> Client:  # noqa: ANN401 - the client's own options
        clients.append(Client(f"redis://127.0.0.1:{port}", **options))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def client(tier: Tier, connect: Connect) -> Client:
    """A client of a tier that has the queue `orders`."""
    made = connect(tier.port)
    made.create_queue("orders")
    return made
