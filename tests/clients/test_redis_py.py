"""Tests redis-py as a Python program uses it, in both protocols, with the library's defaults."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import redis
import redis.asyncio

from losing_proxy import LosingProxy
from tier import Tier, message

Connect = Callable[..., "redis.Redis"]


@pytest.fixture(params=[None, 2, 3], ids=["default", "resp2", "resp3"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Connect a client, in the library's default protocol and in each by name."""
    options = {} if request.param is None else {"protocol": request.param}
    clients: list[redis.Redis] = []

    def connect(tier: Tier, **more: Any) -> redis.Redis:  # noqa: ANN401 - the library's own options
        clients.append(redis.Redis(**{"port": tier.port, **options, **more}))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until something is true."""
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.01)


def test_it_connects_with_its_defaults(tier: Tier, connect: Connect) -> None:
    """Everything the library asks of a server is answered as it expects."""
    client = connect(tier, client_name="a-python-program", health_check_interval=1)
    assert client.ping()
    assert client.echo("hello") == b"hello"
    assert client.select(0)
    assert client.client_getname() in ("a-python-program", b"a-python-program")
    assert client.client_id() > 0
    assert client.time()[0] > 1_700_000_000
    assert client.info()["loading"] == 0
    assert "posthaste_version" in client.info("server")
    assert client.config_get("maxclients")
    listed = {entry["name"]: entry for entry in client.client_list()}
    assert listed["a-python-program"]["lib-name"].startswith("redis-py")


def test_clients_are_listed_whatever_their_accounts_are_called(tier: Tier, connect: Connect) -> None:
    """The library splits a line at blanks and takes what holds a `=` for a field."""
    client = connect(tier)
    client.execute_command("LOGIN", "two words age=5 %")
    users = [unquote(entry["user"]) for entry in client.client_list()]
    assert "two words age=5 %" in users


def test_who_closes_connections_keeps_their_own(tier: Tier, connect: Connect) -> None:
    """As in Redis: `CLIENT KILL ID` and `ADDR` spare the one that asks, the form of old ends it, answered."""
    other = connect(tier)
    with socket.create_connection(("127.0.0.1", tier.port)) as asking, asking.makefile("rwb") as lines:

        def say(text: str) -> None:
            lines.write(text.encode() + b"\r\n")
            lines.flush()

        say("CLIENT ID")
        own = int(lines.readline()[1:])
        address = "{}:{}".format(*asking.getsockname())
        for target in (f"ID {own}", f"ADDR {address}"):
            say(f"CLIENT KILL {target}\r\nPING")
            assert [lines.readline(), lines.readline()] == [b":0\r\n", b"+PONG\r\n"]
        say(f"CLIENT KILL ID {other.client_id()}")
        assert lines.readline() == b":1\r\n"
        say("CLIENT KILL 127.0.0.1:1")
        assert lines.readline() == b"-ERR No such client\r\n"
        say(f"CLIENT KILL {address}\r\nQCREATE afterwards")
        assert lines.read() == b"+OK\r\n"
    assert b"afterwards" not in [queue[0] for queue in connect(tier).execute_command("QLIST")]


def test_a_message_map_holds_what_was_sent(tier: Tier, connect: Connect) -> None:
    """Every field arrives as its type, and the body as its bytes."""
    client = connect(tier)
    body = bytes(range(256)) + b"\r\n"
    client.execute_command("QCREATE", "orders")
    sent = client.execute_command("SEND", "orders", body, "PRIORITY", 7, "HEADER", "kind", "coffee")
    found = message(client.execute_command("POP", "QUEUE", "orders", "LEASE", 60_000))
    assert found["id"] == sent
    assert found["queue"] == b"orders"
    assert found["from"] == b"default"
    assert found["to"] is None
    assert found["sent_ms"] > 1_700_000_000_000
    assert found["deliveries"] == 1
    assert found["body"] == body
    assert found["priority"] == 7
    assert message(found["headers"]) == {"kind": b"coffee"}
    assert client.execute_command("ACK", found["receipt"]) == 1
    assert client.execute_command("POP", "QUEUE", "orders") is None


def test_decoded_responses_are_text(tier: Tier, connect: Connect) -> None:
    """With `decode_responses` names and values are strings."""
    client = connect(tier, decode_responses=True)
    client.execute_command("QCREATE", "orders")
    client.execute_command("SEND", "orders", "zwei Kaffee, groß")
    found = message(client.execute_command("PEEK", "QUEUE", "orders"))
    assert found["body"] == "zwei Kaffee, groß"


def test_a_pipeline_of_a_thousand_keeps_its_order(tier: Tier, connect: Connect) -> None:
    """Requests sent in one go are done and answered in that order."""
    client = connect(tier)
    client.execute_command("QCREATE", "orders")
    with client.pipeline(transaction=False) as pipeline:
        for number in range(1000):
            pipeline.execute_command("SEND", "orders", str(number))
        ids = pipeline.execute()
        assert ids == sorted(ids)
        for _ in range(1000):
            pipeline.execute_command("POP", "QUEUE", "orders")
        bodies = [int(message(answer)["body"]) for answer in pipeline.execute()]
    assert bodies == list(range(1000))


def test_an_error_in_a_pipeline_stands_in_its_place(tier: Tier, connect: Connect) -> None:
    """One refused request harms none of its neighbors."""
    client = connect(tier)
    with client.pipeline(transaction=False) as pipeline:
        pipeline.execute_command("QCREATE", "orders")
        pipeline.execute_command("SEND", "nowhere", "x")
        pipeline.execute_command("SEND", "orders", "x")
        created, refused, sent = pipeline.execute(raise_on_error=False)
    assert created == 1
    assert isinstance(refused, redis.ResponseError)
    assert str(refused).startswith("NOQUEUE")
    assert isinstance(sent, int)


def test_a_transaction_tells_that_its_requests_were_done(tier: Tier, connect: Connect) -> None:
    """A pipeline with the library's defaults is one: whoever takes its error for nothing done sends twice."""
    client = connect(tier)
    client.execute_command("QCREATE", "orders")
    with client.pipeline() as pipeline:
        pipeline.execute_command("SEND", "orders", "x")
        with pytest.raises(redis.ResponseError, match="has been done, each request by itself"):
            pipeline.execute()
    assert client.execute_command("POP", "QUEUE", "orders") is not None


def test_a_blocked_pop_wakes_when_something_is_sent(tier: Tier, connect: Connect) -> None:
    """A consumer that waits has its message as soon as it is stored."""
    consumer, sender = connect(tier, socket_timeout=60), connect(tier)
    sender.execute_command("QCREATE", "orders")
    pop = ("POP", "QUEUE", "orders", "BLOCK", 30_000)
    with ThreadPoolExecutor() as beside:
        found = beside.submit(consumer.execute_command, *pop)
        wait_until(lambda: int(sender.info("store")["blocked_clients"]) == 1)
        sender.execute_command("SEND", "orders", "now")
        assert message(found.result())["body"] == b"now"


def test_a_blocked_pop_gives_up_with_none(tier: Tier, connect: Connect) -> None:
    """Nothing came: the answer is None, after the time asked for."""
    client = connect(tier)
    client.execute_command("QCREATE", "orders")
    started = time.monotonic()
    assert client.execute_command("POP", "QUEUE", "orders", "BLOCK", 300) is None
    assert time.monotonic() - started > 0.29


def test_a_client_that_gave_up_waiting_is_given_nothing(tier: Tier, connect: Connect) -> None:
    """A read time-out shorter than BLOCK costs an error, never a message."""
    no_retry = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
    impatient = connect(tier, socket_timeout=0.2, retry=no_retry)
    other = connect(tier)
    other.execute_command("QCREATE", "orders")
    with pytest.raises(redis.TimeoutError):
        impatient.execute_command("POP", "QUEUE", "orders", "BLOCK", 60_000)
    wait_until(lambda: int(other.info("store")["blocked_clients"]) == 0)
    other.execute_command("SEND", "orders", "still here")
    assert message(other.execute_command("POP", "QUEUE", "orders"))["body"] == b"still here"


def test_errors_carry_their_word(tier: Tier, connect: Connect) -> None:
    """A program can tell refusals apart by their first word."""
    client = connect(tier)
    for request, word in (
        (("PEEK", "QUEUE", "nowhere"), "NOQUEUE"),
        (("PEEK",), "BADQUERY"),
        (("NONSENSE",), "unknown command"),
    ):
        with pytest.raises(redis.ResponseError, match=word):
            client.execute_command(*request)
    assert client.ping()


def test_a_repeated_send_is_stored_once(tier: Tier, connect: Connect) -> None:
    """The library repeats a SEND whose answer was lost; its DEDUP key makes that harmless."""
    with LosingProxy(tier.port) as proxy:
        client = connect(tier, port=proxy.port)
        client.execute_command("QCREATE", "orders")
        proxy.lose_next_answer()
        sent = client.execute_command("SEND", "orders", "once", "DEDUP", "order-17")
        assert proxy.lost == 1
        found = client.execute_command("POP", "QUEUE", "orders", "COUNT", 10)
        assert [(message(one)["id"], message(one)["body"]) for one in found] == [(sent, b"once")]


def test_a_repeated_pop_gives_the_same_message(tier: Tier, connect: Connect) -> None:
    """The library repeats a POP whose answer was lost; its REQID key makes that harmless."""
    with LosingProxy(tier.port) as proxy:
        client = connect(tier, port=proxy.port)
        client.execute_command("QCREATE", "orders")
        client.execute_command("SENDMANY", "orders", "first", "second")
        proxy.lose_next_answer()
        found = message(client.execute_command("POP", "QUEUE", "orders", "REQID", "attempt-1"))
        assert proxy.lost == 1
        assert found["body"] == b"first"
        assert message(client.execute_command("POP", "QUEUE", "orders"))["body"] == b"second"


def test_a_client_outlives_a_crash_of_the_server(tier: Tier, connect: Connect) -> None:
    """After `kill -9` and a start the same client object goes on, and what was acknowledged is there."""
    client = connect(tier)
    client.execute_command("QCREATE", "orders")
    sent = client.execute_command("SEND", "orders", "durable")
    tier.kill()
    tier.start()
    found = message(client.execute_command("POP", "QUEUE", "orders"))
    assert (found["id"], found["body"]) == (sent, b"durable")


def test_a_closed_server_admits_accounts_of_its_file(
    start: Callable[..., Tier], accounts_file: Path, connect: Connect
) -> None:
    """The library's username and password are the account and its secret."""
    tier = start("--accounts", str(accounts_file))
    alice = connect(tier, username="alice", password="wonderland")
    alice.execute_command("QCREATE", "orders")
    alice.execute_command("SEND", "orders", "x")
    assert message(alice.execute_command("PEEK", "QUEUE", "orders"))["from"] == b"alice"
    with pytest.raises(redis.AuthenticationError):
        connect(tier).execute_command("QLIST")
    with pytest.raises(redis.RedisError, match="NOACCOUNT"):
        connect(tier, username="alice", password="looking-glass").ping()


def test_a_unix_socket_serves_too(tier: Tier, connect: Connect) -> None:
    """The same library, the same answers, without TCP."""
    client = connect(tier, unix_socket_path=str(tier.socket_path))
    assert client.execute_command("QCREATE", "orders") == 1


def test_the_asynchronous_client_works(tier: Tier) -> None:
    """Many coroutines share a pool; each blocked pop has a connection of its own."""

    async def scenario() -> list[bytes]:
        async with redis.asyncio.Redis(port=tier.port, socket_timeout=60) as client:
            await client.execute_command("QCREATE", "orders")
            pops = [
                asyncio.create_task(client.execute_command("POP", "QUEUE", "orders", "BLOCK", 30_000))
                for _ in range(20)
            ]
            await asyncio.sleep(0.2)
            for number in range(20):
                await client.execute_command("SEND", "orders", str(number))
            return [message(answer)["body"] for answer in await asyncio.gather(*pops)]

    bodies = asyncio.run(scenario())
    assert sorted(int(body) for body in bodies) == list(range(20))
