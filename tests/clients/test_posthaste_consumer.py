"""Consumers of the typed Python client (clients/python), blocking, against the real program."""

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import posthaste
import pytest
import redis
from posthaste import Client, Consumer, DeadLetter, Message

from losing_proxy import LosingProxy
from tier import Tier
from waiting import until

Connect = Callable[..., Client]


def consume(consumer: Consumer, work: Callable[[Message], object]) -> threading.Thread:
    """Let a consumer run beside the test."""
    thread = threading.Thread(target=consumer.run, args=(work,))
    thread.start()
    return thread


def test_a_consumer_acknowledges_what_was_done(client: Client) -> None:
    """And takes messages in their order, until it is stopped."""
    client.send_many("orders", "one", "two", "three")
    consumer = Consumer(client, "orders")
    done: list[str] = []
    thread = consume(consumer, lambda message: done.append(message.text))
    until(lambda: client.queue("orders").messages == 0)
    consumer.stop()
    thread.join()
    assert done == ["one", "two", "three"]


def test_what_fails_comes_back_and_ends_as_a_dead_letter(client: Client) -> None:
    """The consumer goes on; the message moves aside after its last delivery."""
    client.create_queue("orders", dead_letter=DeadLetter("failed", after=2))
    client.send_many("orders", "bad", "good")
    seen: list[tuple[str, int]] = []

    def work(message: Message) -> None:
        seen.append((message.text, message.deliveries))
        if message.text == "bad":
            raise RuntimeError("this one cannot be done")

    consumer = Consumer(client, "orders", pause=lambda _: 0.05)
    thread = consume(consumer, work)
    until(lambda: client.queue("failed").messages == 1)
    consumer.stop()
    thread.join()
    assert sorted(seen) == [("bad", 1), ("bad", 2), ("good", 1)]
    grave = client.peek("failed")
    assert grave is not None
    assert (grave.first_queue, grave.reason) == ("orders", "nack")
    assert client.redrive("failed") == 1


def test_work_longer_than_its_lease_keeps_its_message(client: Client) -> None:
    """The lease is extended while the work lasts, so nobody else is given the message."""

    def is_kept(lease: float) -> bool:
        client.send("orders", "slow")
        with suppress(posthaste.LeaseLost):
            for delivery in Consumer(client, "orders", lease=lease):
                with delivery as message:
                    time.sleep(3 * lease)
                    given = client.pop("orders")
                return given is None and message.deliveries == 1 and client.queue("orders").messages == 0
        client.purge_queue("orders")
        return False

    # A lease is lost where the machine stands still for two thirds of it.
    assert any(map(is_kept, (0.6, 3.0, 12.0)))


def raises(error: Exception) -> Callable[..., None]:
    """Raise it, in place of what would be done."""

    def instead(*_: object, **__: object) -> None:
        raise error

    return instead


def test_work_that_hangs_loses_its_message(client: Client) -> None:
    """After `longest` the lease runs out; the acknowledgment that comes too late is an error."""
    client.send("orders", "hung")

    def hang() -> None:
        for delivery in Consumer(client, "orders", lease=0.3, longest=0.0):
            with delivery:
                until(lambda: client.peek("orders") is not None)
            return

    with pytest.raises(posthaste.LeaseLost):
        hang()


def test_a_lost_answer_to_an_acknowledgment_is_no_lost_lease(tier: Tier, connect: Connect) -> None:
    """The message is gone, so whoever did its work must not undo it."""
    with LosingProxy(tier.port) as proxy:
        client = connect(proxy.port)
        client.create_queue("orders")
        client.send("orders", "x")
        for delivery in Consumer(client, "orders"):
            with delivery:
                proxy.lose_next_answer()
            break
        assert proxy.lost == 1
        assert client.queue("orders").messages == 0


def test_an_acknowledgment_that_hangs_keeps_its_lease(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next try finds it, and nobody was given the message in between."""
    execute: Callable[..., Any] = client._redis.execute_command

    def is_kept(lease: float) -> bool:
        hung: list[str] = []

        def hang_once(*words: Any) -> object:  # noqa: ANN401 - redis-py's own
            if words[0] != "ACK" or hung:
                return execute(*words)
            hung.append(words[1])
            time.sleep(3 * lease)
            raise redis.TimeoutError("Timeout reading from socket")

        client.send("orders", "x")
        delivery = next(iter(Consumer(client, "orders", lease=lease)))
        monkeypatch.setattr(client._redis, "execute_command", hang_once)
        with delivery:
            pass
        return client.purge_queue("orders") == 0

    # A lease is lost where the machine stands still for two thirds of it.
    assert any(map(is_kept, (0.6, 3.0, 12.0)))


def test_an_interrupt_gives_the_message_back_at_once(client: Client) -> None:
    """Whoever comes next need not wait for the lease to run out."""
    client.send("orders", "x")
    consumer = Consumer(client, "orders", pause=lambda _: 3600.0)
    # A shell's background job begins with this signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            consumer.run(lambda _: signal.raise_signal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, before)
    again = client.pop("orders")
    assert again is not None
    assert again.deliveries == 2


def test_who_is_not_let_in_asked_nothing_and_comes_again(
    start: Callable[..., Tier], connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """Where as many are connected as may be: so a consumer outlives that."""
    tier = start("--max-clients", "1")
    with redis.Redis(port=tier.port) as first:
        first.execute_command("QCREATE", "orders")
        first.execute_command("SEND", "orders", "x")
        with pytest.raises(posthaste.NotConnected, match="max number of clients"):
            connect(tier.port, attempts=1).queues()
        client = connect(tier.port, attempts=1)
        consumer = Consumer(client, "orders")
        thread = consume(consumer, lambda _: consumer.stop())
        until(lambda: "no message can be had now" in caplog.text or not thread.is_alive())
    thread.join()
    assert client.queue("orders").messages == 0


@pytest.mark.parametrize("passing", [posthaste.Busy, posthaste.StoreFailed, posthaste.Full])
def test_a_consumer_outlives_what_passes(
    client: Client, monkeypatch: pytest.MonkeyPatch, passing: type[Exception]
) -> None:
    """FULL, too, which a pop with a lease is told while leases take all the memory there is for them."""
    client.send("orders", "x")
    pop, refused = client.pop, [passing("not now")]

    def pop_later(*queue: str, **options: Any) -> Message | None:  # noqa: ANN401 - pop's own
        if refused:
            raise refused.pop()
        return pop(*queue, **options)

    monkeypatch.setattr(client, "pop", pop_later)
    consumer = Consumer(client, "orders")
    consumer.run(lambda _: consumer.stop())
    assert client.queue("orders").messages == 0


def test_why_work_ended_is_told_although_its_message_cannot_be_given_back(
    tier: Tier, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """An interrupt ends the consumer, and what failed is in the log."""
    client = connect(tier.port, attempts=1)
    client.create_queue("orders")
    client.send_many("orders", "failing", "interrupted")
    consumer = Consumer(client, "orders")

    def work(message: Message) -> None:
        tier.kill()
        if message.text == "interrupted":
            raise KeyboardInterrupt
        raise LookupError("no such customer")

    delivery = next(iter(consumer))
    with pytest.raises(LookupError), delivery as message:
        work(message)
    tier.start()
    with pytest.raises(KeyboardInterrupt):
        consumer.run(work)
    assert [line.split(":")[0] for line in caplog.messages if "lease is over" in line] == [
        "message 1 comes back when its lease is over",
        "message 2 comes back when its lease is over",
    ]


def test_a_consumer_outlives_its_server(tier: Tier, connect: Connect) -> None:
    """It waits while the tier is away, and goes on when it is back."""
    client = connect(tier.port, attempts=1)
    client.create_queue("orders")
    done = threading.Event()
    consumer = Consumer(client, "orders")
    thread = consume(consumer, lambda _: done.set())
    tier.kill()
    tier.start()
    connect(tier.port).send("orders", "x")
    assert done.wait(20)
    consumer.stop()
    thread.join()


@pytest.mark.timeout(60)
def test_a_signal_may_stop_a_consumer_at_any_moment(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while it pauses, with whatever lock that takes."""
    monkeypatch.setattr("posthaste.consumer.PAUSE_S", 0.0)
    monkeypatch.setattr(client, "pop", raises(posthaste.Busy("not now")))
    monkeypatch.setattr("posthaste.consumer.log.warning", lambda *_: None)
    consumers = [Consumer(client, "orders") for _ in range(30)]
    main = threading.get_ident()
    before = signal.signal(signal.SIGUSR1, lambda *_: consumers[-1].stop())
    try:
        while consumers:
            sending = threading.Timer(0.001, signal.pthread_kill, (main, signal.SIGUSR1))
            sending.start()
            consumers[-1].run(lambda _: None)
            sending.join()
            consumers.pop()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_threads_may_share_a_consumer(client: Client) -> None:
    """Each message is worked on once."""
    client.send_many("orders", *(str(number) for number in range(100)))
    consumer = Consumer(client, "orders")
    done: list[int] = []
    threads = [consume(consumer, lambda message: done.append(int(message.text))) for _ in range(4)]
    until(lambda: client.queue("orders").messages == 0)
    consumer.stop()
    for thread in threads:
        thread.join()
    assert sorted(done) == list(range(100))
