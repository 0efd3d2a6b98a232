"""Tests restarts that clients do not notice: the listening socket outlives the process."""

import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tier import STOP_S, program

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def handed() -> Iterator[socket.socket]:
    """A socket that listens, of a parent that lives longer than its children."""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        yield listener


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a tier, with sockets handed over; wait until it listens."""
    started: list[tuple[subprocess.Popen[str], threading.Thread]] = []

    def start(command: str, *arguments: str, handed: socket.socket | None = None) -> subprocess.Popen[str]:
        environment = dict(os.environ)
        if handed is not None:
            # Without LISTEN_PID they are for whoever is started.
            environment |= {"LISTEN_FDS": "1", "LISTEN_FDS_FIRST_FD": str(handed.fileno())}
        process = subprocess.Popen(
            [program(), command, "--http", "off", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            pass_fds=[] if handed is None else [handed.fileno()],
        )
        listening = threading.Event()

        def follow() -> None:
            with process.stderr or open(os.devnull) as log:
                for line in log:
                    if "listening on" in line:
                        listening.set()

        reader = threading.Thread(target=follow)
        reader.start()
        started.append((process, reader))
        while not listening.wait(0.01):
            if process.poll() is not None:
                raise RuntimeError("it does not listen")
        return process

    yield start
    for process, reader in started:
        process.kill()
        process.wait(STOP_S)
        reader.join(STOP_S)


def test_a_socket_handed_over_is_listened_on(start: Start, handed: socket.socket) -> None:
    """Where it is bound is where it serves."""
    address = f"127.0.0.1:{handed.getsockname()[1]}"
    start("queue", "--store", "memory:", "--listen", address, handed=handed)
    with closing(socket.create_connection(handed.getsockname(), 20)) as client:
        client.sendall(b"PING\r\n")
        assert client.recv(100) == b"+PONG\r\n"


def test_a_socket_nobody_asked_for_is_refused(handed: socket.socket) -> None:
    """What is listened on stands in the options."""
    refused = subprocess.run(
        [program(), "queue", "--http", "off", "--store", "memory:", "--listen", "127.0.0.1:0"],
        env=dict(os.environ) | {"LISTEN_FDS": "1", "LISTEN_FDS_FIRST_FD": str(handed.fileno())},
        pass_fds=[handed.fileno()],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert refused.returncode == 1
    assert re.search(r"handed over .* --listen", refused.stderr), refused.stderr


@pytest.mark.parametrize(
    ("command", "arguments", "request_", "answer"),
    [
        ("queue", ("--store", "memory:"), b"PING\r\n", b"+PONG\r\n"),
        ("cache", ("--mock", "3"), b"version\r\n", b"VERSION"),
    ],
)
def test_a_restart_under_load_loses_nobody(
    start: Start,
    handed: socket.socket,
    command: str,
    arguments: tuple[str, ...],
    request_: bytes,
    answer: bytes,
) -> None:
    """Clients that connect, ask and leave go on while server after server takes over."""
    host, port = handed.getsockname()
    stop, served, lost = threading.Event(), [0] * 4, list[str]()

    def visit(number: int) -> None:
        while not stop.is_set():
            try:
                with closing(socket.create_connection((host, port), 20)) as client:
                    client.sendall(request_)
                    said = client.recv(100)
                    if not said.startswith(answer):
                        lost.append(f"answered {said!r}")
                served[number] += 1
            except OSError as error:
                lost.append(str(error))

    server = start(command, *arguments, "--listen", f"{host}:{port}", "--threads", "2", handed=handed)
    visitors = [threading.Thread(target=visit, args=[number]) for number in range(len(served))]
    for visitor in visitors:
        visitor.start()
    try:
        for _ in range(6):
            before = sum(served)
            while sum(served) < before + 50:
                time.sleep(0.001)
            follower = start(
                command, *arguments, "--listen", f"{host}:{port}", "--threads", "2", handed=handed
            )
            server.send_signal(signal.SIGTERM)
            assert server.wait(STOP_S) == 0
            server = follower
    finally:
        stop.set()
        for visitor in visitors:
            visitor.join(STOP_S)
    assert not lost, lost[:5]


def test_two_may_listen_on_one_port_if_both_say_so(start: Start) -> None:
    """The follower is there before the leaver goes, and then serves alone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ("queue", "--store", "memory:", "--listen", f"127.0.0.1:{port}")
    leaver = start(*arguments, "--reuse-port")
    with pytest.raises(RuntimeError):
        start(*arguments)
    start(*arguments, "--reuse-port")
    leaver.send_signal(signal.SIGTERM)
    assert leaver.wait(STOP_S) == 0
    for _ in range(20):
        with closing(socket.create_connection(("127.0.0.1", port), 20)) as client:
            client.sendall(b"PING\r\n")
            assert client.recv(100) == b"+PONG\r\n"


def test_a_unix_socket_handed_over_stays_where_it_is(start: Start, tmp_path: Path) -> None:
    """Its path belongs to whoever made it."""
    path = tmp_path / "tier.sock"
    with socket.socket(socket.AF_UNIX) as handed:
        handed.bind(str(path))
        handed.listen()
        server = start("queue", "--store", "memory:", "--listen", f"unix:{path}", handed=handed)
        server.send_signal(signal.SIGTERM)
        assert server.wait(STOP_S) == 0
    assert path.exists()
