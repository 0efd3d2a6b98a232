"""Tests logins, permissions of accounts, and time limits before a login, by RESP and by HTTP."""

import base64
import http.client
import json
import select
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from typing import Any

import pytest
import redis

from tier import Tier, program
from waiting import are_waiting, until

ONCE = redis.retry.Retry(redis.backoff.NoBackoff(), 0)


@pytest.fixture
def accounts(tmp_path: Path) -> Callable[..., Path]:
    """Add accounts to a file; each has its name as its secret."""
    path = tmp_path / "roles.txt"

    def add(name: str, *roles: str) -> Path:
        subprocess.run(
            [program(), "admin", "account", "add", name, "--file", path, *roles],
            input=f"{name}\n",
            text=True,
            check=True,
            capture_output=True,
        )
        return path

    return add


def client(tier: Tier, account: str, secret: str | None = None) -> redis.Redis:
    """A client that logs in, and tries once."""
    return redis.Redis(
        port=tier.port,
        protocol=3,
        username=account,
        password=secret or account,
        retry=ONCE,
        socket_timeout=20,
    )


def web(
    tier: Tier,
    account: str,
    method: str,
    path: str,
    body: Any = None,  # noqa: ANN401 - JSON
    *,
    secret: str | None = None,
    source: str = "127.0.0.1",
) -> int:
    """Ask HTTP as an account, from this address; the status."""
    connection = http.client.HTTPConnection(
        "127.0.0.1", tier.http_port, timeout=20, source_address=(source, 0)
    )
    with closing(connection):
        token = base64.b64encode(f"{account}:{secret or account}".encode()).decode()
        headers = {"Authorization": f"Basic {token}", "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status


def denied(asked: redis.Redis, *words: str) -> bool:
    """Whether the account is told that it may not."""
    try:
        asked.execute_command(*words)
    except redis.ResponseError as error:
        return str(error).startswith("DENIED")
    return False


@pytest.fixture
def roles(start: Callable[..., Tier], accounts: Callable[..., Path]) -> Tier:
    """A server with an account for each role, and one for everything."""
    accounts("root")
    accounts("sender", "--send", "mail.*")
    accounts("reader", "--receive", "mail.*", "--receive", "other")
    path = accounts("keeper", "--administer", "*")
    tier = start("--accounts", str(path), "--http", "127.0.0.1:0")
    with closing(client(tier, "root")) as root:
        for queue in ("mail.in", "other"):
            root.execute_command("QCREATE", queue)
    return tier


def test_an_account_may_do_what_its_roles_say(roles: Tier) -> None:
    """By RESP."""
    with closing(client(roles, "sender")) as sender, closing(client(roles, "reader")) as reader:
        sender.execute_command("SEND", "mail.in", "x")
        assert denied(sender, "SEND", "other", "x")
        assert denied(sender, "POP", "QUEUE", "mail.in")
        assert denied(sender, "QLIST")
        assert denied(sender, "CLIENT", "LIST")
        assert denied(reader, "SEND", "mail.in", "x")
        assert denied(reader, "POP", "FROM", "sender")
        assert denied(reader, "QPURGE", "mail.in")
        assert reader.execute_command("POP", "QUEUE", "mail.in", "FROM", "sender") is not None
        assert reader.execute_command("PEEK", "QUEUE", "other") is None
    with closing(client(roles, "keeper")) as keeper:
        assert keeper.execute_command("QCREATE", "new") > 0
        assert len(keeper.execute_command("QLIST")) == 3
        assert denied(keeper, "SEND", "new", "x")
        assert denied(keeper, "POP", "QUEUE", "new")


def test_a_refusal_keeps_its_place_among_the_answers(roles: Tier) -> None:
    """A denied request between others is answered between them."""
    with closing(client(roles, "sender")) as sender, sender.pipeline(transaction=False) as pipe:
        for _ in range(50):
            pipe.execute_command("SEND", "mail.in", "x")
            pipe.execute_command("SEND", "other", "x")
            pipe.execute_command("PING")
        answers = pipe.execute(raise_on_error=False)
    for i in range(0, 150, 3):
        assert isinstance(answers[i], int)
        assert isinstance(answers[i + 1], redis.ResponseError)
        assert answers[i + 2] in (b"PONG", "PONG", True)


def test_roles_hold_over_http(roles: Tier) -> None:
    """The same accounts, the same roles."""
    message = {"body": "x"}
    assert web(roles, "sender", "POST", "/v1/queues/mail.in/messages", message) in (200, 201)
    assert web(roles, "sender", "POST", "/v1/queues/other/messages", message) == 403
    for path in ("/v1/queues", "/v1/clients", "/v1/accounts"):
        assert web(roles, "sender", "GET", path) == 403, path
        assert web(roles, "keeper", "GET", path) == 200, path
    for path in ("/v1/status", "/v1/windows", "/metrics"):
        assert web(roles, "sender", "GET", path) == 200, path
    assert web(roles, "sender", "DELETE", "/v1/clients/999999") == 403
    assert web(roles, "sender", "GET", "/v1/readable") == 403
    assert web(roles, "reader", "POST", "/v1/queues/mail.in/pop", {}) == 200


def test_an_accounts_file_that_cannot_be_used_any_more_is_told(
    start: Callable[..., Tier], accounts_file: Path
) -> None:
    """Who is in it stays in force, and the log says that changes do not count."""
    tier = start("--accounts", str(accounts_file))
    accounts_file.write_text("rubbish")
    for _ in range(3):
        with closing(client(tier, "alice", "wonderland")) as alice:
            assert alice.ping()
    assert tier.stop() == 0
    assert tier.log().count("line 1: it is not `name:$argon2id$") == 1, tier.log()


def test_a_role_that_is_none_is_refused_with_its_word(tmp_path: Path) -> None:
    """Before anything is written."""
    refused = subprocess.run(
        [program(), "admin", "account", "add", "a", "--file", tmp_path / "a.txt", "--send", "two words"],
        input="x\n",
        text=True,
        check=False,
        capture_output=True,
    )
    assert refused.returncode == 2
    assert "two words" in refused.stderr
    assert not (tmp_path / "a.txt").exists()


def test_wrong_secrets_are_counted_and_slow_down_only_who_gives_them(roles: Tier) -> None:
    """Each one waits longer; somebody else does not wait for them."""
    begin = time.monotonic()
    for guess in range(5):
        with closing(client(roles, "sender", f"wrong {guess}")) as guesser, pytest.raises(redis.RedisError):
            guesser.ping()
    assert time.monotonic() - begin > 1.49, "0.1, 0.2, 0.4 and 0.8 s between one and the next"
    with closing(client(roles, "reader")) as reader:
        assert int(reader.info("clients")["logins_failed"]) == 5
    with closing(client(roles, "sender")) as sender:
        sender.ping()
    assert time.monotonic() - begin > 3.09, "the account itself waits too, from here: another 1.6 s"


def test_who_repeats_a_stale_secret_keeps_nobody_out(roles: Tier, accounts: Callable[..., Path]) -> None:
    """It is refused each time, and makes no login of the same account from here wait, until it is right."""
    begin = time.monotonic()
    for _ in range(50):
        with closing(client(roles, "sender", "stale")) as stale, pytest.raises(redis.RedisError):
            stale.ping()
    with closing(client(roles, "sender")) as sender:
        sender.ping()
        assert int(sender.info("clients")["logins_failed"]) == 50
    assert time.monotonic() - begin < 60, "guesses would have taken some four minutes"
    subprocess.run(
        [program(), "admin", "account", "add", "sender", "--file", accounts("other"), "--send", "mail.*"],
        input="stale\n",
        text=True,
        check=True,
        capture_output=True,
    )
    with closing(client(roles, "sender", "stale")) as sender:
        assert sender.ping()


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"])
def test_wrong_secrets_slow_down_who_gives_them_over_http_too(roles: Tier, source: str) -> None:
    """Also while a connection inside is kept for the account, which knows the right secret."""
    assert web(roles, "keeper", "GET", "/v1/queues") == 200
    for guess in range(6):
        begin = time.monotonic()
        wrong = web(roles, "keeper", "GET", "/v1/queues", secret=f"wrong {guess}", source=source)
        assert wrong == 401
    assert web(roles, "keeper", "GET", "/v1/queues", source=source) == 200
    assert time.monotonic() - begin > 3.19, "0.1 s after the first one, and twice as long each time"
    with closing(client(roles, "reader")) as reader:
        assert int(reader.info("clients")["logins_failed"]) == 6


def test_who_gives_wrong_secrets_keeps_nobody_from_the_list_of_queues(roles: Tier) -> None:
    """Their pauses are their own: all of them together are a minute and more."""
    guess = "GET /v1/queues HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sender:wrong{}\r\n\r\n"
    guesses = [socket.create_connection(("127.0.0.1", roles.http_port), 20) for _ in range(20)]
    try:
        for number, guesser in enumerate(guesses):
            guesser.sendall(guess.format(number).encode())
        first, _, _ = select.select(guesses, [], [], 20)
        assert first[0].recv(100).startswith(b"HTTP/1.1 401"), "from now on the others wait"
        assert web(roles, "keeper", "GET", "/v1/queues") == 200
        answered, _, _ = select.select(guesses, [], [], 0)
        assert len(answered) < len(guesses) - 1, "not because they had ended"
    finally:
        for guesser in guesses:
            guesser.close()


def test_strangers_have_so_many_places_of_one_address(
    start: Callable[..., Tier], accounts_file: Path
) -> None:
    """A quarter of all; who logs in gives the place back before they know that they are in."""
    tier = start("--accounts", str(accounts_file), "--max-clients", "40")
    strangers = [socket.create_connection(("127.0.0.1", tier.port), 20) for _ in range(10)]
    try:
        for stranger in strangers:
            stranger.sendall(b"PING\r\n")
            assert stranger.recv(100) == b"+PONG\r\n"
        with closing(socket.create_connection(("127.0.0.1", tier.port), 20)) as one_more:
            assert one_more.recv(200).startswith(b"-ERR too many connections from your address")
        strangers.pop().close()
        deadline = time.monotonic() + 120
        while True:
            try:
                with closing(client(tier, "alice", "wonderland")) as alice:
                    assert alice.ping()
                    break
            except redis.RedisError:
                assert time.monotonic() < deadline
        with ExitStack() as inside:
            for _ in range(5):
                assert inside.enter_context(closing(client(tier, "alice", "wonderland"))).ping()
    finally:
        for stranger in strangers:
            stranger.close()


def ask_health(connection: socket.socket) -> bytes:
    """What the tier says of its health over this connection."""
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = b""
    while not answer.endswith(b"ok\n"):
        answer += (said := connection.recv(1000))
        assert said, "it ended"
    return answer


def places_of_http() -> int:
    """How many connections to HTTP there may be, half of them of one address."""
    files = getrlimit(RLIMIT_NOFILE)[1]  # the tier takes as many as it may have
    return 1024 if files == RLIM_INFINITY else min(1024, files // 32)


def test_http_answers_health_checks_whatever_silent_connections_there_are(start: Callable[..., Tier]) -> None:
    """Who comes has the place of the longest silent one: of the same address when that has its half."""
    tier = start("--http", "127.0.0.1:0")
    address = ("127.0.0.1", tier.http_port)
    half = (places_of_http() + 1) // 2
    with ExitStack() as stack:

        def connect(source: str) -> socket.socket:
            return stack.enter_context(socket.create_connection(address, 20, (source, 0)))

        first = [connect("127.0.0.1") for _ in range(half)]
        # Whose request has begun, and not come to its end, is as silent as the others.
        first[0].sendall(b"GET / HTTP/1.1\r\n")
        assert ask_health(first[1]).startswith(b"HTTP/1.1 200")
        assert ask_health(connect("127.0.0.1")).startswith(b"HTTP/1.1 200")
        assert first[0].recv(100) == b""

        second = [connect("127.0.0.2") for _ in range(half)]
        assert ask_health(second[-1]).startswith(b"HTTP/1.1 200")
        assert ask_health(connect("127.0.0.3")).startswith(b"HTTP/1.1 200")
        assert first[2].recv(100) == b""
        assert ask_health(first[1]).startswith(b"HTTP/1.1 200"), "it has asked later than others came"


def test_http_answers_health_checks_however_many_pops_wait(start: Callable[..., Tier]) -> None:
    """They have three of four places, of an address and of all; one more is told so, and takes nothing."""
    tier = start("--http", "127.0.0.1:0")
    address, waiting = ("127.0.0.1", tier.http_port), 0
    watcher = redis.Redis(port=tier.port)
    watcher.execute_command("QCREATE", "q")
    of_all, of_one = places_of_http() * 3 // 4, (places_of_http() + 1) // 2 * 3 // 4
    body = b'{"block_ms": 600000}'
    head = b"POST /v1/queues/q/pop HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    pop = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    with ExitStack() as stack:

        def connect(source: str) -> socket.socket:
            return stack.enter_context(socket.create_connection(address, 20, (source, 0)))

        for source, pops in (("127.0.0.1", of_one), ("127.0.0.2", of_all - of_one)):
            for _ in range(pops):
                connect(source).sendall(pop)
            waiting += pops
            until(partial(are_waiting, tier, waiting))
            one_more = connect(source)
            one_more.sendall(pop)
            assert one_more.recv(1000).startswith(b"HTTP/1.1 503 ")
            assert ask_health(connect(source)).startswith(b"HTTP/1.1 200")
        assert ask_health(connect("127.0.0.3")).startswith(b"HTTP/1.1 200")


def test_admin_says_by_which_options_to_log_in(
    start: Callable[..., Tier], accounts: Callable[..., Path]
) -> None:
    """A tier that does not know who asks speaks of LOGIN and of headers; on a command line it is options."""
    tier = start("--accounts", str(accounts("keeper", "--administer", "*")), "--http", "127.0.0.1:0")
    by_resp, by_http = ["--connect", f"127.0.0.1:{tier.port}"], ["--http", f"127.0.0.1:{tier.http_port}"]
    unknown = ["--user", "nobody"]
    for words in (
        ["queues", *by_resp],
        ["queues", *by_resp, *unknown],
        ["doctor", *by_http],
        ["log-level", *by_http],
        ["log-level", *by_http, *unknown],
    ):
        done = subprocess.run(
            [program(), "admin", *words], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 1
        said = "; name an account with --user, and the file with its secret with --secret-file\n"
        assert done.stderr.endswith(said), words
