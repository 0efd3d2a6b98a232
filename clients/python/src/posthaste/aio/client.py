"""The asynchronous client: one method for each request, as in the blocking one.

Tasks of one event loop may share a client; each request under way uses a connection of redis-py's pool. If a task is
cancelled while it waits for a message, its connection is closed, so the server delivers none to it from then on. A
message that is being delivered at that moment comes back when its lease is over; without a lease it is lost. So bound a
wait by `wait=`, and by `asyncio.timeout` only with a lease.
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

    `url` is `redis://`, `rediss://` (TLS) or `unix://` as in redis-py. Further keywords are passed to redis-py, except
    a few that would spoil its answers. A try lasts at most `timeout` seconds; a request that may be repeated is tried
    up to `attempts` times.
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
        """Makes the client, which connects at its first request."""
        self._patience = settings.Patience(timeout, attempts)
        options = settings.options(redis.asyncio.Redis, url, account, secret, self._patience, more)
        self._redis = redis.asyncio.Redis.from_url(url, **options, retry=Retry(NoBackoff(), 0))

    async def __aenter__(self) -> Self:
        """Returns the client itself, for an `async with`."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the client."""
        await self.close()

    async def close(self) -> None:
        """Closes the connections, also under other tasks' requests; a later request connects again."""
        await self._redis.aclose()

    # Queues.

    async def create_queue(self, name: str | None = None, **options: Unpack[QueueOptions]) -> int:
        """Makes a queue, or changes the options of an existing one; returns its id, which is also the default name."""
        return await self.ask(requests.create_queue(name, options))

    async def delete_queue(self, name: str) -> int:
        """Deletes a queue; returns the number of messages deleted with it."""
        return await self.ask(requests.delete_queue(name))

    async def purge_queue(self, name: str) -> int:
        """Removes every message of a queue; returns their number."""
        return await self.ask(requests.purge_queue(name))

    async def queues(self) -> list[Queue]:
        """Returns every queue, in the order of ids."""
        return await self.ask(requests.queues())

    async def queue(self, name: str) -> QueueDetails:
        """Returns one queue with its options."""
        return await self.ask(requests.queue(name))

    async def readable(self, *, not_own: bool = False) -> list[str]:
        """Returns the names of queues that hold a message which this account may read now.

        With `not_own`, one that another account sent: queues where `pop(not_own=True)` finds something.
        """
        return await self.ask(requests.readable(not_own=not_own))

    async def redrive(self, source: str, to: str | None = None) -> int:
        """Moves dead letters back to their original queues, or all to one queue; returns their number."""
        return await self.ask(requests.redrive(source, to))

    # Messages.

    async def send(self, queue: str, body: str | bytes, **options: Unpack[SendOptions]) -> int:
        """Stores a message once, even if it is tried again; returns its id, with `to="*"` the number of copies."""
        return await self.ask(requests.send(queue, body, options))

    async def send_many(self, queue: str, *bodies: str | bytes) -> list[int]:
        """Stores messages, all or none; returns their ids.

        The request is not repeated once it was sent: after ConnectionLost the messages may or may not be stored.
        """
        return await self.ask(requests.send_many(queue, bodies)) if bodies else []

    async def peek(self, queue: str | None = None, **options: Unpack[ReadOptions]) -> Message | None:
        """Returns the message that a pop would take, and leaves it in the queue."""
        return await self.ask(requests.peek(queue, options))

    async def peek_many(self, queue: str | None = None, *, count: int, **options: Unpack[ReadOptions]) -> list[Message]:
        """Returns the next messages, at most `count`, and leaves them in the queue."""
        return await self.ask(requests.peek_many(queue, count, options))

    async def pop(
        self,
        queue: str | None = None,
        *,
        lease: float | None = None,
        wait: float = 0.0,
        **options: Unpack[ReadOptions],
    ) -> Message | None:
        """Takes a message, waiting for it up to `wait` seconds; None if there is none.

        With a `lease` the message returns to the queue after that many seconds unless it is acknowledged.
        """
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
        """Takes the available messages, at most `count`; waits up to `wait` seconds only if there are none."""
        pop = Pop.new(queue, lease, options)
        return await self._await(lambda piece: pop.many(count, piece), wait)

    async def ack(self, *messages: Message | str) -> int:
        """Removes leased messages; returns how many leases still existed, fewer if the request had to be repeated."""
        return await self.ask(requests.ack(tuple(requests.receipt(one) for one in messages))) if messages else 0

    async def nack(self, message: Message | str, *, delay: float | None = None) -> bool:
        """Gives a leased message back, readable at once or after `delay` seconds; returns whether the lease existed."""
        return await self.ask(requests.nack(requests.receipt(message), delay))

    async def extend(self, message: Message | str, seconds: float) -> bool:
        """Extends a lease to `seconds` from now; returns whether it still existed."""
        return await self.ask(requests.extend(requests.receipt(message), seconds))

    # Sending requests.

    async def ask(self, request: Request[T]) -> T:
        """Sends a request and returns its answer; repeats it after a failure if that does no harm."""
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
        """Executes a command; raises CancelledError if the task was cancelled meanwhile.

        redis-py sends within an `asyncio.wait_for`, which in Python 3.11 swallows a cancellation that arrives when the
        sending has just ended: a consumer that was cancelled then would never end.
        """
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        try:
            return await self._redis.execute_command(*words)
        finally:
            if task and task.cancelling() > before:
                raise asyncio.CancelledError

    async def _await(self, piece: Callable[[float], Request[T]], wait: float) -> T:
        """Repeats a waiting request in pieces (see `settings`) until it finds something or the time is over."""
        end = time.monotonic() + wait
        while True:
            left = max(end - time.monotonic(), 0.0)
            found = await self.ask(piece(self._patience.piece(left)))
            if found or left == 0.0:
                return found
