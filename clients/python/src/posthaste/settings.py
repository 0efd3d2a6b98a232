"""Connection settings and repetitions, common to the blocking and the asynchronous client.

This package repeats requests itself, and switches off redis-py's own retries: redis-py knows neither which requests may
be repeated, nor that this is possible after BUSY and STORE.

A wait for a message is split into pieces shorter than the time-out. One long wait would need a connection without a
time-out, which notices a vanished peer only when something is sent.
"""

import inspect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from redis.backoff import ExponentialWithJitterBackoff
from redis.connection import parse_url

from posthaste.errors import Busy, ConnectionLost, NotConnected, PosthasteError, StoreFailed
from posthaste.requests import Request

URL = "redis://127.0.0.1:7411"

_SET_HERE: dict[str, tuple[object, str]] = {
    "protocol": (3, "answers are read as RESP3"),
    "decode_responses": (False, "bodies are bytes, and message.text is theirs as text"),
    "socket_timeout": (None, "say timeout=, by which waits are asked for in pieces"),
}
"""Options that neither keywords nor the URL may change: a pop would take a message and could not read it."""

_SHORTEST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class Patience:
    """The time-out of one try, in seconds, and the number of tries."""

    timeout: float
    attempts: int

    def __post_init__(self) -> None:
        """Raises ValueError for values that cannot work."""
        if not 0 < self.timeout < math.inf:  # and no NaN
            raise ValueError(f"timeout must be a number of seconds above 0, not {self.timeout}")
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {self.attempts}")

    def pauses(self) -> Iterator[float]:
        """Yields the seconds to pause after each failed try but the last: exponential back-off with jitter."""
        backoff = ExponentialWithJitterBackoff(cap=_LONGEST_PAUSE_S, base=_SHORTEST_PAUSE_S)
        for failures in range(1, self.attempts):
            yield backoff.compute(failures)

    def piece(self, left: float) -> float:
        """Returns the seconds to wait for a message in one request, when `left` seconds are left in all."""
        return min(left, self.timeout / 2)


def options(
    of: type, url: str, account: str | None, secret: str | None, patience: Patience, more: dict[str, Any]
) -> dict[str, Any]:
    """Returns the options for redis-py's client class `of`. It uses RESP3, because that has typed maps."""
    for name, value in {**more, **parse_url(url)}.items():  # redis-py, too, lets the URL's query win
        if name in _SET_HERE and value != _SET_HERE[name][0]:
            raise ValueError(f"{name}={value} is not possible: {_SET_HERE[name][1]}")
    # redis-py's unix sockets refuse an option that only TCP has.
    of_tcp = {} if url.startswith("unix://") else {"socket_keepalive": True}
    return {
        "username": account,
        "password": "" if account is not None and secret is None else secret,
        "protocol": 3,
        "socket_timeout": patience.timeout,
        "socket_connect_timeout": patience.timeout,
        # redis-py's own limit, 100 since version 8, makes further requests fail. Here the number of the program's
        # threads and tasks is the limit.
        "max_connections": 2**31,
        **of_tcp,
        **_no_maintenance(of),
        **more,
    }


def _no_maintenance(of: type) -> dict[str, Any]:
    """Returns the option that switches off notifications of Redis Enterprise, which redis-py requests from any server.

    With them the asyncio pool of version 8 does not notice that an idle connection was closed, as by a restart, and
    version 7 refuses unix sockets.
    """
    if "maint_notifications_config" not in inspect.signature(of).parameters:
        return {}
    from redis.maint_notifications import MaintNotificationsConfig  # older versions lack it

    return {"maint_notifications_config": MaintNotificationsConfig(enabled=False)}


def may_repeat(request: Request[Any], error: PosthasteError) -> bool:
    """Returns whether to try again after this error."""
    if isinstance(error, NotConnected) or (isinstance(error, Busy) and "at least" not in str(error)):
        return True  # nothing happened
    return request.repeatable and isinstance(error, (ConnectionLost, StoreFailed))


def leaves_in_doubt(error: PosthasteError) -> bool:
    """Returns whether the request may have happened in spite of this error."""
    if isinstance(error, StoreFailed):
        return "nothing was changed" not in str(error)
    return isinstance(error, ConnectionLost) and not isinstance(error, NotConnected)
