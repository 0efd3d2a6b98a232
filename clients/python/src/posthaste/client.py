"""The blocking client: one method for each request.

It may be shared by threads; each request under way has a connection of redis-py's pool.
"""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from posthaste import requests, settings
from posthaste.errors import ConnectionLost, PosthasteError, understood
from posthaste.message import Message, Queue, QueueDetails
from posthaste.requests import Pop, QueueOptions, ReadOptions, Request, SendOptions

T = TypeVar("T")


class Client:
    """A queue tier, for blocking programs.

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
        options = settings.options(redis.Redis, url, account, secret, self._patience, more)
        self._redis = redis.Redis.from_url(url, **options, retry=Retry(NoBackoff(), 0))
        self._closed = 0  # how often

    def __enter__(self) -> Self:
        """Use it in a `with`."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Give the connections back, those of other threads' requests too; a later request connects anew."""
        self._closed += 1
        self._redis.close()

    # Queues.

    def create_queue(self, name: str | None = None, **options: Unpack[QueueOptions]) -> int:
        """Make a queue, or change the options of one. Its id; without a name it is named by its id."""
        return self.ask(requests.create_queue(name, options))

    def delete_queue(self, name: str) -> int:
        """Delete a queue; how many messages went with it."""
        return self.ask(requests.delete_queue(name))

    def purge_queue(self, name: str) -> int:
        """Remove every message of a queue; how many there were."""
        return self.ask(requests.purge_queue(name))

    def queues(self) -> list[Queue]:
        """Every queue, by id."""
        return self.ask(requests.queues())

    def queue(self, name: str) -> QueueDetails:
        """One queue with its options."""
        return self.ask(requests.queue(name))

    def readable(self) -> list[str]:
        """The queues that hold a message this account may read now."""
        return self.ask(requests.readable())

    def redrive(self, source: str, to: str | None = None) -> int:
        """Move dead letters back to where they came from, or all to one queue; how many."""
        return self.ask(requests.redrive(source, to))

    # Messages.

    def send(self, queue: str, body: str | bytes, **options: Unpack[SendOptions]) -> int:
        """Store a message once, however often it takes. Its id; with `to="*"` the number of copies."""
        return self.ask(requests.send(queue, body, options))

    def send_many(self, queue: str, *bodies: str | bytes) -> list[int]:
        """Store messages, all or none; their ids. Not tried again once sent: after ConnectionLost they may be there."""
        return self.ask(requests.send_many(queue, bodies)) if bodies else []

    def peek(self, queue: str | None = None, **options: Unpack[ReadOptions]) -> Message | None:
        """The message that a pop would take; it stays."""
        return self.ask(requests.peek(queue, options))

    def peek_many(self, queue: str | None = None, *, count: int, **options: Unpack[ReadOptions]) -> list[Message]:
        """The next messages; they stay."""
        return self.ask(requests.peek_many(queue, count, options))

    def pop(
        self,
        queue: str | None = None,
        *,
        lease: float | None = None,
        wait: float = 0.0,
        **options: Unpack[ReadOptions],
    ) -> Message | None:
        """Take a message, waiting for it so many seconds. With a lease it comes back after those seconds."""
        pop = Pop.new(queue, lease, options)
        return self._await(pop.one, wait)

    def pop_many(
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
        return self._await(lambda piece: pop.many(count, piece), wait)

    def ack(self, *messages: Message | str) -> int:
        """Remove leased messages; how many leases were still there. After a lost answer, fewer than were removed."""
        return self.ask(requests.ack(tuple(requests.receipt(one) for one in messages))) if messages else 0

    def nack(self, message: Message | str, *, delay: float | None = None) -> bool:
        """Give a leased message back, readable at once or after so many seconds."""
        return self.ask(requests.nack(requests.receipt(message), delay))

    def extend(self, message: Message | str, seconds: float) -> bool:
        """Keep a leased message so many seconds from now; whether the lease was still there."""
        return self.ask(requests.extend(requests.receipt(message), seconds))

    # The way there and back.

    def ask(self, request: Request[T]) -> T:
        """One request and its answer, tried again where that does no harm."""
        in_doubt = False
        for pause in self._patience.pauses():
            try:
                return self._try(request, in_doubt)
            except PosthasteError as error:
                if not settings.may_repeat(request, error):
                    raise
                in_doubt = in_doubt or settings.leaves_in_doubt(error)
            time.sleep(pause)
        return self._try(request, in_doubt)

    def _try(self, request: Request[T], in_doubt: bool) -> T:
        closed = self._closed
        try:
            answer = self._redis.execute_command(*request.words)
        except redis.DataError as error:  # a word that is neither text nor bytes nor a number: nothing was sent
            raise TypeError(str(error)) from error
        except (redis.RedisError, OSError) as error:
            raise understood(error) from error
        except (AttributeError, ValueError) as error:  # of redis-py, where the connection is gone under its hands
            if self._closed == closed:
                raise
            raise ConnectionLost("the client was closed while the request was under way") from error
        return request.understand(answer, in_doubt=in_doubt)

    def _await(self, piece: Callable[[float], Request[T]], wait: float) -> T:
        """Wait in pieces until something is there or the time is over."""
        end = time.monotonic() + wait
        while True:
            left = max(end - time.monotonic(), 0.0)
            found = self.ask(piece(self._patience.piece(left)))
            if found or left == 0.0:
                return found
