"""The asynchronous consumer: as `posthaste.consumer`, with tasks in place of threads.

    async for delivery in Consumer(client, "orders"):
        async with delivery as message:
            await work(message)

`await Consumer(client, "orders").run(work, at_once=10)` works on up to ten messages at the same time.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar, Unpack

from posthaste.aio.client import Client
from posthaste.consumer import NOT_NOW, PAUSE_S, PIECE_S, growing_pause
from posthaste.errors import LeaseLost, PosthasteError
from posthaste.message import Message
from posthaste.requests import ReadOptions, check_names, finish, receipt

log = logging.getLogger("posthaste")

T = TypeVar("T")

GRACE_S = 0.25
"""How long what is under way at the tier may still last where a consumer is cancelled meanwhile."""


async def in_grace(request: Coroutine[Any, Any, T], if_cancelled: Callable[[T], Awaitable[object]] | None = None) -> T:
    """Awaits a request; if the task is cancelled, gives it GRACE_S more to end, and its result to `if_cancelled`.

    If the request were cancelled at once, its connection would be closed, and it would be unknown whether it was done.
    """
    asked = asyncio.create_task(request)
    try:
        return await asyncio.shield(asked)
    except asyncio.CancelledError:
        try:
            await asyncio.wait((asked,), timeout=GRACE_S)
        finally:
            asked.cancel()
        with contextlib.suppress(asyncio.CancelledError, PosthasteError):
            late = await asked
            if if_cancelled:
                await if_cancelled(late)
        raise


async def attempt(work: Awaitable[object]) -> None:
    """Awaits work; a cancellation of something that it awaits becomes a RuntimeError, unlike one of this task."""
    try:
        await work
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("what the work waited for was cancelled") from error


class Delivery:
    """One leased message. In an `async with` it is extended, then acknowledged or, after an exception, given back."""

    def __init__(
        self, client: Client, message: Message, lease: float, longest: float, pause: Callable[[Message], float]
    ) -> None:
        """Makes a delivery; `lease` and `longest` are in seconds, `pause` says how long a failed message waits."""
        self._client = client
        self._lease = lease
        self._longest = longest
        self._pause = pause
        self.message = message

    async def __aenter__(self) -> Message:
        """Begins to extend the lease, and returns the message."""
        self._renewal = asyncio.create_task(self._renew())
        return self.message

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Acknowledges the message, or gives it back after an exception.

        Raises LeaseLost if the work was done but its lease was lost, so that another consumer may repeat it.
        """
        try:
            await self._end(kind)
        finally:
            # Not earlier: if the first try to acknowledge hangs, the second one must still find the lease.
            self._renewal.cancel()

    async def _end(self, kind: type[BaseException] | None) -> None:
        if kind is None:
            if not await in_grace(self._client.ask(finish(receipt(self.message)))):
                raise LeaseLost(f"message {self.message.id}: its lease had run out before it was acknowledged")
        elif issubclass(kind, Exception):
            await self._give_back(self._pause(self.message))
        else:
            await self._give_back(None)  # the message did not cause this: the next consumer may have it at once

    async def _give_back(self, delay: float | None) -> None:
        """Gives the message back. A failure is only logged: it must not hide the reason, such as an interrupt."""
        try:
            await in_grace(self._client.nack(self.message, delay=delay))
        except Exception as error:
            log.warning("message %d comes back when its lease is over: %s", self.message.id, error)

    async def _renew(self) -> None:
        end = time.monotonic() + self._longest
        while time.monotonic() + self._lease / 3 < end:
            await asyncio.sleep(self._lease / 3)
            try:
                if not await self._client.extend(self.message, self._lease):
                    return
            except Exception as error:  # of any kind: there is time for another attempt
                log.warning("a lease could not be extended yet: %s", error)


class Consumer:
    """Takes messages of a queue, or of a sender, until it is stopped or cancelled."""

    def __init__(
        self,
        client: Client,
        queue: str | None = None,
        *,
        lease: float = 60.0,
        longest: float = 3600.0,
        pause: Callable[[Message], float] = growing_pause,
        **options: Unpack[ReadOptions],
    ) -> None:
        """Makes a consumer; it takes its first message when it is iterated over."""
        if lease <= 0:
            raise ValueError(f"lease must be above 0 seconds, not {lease}")
        check_names(options, ReadOptions.__optional_keys__)
        self._client = client
        self._queue = queue
        self._lease = lease
        self._longest = longest
        self._pause = pause
        self._options = options
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Makes the consumer take no further message. Call it in the loop's thread, or by `loop.add_signal_handler`.

        It takes effect within a second while the tier answers; otherwise after the tries of the request under way.
        """
        self._stopped.set()

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        """Yields deliveries until `stop`. While the tier does not serve, it waits and asks again."""
        while not self._stopped.is_set():
            try:
                message = await in_grace(
                    self._client.pop(self._queue, lease=self._lease, wait=PIECE_S, **self._options), self._return
                )
            except NOT_NOW as error:
                log.warning("no message can be had now: %s", error)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopped.wait(), PAUSE_S)
                continue
            if message is not None:
                yield Delivery(self._client, message, self._lease, self._longest, self._pause)

    async def _return(self, message: Message | None) -> None:
        if message is not None:
            await self._client.nack(message)

    async def run(self, work: Callable[[Message], Awaitable[object]], *, at_once: int = 1) -> None:
        """Calls `work` for `at_once` messages at the same time, until `stop`. Failed ones are logged and come back."""
        if at_once < 1:
            raise ValueError(f"at_once must be at least 1, not {at_once}")
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(at_once):
                    tasks.create_task(self._work_off(work))
        except BaseExceptionGroup as refusals:
            # The first one is enough, as all have the same cause, and callers catch it by its type, such as NoQueue.
            raise refusals.exceptions[0] from None

    async def _work_off(self, work: Callable[[Message], Awaitable[object]]) -> None:
        async for delivery in self:
            try:
                async with delivery as message:
                    await attempt(work(message))
            except PosthasteError as error:
                log.warning("message %d may be delivered again: %s", delivery.message.id, error)
            except Exception:
                log.exception("message %d failed and comes back", delivery.message.id)
