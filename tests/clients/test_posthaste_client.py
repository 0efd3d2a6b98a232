"""The typed Python client (clients/python), blocking, against the real program."""

import pickle
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import posthaste
import pytest
import redis
from posthaste import Client, Consumer, DeadLetter, Message, requests
from posthaste.aio import Client as AsyncClient
from posthaste.aio import Consumer as AsyncConsumer

from losing_proxy import LosingProxy
from tier import Tier
from waiting import are_waiting, until

Connect = Callable[..., Client]


def test_a_message_is_an_object_with_what_was_sent(client: Client) -> None:
    """Every field has its type; the body is bytes, and text where it is UTF-8."""
    sent = client.send("orders", "zwei Kaffee, groß", priority=7, headers={"kind": "coffee"}, ttl=60)
    found = client.pop("orders", lease=60)
    assert found is not None
    assert (found.id, found.queue, found.sender, found.recipient) == (sent, "orders", "default", None)
    assert (found.text, found.priority, found.headers) == ("zwei Kaffee, groß", 7, {"kind": b"coffee"})
    assert abs((datetime.now(UTC) - found.sent_at).total_seconds()) < 60
    assert found.deliveries == 1
    assert {found} == {pickle.loads(pickle.dumps(found))}  # noqa: S301 - its own
    assert client.ack(found) == 1
    assert client.pop("orders") is None


def test_a_client_may_come_over_a_unix_socket(tier: Tier) -> None:
    """As its URL says."""
    with Client(f"unix://{tier.socket_path}") as client:
        assert client.create_queue("orders") == 1


def test_a_body_is_any_bytes(client: Client) -> None:
    """And one that is no text says so, with Python's own error."""
    client.send("orders", bytes(range(256)))
    found = client.pop("orders")
    assert found is not None
    assert found.body == bytes(range(256))
    with pytest.raises(UnicodeDecodeError):
        _ = found.text


def test_a_queue_tells_its_options_and_counts(client: Client) -> None:
    """What was asked for at its creation is what it has."""
    grave = DeadLetter("failed", after=3)
    client.create_queue("orders", max_messages=10, max_bytes=1000, ttl=60.5, dead_letter=grave, strict=True)
    client.send_many("orders", "one", "two", "three")
    client.pop("orders", lease=60)
    details = client.queue("orders")
    assert (details.messages, details.leased, details.delayed, details.bytes) == (3, 1, 0, 11)
    assert (details.max_messages, details.max_bytes, details.ttl_s) == (10, 1000, 60.5)
    assert (details.dead_letter, details.strict, details.forbid_self) == (grave, True, False)
    assert [queue.name for queue in client.queues()] == ["orders", "failed"]
    assert client.readable() == ["orders"]
    assert client.readable(not_own=True) == []
    assert client.purge_queue("orders") == 3
    assert client.delete_queue("failed") == 0
    unnamed = client.create_queue()
    assert client.queue(str(unnamed)).dead_letter is None


def test_an_option_that_there_is_not_is_refused(client: Client) -> None:
    """It would be left out: a message without its key, a queue without its limit, a pop without its wait."""
    mistyped: list[tuple[Callable[..., object], tuple[str, ...], str, str]] = [
        (client.create_queue, ("orders",), "maxmsgs", "max_messages"),
        (client.send, ("orders", "x"), "dedub", "dedup"),
        (client.peek, ("orders",), "notown", "not_own"),
        (client.pop, ("orders",), "block", "wait"),
        (partial(client.pop_many, count=2), ("orders",), "broadcst", "broadcast"),
        (partial(Consumer, client), ("orders",), "leese", "sender"),
        (partial(AsyncConsumer, AsyncClient()), ("orders",), "leese", "sender"),
    ]
    for call, words, wrong, right in mistyped:
        with pytest.raises(TypeError, match=f"no option {wrong}; there are .*{right}"):
            call(*words, **{wrong: 1})
    assert client.queue("orders").messages == 0


def test_options_of_a_queue_that_are_off_replace_those_it_has(client: Client) -> None:
    """And none given keep them."""
    client.create_queue("orders", max_messages=5, strict=True)
    client.create_queue("orders")
    assert client.queue("orders").strict
    client.create_queue("orders", strict=False)
    details = client.queue("orders")
    assert (details.strict, details.max_messages) == (False, None)
    client.create_queue("new", forbid_self=False)
    assert not client.queue("new").forbid_self
    unnamed = client.create_queue(strict=False)
    assert not client.queue(str(unnamed)).strict


def test_a_read_may_choose_and_look_ahead(client: Client) -> None:
    """By sender, not one's own, several at once."""
    client.send_many("orders", "one", "two")
    client.send("orders", "urgent", priority=1)
    assert [message.text for message in client.peek_many("orders", count=2)] == ["urgent", "one"]
    assert client.peek("orders", not_own=True) is None
    assert client.peek(sender="nobody") is None
    taken = client.pop_many(sender="default", count=5)
    assert [message.text for message in taken] == ["urgent", "one", "two"]
    assert client.pop_many("orders", count=5) == []


def test_none_at_all_may_be_sent_or_acknowledged(client: Client) -> None:
    """As a program does that passes on what it has: `ack(*pop_many(…))`."""
    assert client.send_many("orders", *()) == []
    assert client.ack(*client.pop_many("orders", count=5, lease=60)) == 0


def test_every_refusal_is_a_type(start: Callable[..., Tier], connect: Connect) -> None:
    """A program catches what it can do something about."""
    client = connect(start("--max-message", "1000").port)
    client.create_queue("small", max_messages=1)
    client.create_queue("hermit", forbid_self=True)
    client.create_queue("strict", strict=True)
    client.send("small", "x")
    refusals: list[tuple[type[posthaste.Refused], Callable[[], object]]] = [
        (posthaste.NoQueue, lambda: client.send("nowhere", "x")),
        (posthaste.BadQuery, lambda: client.peek()),
        (posthaste.TooBig, lambda: client.send("small", "x" * 1001)),
        (posthaste.Full, lambda: client.send("small", "x")),
        (posthaste.Denied, lambda: client.send("hermit", "x", to="default")),
        (posthaste.NoAccount, lambda: client.send("strict", "x", to="nobody")),
    ]
    for kind, ask in refusals:
        with pytest.raises(kind) as caught:
            ask()
        assert type(caught.value) is kind
        assert not str(caught.value).startswith(kind.word)
    with pytest.raises(posthaste.Refused, match="PRIORITY"):
        client.send("small", "x", priority=256)


def test_a_closed_tier_admits_its_accounts(
    start: Callable[..., Tier], accounts_file: Path, connect: Connect
) -> None:
    """Account and secret; without them, or with others, an error that says which."""
    port = start("--accounts", str(accounts_file)).port
    alice = connect(port, account="alice", secret="wonderland")
    alice.create_queue("orders")
    with pytest.raises(posthaste.NotLoggedIn):
        connect(port).queues()
    with pytest.raises(posthaste.NoAccount):
        connect(port, account="alice", secret="looking-glass").queues()


def test_not_logged_in_is_told_apart_by_older_versions_of_redis_py_too(
    start: Callable[..., Tier], accounts_file: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those before 7.2 keep the word NOAUTH nowhere; nobody asks again as after a lost connection."""
    monkeypatch.setattr(
        redis.AuthenticationError, "__init__", lambda self, text, **_: Exception.__init__(self, text)
    )
    monkeypatch.setattr(redis.AuthenticationError, "status_code", None, raising=False)
    with pytest.raises(posthaste.NotLoggedIn):
        connect(start("--accounts", str(accounts_file)).port).queues()


def test_a_send_whose_answer_is_lost_is_stored_once(tier: Tier, connect: Connect) -> None:
    """It is repeated with the same key."""
    with LosingProxy(tier.port) as proxy:
        client = connect(proxy.port)
        client.create_queue("orders")
        proxy.lose_next_answer()
        sent = client.send("orders", "once")
        assert proxy.lost == 1
        assert [message.id for message in client.peek_many("orders", count=10)] == [sent]


def test_a_pop_whose_answer_is_lost_gives_its_message_all_the_same(tier: Tier, connect: Connect) -> None:
    """It is repeated with the same key, so it is not a second pop."""
    with LosingProxy(tier.port) as proxy:
        client = connect(proxy.port)
        client.create_queue("orders")
        client.send_many("orders", "first", "second")
        proxy.lose_next_answer()
        popped = client.pop("orders")
        assert proxy.lost == 1
        assert popped is not None
        assert popped.text == "first"
        assert [message.text for message in client.peek_many("orders", count=10)] == ["second"]


def test_what_cannot_be_repeated_is_not(tier: Tier, connect: Connect) -> None:
    """The program hears that the connection was lost, and nothing is there twice."""
    with LosingProxy(tier.port) as proxy:
        client = connect(proxy.port)
        client.create_queue("orders")
        proxy.lose_next_answer()
        with pytest.raises(posthaste.ConnectionLost):
            client.send_many("orders", "one", "two")
        assert len(client.peek_many("orders", count=10)) == 2


@pytest.fixture
def back_by_the_second_try(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tier that is away, and that the first pause between two tries brings back."""
    tier.kill()
    monkeypatch.setattr("posthaste.client.time.sleep", lambda _: tier.start())


@pytest.mark.usefixtures("back_by_the_second_try")
def test_what_found_no_connection_may_be_repeated_whatever_it_is(tier: Tier, connect: Connect) -> None:
    """Nothing was sent, so nothing can be there twice."""
    client = connect(tier.port)
    with pytest.raises(posthaste.NoQueue):
        client.send_many("orders", "one", "two")
    with pytest.raises(posthaste.NotConnected):
        connect(1, attempts=1).queues()


@pytest.mark.usefixtures("back_by_the_second_try")
def test_what_found_no_connection_leaves_no_doubt(tier: Tier, connect: Connect) -> None:
    """An acknowledgment that comes too late is not taken for one whose answer was lost."""
    assert connect(tier.port).ask(requests.finish("1")) is False


def test_as_many_threads_as_there_are_may_wait(client: Client, tier: Tier) -> None:
    """Each has a connection; no bound of redis-py's fails the hundred-and-first."""
    found: list[Message | None] = []
    threads = [
        threading.Thread(target=lambda: found.append(client.pop("orders", wait=60))) for _ in range(120)
    ]
    for thread in threads:
        thread.start()
    until(lambda: not any(thread.is_alive() for thread in threads) or are_waiting(tier, 120))
    client.send_many("orders", *("x" for _ in threads))
    for thread in threads:
        thread.join()
    assert len([message for message in found if message]) == 120


def test_what_the_programs_own_bound_refuses_was_not_sent(tier: Tier, connect: Connect) -> None:
    """So it may be repeated, whatever it is."""
    bounded = connect(tier.port, max_connections=1, attempts=1)
    bounded.create_queue("orders")
    waiting = threading.Thread(target=bounded.pop, args=("orders",), kwargs={"wait": 60})
    waiting.start()
    until(lambda: are_waiting(tier, 1))
    with pytest.raises(posthaste.NotConnected):
        bounded.queues()
    connect(tier.port).send("orders", "x")
    waiting.join()


@pytest.mark.parametrize(
    "method", [posthaste.Client.purge_queue, posthaste.Client.redrive, posthaste.Client.delete_queue]
)
def test_what_was_done_in_part_is_not_repeated(
    client: Client, monkeypatch: pytest.MonkeyPatch, method: Callable[[Client, str], int]
) -> None:
    """Only the error says how many messages it was, and a repetition takes those that were sent since."""
    asked = iter(
        redis.ResponseError(f"BUSY another transaction uses the queue; {rest}")
        for rest in ("nothing was changed", "at least 40000 messages were removed; ask again for the rest")
    )

    def refuse(*_: object) -> object:
        raise next(asked)

    monkeypatch.setattr(client._redis, "execute_command", refuse)
    with pytest.raises(posthaste.Busy, match="at least 40000"):
        method(client, "orders")


def test_a_store_that_changed_nothing_leaves_no_doubt(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that does not know leaves some: the lease that is gone then is one that was acknowledged."""
    for text, done in (("nothing was changed; try again", False), ("it is unknown", True)):
        answers = iter([redis.ResponseError(f"STORE the store failed; {text}"), 0])

        def answer(*_: object, answers: Iterator[object] = answers) -> object:
            if isinstance(given := next(answers), Exception):
                raise given
            return given

        monkeypatch.setattr(client._redis, "execute_command", answer)
        assert client.ask(requests.finish("1")) is done


def test_a_message_with_a_key_of_its_own_is_stored_once(client: Client) -> None:
    """Also when two programs send it."""
    assert client.send("orders", "x", dedup="order-17") == client.send("orders", "x", dedup="order-17")
    assert client.queue("orders").messages == 1


def test_an_empty_key_of_a_message_is_refused(client: Client) -> None:
    """In place of a key that was made for it, with which a second program would store it again."""
    for key in ("", b""):
        with pytest.raises(posthaste.Refused, match="DEDUP"):
            client.send("orders", "x", dedup=key)
    assert client.queue("orders").messages == 0


def test_a_tier_that_is_away_is_an_error_after_the_last_try(tier: Tier, connect: Connect) -> None:
    """And after a crash and a start the same client goes on."""
    client = connect(tier.port, attempts=2)
    client.create_queue("orders")
    tier.kill()
    with pytest.raises(posthaste.ConnectionLost):
        client.send("orders", "x")
    tier.start()
    client.send("orders", "x")


def test_a_wait_may_be_longer_than_the_time_out(tier: Tier, connect: Connect) -> None:
    """It is asked for in pieces; the message that comes late is there."""
    sending = connect(tier.port)
    sending.create_queue("orders")

    def waited_for(timeout: float) -> Message | None:
        waiting = connect(tier.port, timeout=timeout, attempts=1)
        timer = threading.Timer(2.4 * timeout, lambda: sending.send("orders", "late"))
        timer.start()
        try:
            return waiting.pop("orders", wait=60 * timeout)
        except posthaste.ConnectionLost:
            return None  # the machine stood still for as long
        finally:
            timer.join()
            sending.purge_queue("orders")

    found = next(filter(None, map(waited_for, (0.5, 2.0, 8.0))), None)
    assert found is not None
    assert found.text == "late"


def test_a_client_that_is_closed_loses_nothing_of_other_threads(client: Client, tier: Tier) -> None:
    """To them it is a lost connection: what may be repeated is."""
    found: list[Message | None] = []
    threads = [threading.Thread(target=lambda: found.append(client.pop("orders", wait=60))) for _ in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: are_waiting(tier, 4))
    client.close()
    client.send_many("orders", *"1234")
    for thread in threads:
        thread.join()
    assert sorted(message.text for message in found if message) == ["1", "2", "3", "4"]
    # What was wrong by itself stays what it was.
    with pytest.raises(UnicodeEncodeError):
        client.send("orders", "\ud800")


def test_wrong_use_is_told_before_anything_is_sent(client: Client) -> None:
    """With the argument and its value."""
    for timeout in (0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="timeout"):
            Client(timeout=timeout)
    with pytest.raises(ValueError, match="attempts"):
        Client(attempts=0)
    for option in ("protocol=2", "decode_responses=True", "socket_timeout=1"):
        with pytest.raises(ValueError, match=option):
            Client(f"redis://127.0.0.1:7411?{option}")
    with pytest.raises(ValueError, match="protocol=2"):
        Client(protocol=2)
    with pytest.raises(ValueError, match="lease"):
        Consumer(client, "orders", lease=0)
    nothing: Any = None
    with pytest.raises(TypeError, match="NoneType"):
        client.send("orders", nothing)
    client.send("orders", "x")
    popped = client.pop("orders")
    assert popped is not None
    with pytest.raises(ValueError, match=f"message {popped.id} has no lease"):
        client.ack(popped)
