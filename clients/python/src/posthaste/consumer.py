"""A consumer: messages are acknowledged when their work is done, given back when it failed, kept while it lasts.

    for delivery in Consumer(client, "orders"):
        with delivery as message:
            work(message)

or `Consumer(client, "orders").run(work)`, which also logs failures and continues.

Leases make this safe: when the process dies, its message comes back to other consumers after at most `lease` seconds.
While the work lasts another thread extends the lease, up to `longest` seconds, so that work which hangs does not keep
its message for ever. A message that failed comes back after a pause that grows with its deliveries; a queue with a dead
letter option finally moves it aside.
"""

import logging
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Unpack

from posthaste.client import Client
from posthaste.errors import Busy, ConnectionLost, Full, LeaseLost, PosthasteError, StoreFailed
from posthaste.message import Message
from posthaste.renewal import Renewal
from posthaste.requests import ReadOptions, check_names, finish, receipt

log = logging.getLogger("posthaste")

PIECE_S = 1.0
"""How long one request waits for a message, so that `stop` is heard within it."""
PAUSE_S = 1.0
"""How long a consumer pauses when the tier does not serve."""
NOT_NOW = (ConnectionLost, Busy, StoreFailed, Full)
"""What passes. A pop with a lease is told FULL where leases take all memory, until some are acknowledged."""


def growing_pause(message: Message) -> float:
    """Returns the seconds until a failed message comes back: 1, 2, 4 … by its deliveries, at most a minute."""
    return float(min(2 ** min(message.deliveries - 1, 6), 60))


class Delivery:
    """One leased message. In a `with` it is extended, then acknowledged or, after an exception, given back."""

    def __init__(self, client: Client, message: Message, renewal: Renewal, pause: Callable[[Message], float]) -> None:
        """Makes a delivery; `renewal` extends its lease, `pause` says how long a failed message waits."""
        self._client = client
        self._renewal = renewal
        self._pause = pause
        self.message = message

    def __enter__(self) -> Message:
        """Begins to extend the lease, and returns the message."""
        self._renewal.begin(receipt(self.message))
        return self.message

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Acknowledges the message, or gives it back after an exception.

        Raises LeaseLost if the work was done but its lease was lost, so that another consumer may repeat it.
        """
        try:
            self._end(kind)
        finally:
            # Not earlier: if the first try to acknowledge hangs, the second one must still find the lease.
            self._renewal.end(receipt(self.message))

    def _end(self, kind: type[BaseException] | None) -> None:
        if kind is None:
            if not self._client.ask(finish(receipt(self.message))):
                raise LeaseLost(f"message {self.message.id}: its lease had run out before it was acknowledged")
        elif issubclass(kind, Exception):
            self._give_back(self._pause(self.message))
        else:
            self._give_back(None)  # the message did not cause this: the next consumer may have it at once

    def _give_back(self, delay: float | None) -> None:
        """Gives the message back. A failure is only logged: it must not hide the reason, such as an interrupt."""
        try:
            self._client.nack(self.message, delay=delay)
        except Exception as error:
            log.warning("message %d comes back when its lease is over: %s", self.message.id, error)


class Consumer:
    """Takes messages of a queue, or of a sender, one after the other, until it is stopped.

    Several threads may share one; each then works on a message of its own.
    """

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
        self._pause = pause
        self._options = options
        # No threading.Event: a signal handler that sets one would deadlock on the lock of a wait that it interrupted.
        self._stopped = False
        self._renewal = Renewal(client.extend, lease, longest)

    def stop(self) -> None:
        """Makes the consumer take no further message. Signal handlers and other threads may call it.

        It takes effect within a second while the tier answers; otherwise after the tries of the request under way.
        """
        self._stopped = True

    def __iter__(self) -> Iterator[Delivery]:
        """Yields deliveries until `stop`. While the tier does not serve, it waits and asks again."""
        while not self._stopped:
            try:
                message = self._client.pop(self._queue, lease=self._lease, wait=PIECE_S, **self._options)
            except NOT_NOW as error:
                log.warning("no message can be had now: %s", error)
                time.sleep(PAUSE_S)
                continue
            if message is not None:
                yield Delivery(self._client, message, self._renewal, self._pause)

    def run(self, work: Callable[[Message], object]) -> None:
        """Calls `work` for each message, until `stop`. Messages whose work fails are logged and come back later."""
        for delivery in self:
            try:
                with delivery as message:
                    work(message)
            except PosthasteError as error:
                log.warning("message %d may be delivered again: %s", delivery.message.id, error)
            except Exception:
                log.exception("message %d failed and comes back", delivery.message.id)
