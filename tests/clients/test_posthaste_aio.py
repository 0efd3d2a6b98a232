"""The typed Python client (clients/python) for asyncio, against the real program."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import posthaste
import pytest
import redis.asyncio
from posthaste import Message
from posthaste.aio import Client, Consumer
from posthaste.aio.consumer import GRACE_S

from losing_proxy import LosingProxy
from tier import Tier


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(120):
        while not await holds():
            await asyncio.sleep(0.01)


def talk(port: int, scenario: Callable[[Client], Awaitable[None]]) -> None:
    """Run a scenario with a client that finds the queue `orders`."""

    async def run() -> None:
        async with Client(f"redis://127.0.0.1:{port}") as client:
            await client.create_queue("orders")
            await scenario(client)

    asyncio.run(run())


def test_a_client_may_come_over_a_unix_socket(tier: Tier) -> None:
    """As its URL says."""

    async def over_it() -> None:
        async with Client(f"unix://{tier.socket_path}") as client:
            assert await client.create_queue("orders") == 1

    asyncio.run(over_it())


def test_no_connection_is_told_from_a_lost_one() -> None:
    """By a name of the host, too, which may have several addresses."""

    async def refused(host: str) -> None:
        async with Client(f"redis://{host}:1", attempts=1) as client:
            with pytest.raises(posthaste.NotConnected):
                await client.queues()

    for host in ("127.0.0.1", "localhost"):
        asyncio.run(refused(host))


def test_every_request_has_its_method(tier: Tier) -> None:
    """And answers as the blocking client does."""

    async def scenario(client: Client) -> None:
        sent = await client.send("orders", "one", headers={"kind": "coffee"})
        assert await client.send_many("orders", "two", "three") == [sent + 1, sent + 2]
        assert [queue.messages for queue in await client.queues()] == [3]
        assert (await client.queue("orders")).bytes == 11
        assert await client.readable() == ["orders"]
        assert await client.readable(not_own=True) == []
        peeked = await client.peek("orders")
        assert peeked is not None
        assert (peeked.id, peeked.headers) == (sent, {"kind": b"coffee"})
        assert len(await client.peek_many("orders", count=2)) == 2
        first = await client.pop("orders", lease=60)
        assert first is not None
        assert await client.extend(first, 30)
        assert await client.nack(first)
        leased = await client.pop_many("orders", count=3, lease=60)
        assert await client.ack(*leased) == 3
        assert (await client.ack(), await client.send_many("orders")) == (0, [])
        assert await client.redrive("orders") == 0
        assert await client.purge_queue("orders") == 0
        assert await client.delete_queue("orders") == 0
        with pytest.raises(posthaste.NoQueue):
            await client.queue("orders")
        nothing: Any = None
        with pytest.raises(TypeError, match="NoneType"):
            await client.send("orders", nothing)

    talk(tier.port, scenario)


def test_lost_answers_do_no_harm(tier: Tier) -> None:
    """A send and a pop are repeated with their keys."""
    with LosingProxy(tier.port) as proxy:

        async def scenario(client: Client) -> None:
            proxy.lose_next_answer()
            sent = await client.send("orders", "once")
            assert (await client.queue("orders")).messages == 1
            proxy.lose_next_answer()
            popped = await client.pop("orders")
            assert popped is not None
            assert popped.id == sent
            proxy.lose_next_answer()
            with pytest.raises(posthaste.ConnectionLost):
                await client.send_many("orders", "one", "two")
            assert proxy.lost == 3

        talk(proxy.port, scenario)


def test_a_connection_that_was_closed_meanwhile_is_made_anew(tier: Tier) -> None:
    """Before anything is sent, so that what must not be repeated is done."""

    async def scenario(client: Client) -> None:
        for _ in range(2):
            await asyncio.to_thread(tier.kill)
            await asyncio.to_thread(tier.start)
            assert len(await client.send_many("orders", "one", "two")) == 2

    talk(tier.port, scenario)


def test_as_many_tasks_as_there_are_may_wait(tier: Tier) -> None:
    """Each has a connection; no bound of redis-py's fails the hundred-and-first."""

    async def scenario(client: Client) -> None:
        async with asyncio.TaskGroup() as tasks:
            waiting = [tasks.create_task(client.pop("orders", wait=60)) for _ in range(120)]
            await until(lambda: are_waiting(tier, 120))
            await client.send_many("orders", *("x" for _ in waiting))
        assert all(task.result() for task in waiting)

    talk(tier.port, scenario)


def test_what_ends_a_consumer_is_told_by_its_type(tier: Tier) -> None:
    """As the blocking one does, and in no group, however many worked at once."""

    async def scenario(client: Client) -> None:
        async def work(_: Message) -> None: ...

        with pytest.raises(posthaste.NoQueue):
            await Consumer(client, "nowhere").run(work, at_once=3)
        with pytest.raises(ValueError, match="at_once"):
            await Consumer(client, "orders").run(work, at_once=0)

    talk(tier.port, scenario)


def test_a_consumer_works_on_several_messages_at_once(tier: Tier) -> None:
    """Each is acknowledged; one that fails comes back and is done the next time."""

    async def scenario(client: Client) -> None:
        await client.send_many("orders", *(str(number) for number in range(40)))
        done: list[int] = []
        meeting = asyncio.Barrier(4)  # passed only if four are worked on at the same time

        async def work(message: Message) -> None:
            if message.deliveries == 1:
                await meeting.wait()
            if message.text == "7" and message.deliveries == 1:
                raise RuntimeError("not this time")
            done.append(int(message.text))

        consumer = Consumer(client, "orders", pause=lambda _: 0.05)

        async def stop_when_done() -> None:
            await until(lambda: empty(client))
            consumer.stop()

        await asyncio.gather(consumer.run(work, at_once=4), stop_when_done())
        assert sorted(done) == list(range(40))

    talk(tier.port, scenario)


def test_what_is_cancelled_within_the_work_ends_no_consumer(
    tier: Tier, caplog: pytest.LogCaptureFixture
) -> None:
    """The message comes back as after any other failure, and is done then."""

    async def scenario(client: Client) -> None:
        await client.send("orders", "x")
        consumer = Consumer(client, "orders", pause=lambda _: 0.05)
        deliveries: list[int] = []

        async def work(message: Message) -> None:
            deliveries.append(message.deliveries)
            if message.deliveries == 1:
                lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                lost.cancel()
                await lost
            consumer.stop()

        await asyncio.wait_for(consumer.run(work), 120)
        assert deliveries == [1, 2]
        assert await empty(client)

    talk(tier.port, scenario)
    assert "message 1 failed and comes back" in caplog.messages


async def empty(client: Client) -> bool:
    """Whether `orders` holds nothing."""
    return (await client.queue("orders")).messages == 0


def test_work_longer_than_its_lease_keeps_its_message(tier: Tier) -> None:
    """The lease is extended meanwhile."""

    async def scenario(client: Client) -> None:
        async def is_kept(lease: float) -> bool:
            await client.send("orders", "slow")
            with suppress(posthaste.LeaseLost):
                async for delivery in Consumer(client, "orders", lease=lease):
                    async with delivery:
                        await asyncio.sleep(3 * lease)
                        given = await client.pop("orders")
                    return given is None and await empty(client)
            await client.purge_queue("orders")
            return False

        # A lease is lost where the machine stands still for two thirds of it.
        assert await is_kept(0.6) or await is_kept(3.0) or await is_kept(12.0)

    talk(tier.port, scenario)


def test_a_lost_answer_to_an_acknowledgment_is_no_lost_lease(tier: Tier) -> None:
    """The message is gone, so whoever did its work must not undo it."""
    with LosingProxy(tier.port) as proxy:

        async def scenario(client: Client) -> None:
            await client.send("orders", "x")
            async for delivery in Consumer(client, "orders"):
                async with delivery:
                    proxy.lose_next_answer()
                break
            assert proxy.lost == 1
            assert await empty(client)

        talk(proxy.port, scenario)


def test_an_acknowledgment_that_hangs_keeps_its_lease(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next try finds it, and nobody was given the message in between."""

    async def scenario(client: Client) -> None:
        execute: Callable[..., Any] = client._redis.execute_command

        async def is_kept(lease: float) -> bool:
            hung: list[str] = []

            async def hang_once(*words: Any) -> object:  # noqa: ANN401 - redis-py's own
                if words[0] != "ACK" or hung:
                    return await execute(*words)
                hung.append(words[1])
                await asyncio.sleep(3 * lease)
                raise redis.TimeoutError("Timeout reading from socket")

            await client.send("orders", "x")
            delivery = await anext(aiter(Consumer(client, "orders", lease=lease)))
            monkeypatch.setattr(client._redis, "execute_command", hang_once)
            async with delivery:
                pass
            return await client.purge_queue("orders") == 0

        # A lease is lost where the machine stands still for two thirds of it.
        assert await is_kept(0.6) or await is_kept(3.0) or await is_kept(12.0)

    talk(tier.port, scenario)


def test_a_cancelled_consumer_gives_its_message_back_at_once(tier: Tier) -> None:
    """And one that only waits is given none."""

    async def scenario(client: Client) -> None:
        consumer = Consumer(client, "orders", lease=600)
        begun = asyncio.Event()

        async def work(_: Message) -> None:
            begun.set()
            await asyncio.Event().wait()

        waiting = asyncio.create_task(Consumer(client, "orders", lease=600).run(work))
        await until(lambda: are_waiting(tier, 1))
        await cancel(waiting)
        # What was sent before the tier hears that nobody is there any more would be on its way to nobody.
        await until(lambda: are_waiting(tier, 0))
        running = asyncio.create_task(consumer.run(work))
        await client.send("orders", "x")
        await begun.wait()
        await cancel(running)
        found = await client.pop("orders", wait=10)
        assert found is not None
        assert found.deliveries == 2

    talk(tier.port, scenario)


def test_a_consumer_may_be_cancelled_at_any_moment(tier: Tier) -> None:
    """What is on its way to it is given back, and what it has done is acknowledged: no lease stays.

    Unless the machine stood still for so long that the consumer gave up on its request.
    """

    async def scenario(client: Client) -> None:
        done: list[int] = []
        given_up = 0

        async def work(message: Message) -> None:
            done.append(message.id)

        sent = await client.send_many("orders", *("x" for _ in range(2000)))
        for moment in itertools.count():
            if moment >= 100 and len(done) >= 20:
                break
            running = asyncio.create_task(Consumer(client, "orders", lease=600).run(work, at_once=2))
            for _ in range(moment):
                await asyncio.sleep(0)
            begun = time.monotonic()
            await cancel(running)
            given_up += 2 * (time.monotonic() - begun >= GRACE_S)
        left = [message.id for message in await client.pop_many("orders", count=len(sent))]
        leased = sorted({*sent}.difference(done, left))
        assert len(leased) <= given_up, leased
        assert sorted([*done, *left, *leased]) == sent

    talk(tier.port, scenario)


def test_a_request_may_be_cancelled_at_any_moment(tier: Tier) -> None:
    """It ends of it, and the connection gives the next one no answer but its own."""

    async def scenario(client: Client) -> None:
        await client.create_queue("others")
        cancelled = 0
        for turns in (*range(60), *range(60)):
            if turns % 2:
                await client.close()  # and connects anew, which may be cancelled too
            asked = asyncio.create_task(client.send("orders", "x"))
            for _ in range(turns):
                await asyncio.sleep(0)
            if asked.cancel():
                cancelled += 1
                with pytest.raises(asyncio.CancelledError):
                    await asked
            assert (await client.queue("others")).name == "others"
        assert cancelled > 1

    talk(tier.port, scenario)


def test_a_consumer_may_be_cancelled_while_its_tier_is_away(tier: Tier) -> None:
    """That its message cannot be given back does not keep it at work."""

    async def scenario() -> None:
        async with Client(f"redis://127.0.0.1:{tier.port}", attempts=1) as client:
            await client.create_queue("orders")
            await client.send("orders", "x")
            begun = asyncio.Event()

            async def work(_: Message) -> None:
                begun.set()
                await asyncio.Event().wait()

            running = asyncio.create_task(Consumer(client, "orders").run(work))
            await begun.wait()
            tier.kill()
            async with asyncio.timeout(60):
                await cancel(running)

    asyncio.run(scenario())


async def are_waiting(tier: Tier, pops: int) -> bool:
    """Whether so many pops wait at the tier."""
    async with redis.asyncio.Redis(port=tier.port) as watcher:
        return int((await watcher.info("store"))["blocked_clients"]) == pops


async def cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait until it has ended."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
