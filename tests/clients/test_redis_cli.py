"""Tests redis-cli as operators and shell scripts use it."""

import json
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from fcntl import ioctl
from pathlib import Path

from tier import Tier


def cli(tier: Tier, *words: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run redis-cli once."""
    return subprocess.run(
        ["redis-cli", "-p", str(tier.port), *words],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        timeout=120,
        check=False,
    )


def test_a_command_prints_its_answer(tier: Tier) -> None:
    """One command, one answer, as a shell script reads it."""
    assert cli(tier, "QCREATE", "orders").stdout == b"1\n"
    assert cli(tier, "SEND", "orders", "two coffees").stdout == b"1\n"
    lines = cli(tier, "POP", "QUEUE", "orders").stdout.decode().split("\n")
    assert lines[lines.index("body") + 1] == "two coffees"
    assert cli(tier, "POP", "QUEUE", "orders").stdout == b"\n"


def test_resp3_prints_messages_as_maps(tier: Tier) -> None:
    """With -3 a message is a map, and with --json a JSON object."""
    cli(tier, "QCREATE", "orders")
    cli(tier, "SEND", "orders", "two coffees", "TO", "default", "HEADER", "kind", "drinks")
    shown = cli(tier, "-3", "--no-raw", "PEEK", "QUEUE", "orders").stdout
    assert b'"body" => "two coffees"' in shown
    found = json.loads(cli(tier, "-3", "--json", "POP", "QUEUE", "orders").stdout)
    assert found["body"] == "two coffees"
    assert found["to"] == "default"
    assert found["headers"] == {"kind": "drinks"}


def test_piped_commands_are_answered_in_their_order(tier: Tier) -> None:
    """A file of commands is a script."""
    script = b"QCREATE orders\nSEND orders a\nSEND orders b\nPING\nQREADABLE\n"
    assert cli(tier, stdin=script).stdout == b"1\n1\n2\nPONG\norders\n"


def test_a_message_is_piped_in_as_it_is(tier: Tier) -> None:
    """-x takes the last argument from standard input, whatever bytes it holds."""
    cli(tier, "QCREATE", "orders")
    body = bytes(range(256))
    assert cli(tier, "-x", "SEND", "orders", stdin=body).stdout == b"1\n"
    info = json.loads(cli(tier, "-3", "--json", "QINFO", "orders").stdout)
    assert info["bytes"] == 256


def test_mass_insertion_loses_nothing(tier: Tier) -> None:
    """--pipe sends requests as fast as the server takes them, and counts the answers."""
    cli(tier, "QCREATE", "orders")
    count = 20_000
    requests = b"".join(
        b"*3\r\n$4\r\nSEND\r\n$6\r\norders\r\n$%d\r\n%d\r\n" % (len(str(number)), number)
        for number in range(count)
    )
    done = cli(tier, "--pipe", stdin=requests)
    assert b"errors: 0, replies: %d" % count in done.stdout
    info = json.loads(cli(tier, "-3", "--json", "QINFO", "orders").stdout)
    assert info["messages"] == count


def test_an_error_is_told_to_the_shell(tier: Tier) -> None:
    """With -e a refusal is a failure of the program."""
    done = cli(tier, "-e", "PEEK", "QUEUE", "nowhere")
    assert done.returncode == 1
    assert b"NOQUEUE" in done.stdout + done.stderr


def test_a_url_logs_in(start: Callable[..., Tier], accounts_file: Path) -> None:
    """Account and secret in a URL are what AUTH gets."""
    tier = start("--accounts", str(accounts_file))
    url = f"redis://alice:wonderland@127.0.0.1:{tier.port}"
    assert cli(tier, "--no-auth-warning", "-u", url, "QCREATE", "orders").stdout == b"1\n"
    assert cli(tier, "QCREATE", "orders").stdout.startswith(b"NOAUTH")


def test_a_unix_socket_serves_too(tier: Tier) -> None:
    """-s names the socket's path."""
    assert cli(tier, "-s", str(tier.socket_path), "PING").stdout == b"PONG\n"


def test_every_command_is_documented(tier: Tier) -> None:
    """COMMAND DOCS knows each of our own commands, with a summary and its arguments."""
    own = [
        *("QCREATE", "QDELETE", "QPURGE", "QLIST", "QINFO", "QREDRIVE", "QREADABLE", "QBROWSE"),
        *("SEND", "SENDMANY", "PEEK", "POP", "ACK", "NACK", "EXTEND", "LOGIN", "LOGOUT", "ACCOUNTS"),
    ]
    documented = json.loads(cli(tier, "-3", "--json", "COMMAND", "DOCS", *own).stdout)
    assert sorted(name.upper() for name in documented) == sorted(own)
    assert all(entry["summary"] for entry in documented.values())
    (send,) = json.loads(cli(tier, "-3", "--json", "COMMAND", "DOCS", "SEND").stdout).values()
    arguments = {argument["name"] for argument in send["arguments"]}
    assert {"queue", "body"} <= arguments
    assert len(json.loads(cli(tier, "-3", "--json", "COMMAND", "LIST").stdout)) >= len(own)


def test_the_terminal_completes_our_commands(tier: Tier) -> None:
    """On a terminal TAB completes a command of ours, and its arguments are shown."""
    terminal, inside = pty.openpty()
    ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    shell = subprocess.Popen(
        ["redis-cli", "-p", str(tier.port)],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env={**os.environ, "TERM": "xterm", "REDISCLI_HISTFILE": "/dev/null"},
        close_fds=True,
    )
    os.close(inside)
    try:
        expect(terminal, b"> ")
        os.write(terminal, b"SENDM\t")
        expect(terminal, b"SENDMANY")
        os.write(terminal, b" ")
        expect(terminal, b"queue")
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)


def expect(terminal: int, wanted: bytes) -> None:
    """Read the screen until it shows something."""
    shown = b""
    end = time.monotonic() + 60
    while wanted not in shown:
        ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"{wanted!r} does not come; the screen shows {shown!r}"
        shown += os.read(terminal, 4096)
