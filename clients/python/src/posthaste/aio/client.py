"""The asynchronous client: one method for each request, as in the blocking one.

It may be shared by tasks of one event loop; each request under way has a connection of redis-py's pool. A task that
is cancelled while it waits for a message takes its connection with it, so the server gives it none from then on. One
that is on its way at that moment comes back when its lease is over; popped without a lease it is lost. So a wait is
bounded by `wait=`, and by `asyncio.timeout` only where there is a lease.
"""

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from posthaste import requests, settings
from posthaste.errors import PosthasteError, understood
from posthaste.message import Message, Queue, QueueDetails
from posthaste.requests import Pop, QueueOptions, ReadOptions, Request, SendOptions, Word

T = TypeVar("T")


class Client:
    """A queue tier, for asyncio.

    `url` is `redis://`, `rediss://` (TLS) or `unix://` as in redis-py, and further keywords go to redis-py as they
    are, but for a few that would spoil its answers. A try lasts `timeout` seconds; a request that may be repeated is
    tried `attempts` times.
    """

    def __init__(
        self,
        url: str = settings.URL,
        *,
        account: str | None = None,
        secret: str | None = None,
        timeout: float = 10.0,
        attempts: int = 5,
        **more: Any,  # noqa: ANN401 - redis-py's own
    ) -> None:
        """Connect at the first request."""
        self._patience = settings.Patience(timeout, attempts)
        options = settings.options(redis.asyncio.Redis, url, account, secret, self._patience, more)
        self._redis = redis.asyncio.Redis.from_url(url, **options, retry=Retry(NoBackoff(), 0))

    async def __aenter__(self) -> Self:
        """Use it in an `async with`."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """Give the connections back, those of other tasks' requests too; a later request connects anew."""
        await self._redis.aclose()

    # Queues.

    async def create_queue(self, name: str | None = None, **options: Unpack[QueueOptions]) -> int:
        """Make a queue, or change the options of one. Its id; without a name it is named by its id."""
        return await self.ask(requests.create_queue(name, options))

    async def delete_queue(self, name: str) -> int:
        """Delete a queue; how many messages went with it."""
        return await self.ask(requests.delete_queue(name))

    async def purge_queue(self, name: str) -> int:
        """Remove every message of a queue; how many there were."""
        return await self.ask(requests.purge_queue(name))

    async def queues(self) -> list[Queue]:
        """Every queue, by id."""
        return await self.ask(requests.queues())

    async def queue(self, name: str) -> QueueDetails:
        """One queue with its options."""
        return await self.ask(requests.queue(name))

    async def readable(self) -> list[str]:
        """The queues that hold a message this account may read now."""
        return await self.ask(requests.readable())

    async def redrive(self, source: str, to: str | None = None) -> int:
        """Move dead letters back to where they came from, or all to one queue; how many."""
        return await self.ask(requests.redrive(source, to))

    # Messages.

    async def send(self, queue: str, body: str | bytes, **options: Unpack[SendOptions]) -> int:
        """Store a message once, however often it takes. Its id; with `to="*"` the number of copies."""
        return await self.ask(requests.send(queue, body, options))

    async def send_many(self, queue: str, *bodies: str | bytes) -> list[int]:
        """Store messages, all or none; their ids. Not tried again once sent: after ConnectionLost they may be there."""
        return await self.ask(requests.send_many(queue, bodies)) if bodies else []

    async def peek(self, queue: str | None = None, **options: Unpack[ReadOptions]) -> Message | None:
        """The message that a pop would take; it stays."""
        return await self.ask(requests.peek(queue, options))

    async def peek_many(self, queue: str | None = None, *, count: int, **options: Unpack[ReadOptions]) -> list[Message]:
        """The next messages; they stay."""
        return await self.ask(requests.peek_many(queue, count, options))

    async def pop(
        self,
        queue: str | None = None,
        *,
        lease: float | None = None,
        wait: float = 0.0,
        **options: Unpack[ReadOptions],
    ) -> Message | None:
        """Take a message, waiting for it so many seconds. With a lease it comes back after those seconds."""
        pop = Pop.new(queue, lease, options)
        return await self._await(pop.one, wait)

    async def pop_many(
        self,
        queue: str | None = None,
        *,
        count: int,
        lease: float | None = None,
        wait: float = 0.0,
        **options: Unpack[ReadOptions],
    ) -> list[Message]:
        """Take the messages that are there, at most `count`; wait when there are none."""
        pop = Pop.new(queue, lease, options)
        return await self._await(lambda piece: pop.many(count, piece), wait)

    async def ack(self, *messages: Message | str) -> int:
        """Remove leased messages; how many leases were still there. After a lost answer, fewer than were removed."""
        return await self.ask(requests.ack(tuple(requests.receipt(one) for one in messages))) if messages else 0

    async def nack(self, message: Message | str, *, delay: float | None = None) -> bool:
        """Give a leased message back, readable at once or after so many seconds."""
        return await self.ask(requests.nack(requests.receipt(message), delay))

    async def extend(self, message: Message | str, seconds: float) -> bool:
        """Keep a leased message so many seconds from now; whether the lease was still there."""
        return await self.ask(requests.extend(requests.receipt(message), seconds))

    # The way there and back.

    async def ask(self, request: Request[T]) -> T:
        """One request and its answer, tried again where that does no harm."""
        in_doubt = False
        for pause in self._patience.pauses():
            try:
                return await self._try(request, in_doubt)
            except PosthasteError as error:
                if not settings.may_repeat(request, error):
                    raise
                in_doubt = in_doubt or settings.leaves_in_doubt(error)
            await asyncio.sleep(pause)
        return await self._try(request, in_doubt)

    async def _try(self, request: Request[T], in_doubt: bool) -> T:
        try:
            answer = await self._execute(request.words)
        except redis.DataError as error:  # a word that is neither text nor bytes nor a number: nothing was sent
            raise TypeError(str(error)) from error
        except (redis.RedisError, OSError) as error:
            raise understood(error) from error
        return request.understand(answer, in_doubt=in_doubt)

    async def _execute(self, words: tuple[Word, ...]) -> Any:  # noqa: ANN401 - whatever redis-py has read
        """Say it. Cancelled meanwhile, it is so in any case.

        redis-py sends within an `asyncio.wait_for`, and that of Python 3.11 passes over a cancellation that comes when
        the sending has just ended: a consumer that was cancelled then would go on for good.
        """
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        try:
            return await self._redis.execute_command(*words)
        finally:
            if task and task.cancelling() > before:
                raise asyncio.CancelledError

    async def _await(self, piece: Callable[[float], Request[T]], wait: float) -> T:
        """Wait in pieces until something is there or the time is over."""
        end = time.monotonic() + wait
        while True:
            left = max(end - time.monotonic(), 0.0)
            found = await self.ask(piece(self._patience.piece(left)))
            if found or left == 0.0:
                return found
