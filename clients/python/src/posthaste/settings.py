"""How a client connects and how often it tries: the same for the blocking and the asynchronous one.

Trying again is done here and not by redis-py, whose own repetition is switched off: it knows neither which requests
may be repeated nor that BUSY and STORE may.

A wait for a message is asked for in pieces shorter than the time-out. One long wait would need a connection without
a time-out, and such a connection notices a peer that vanished only when something is sent.
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
"""What redis-py must not be told otherwise, by a keyword or in the URL: a pop would take a message and not read it."""

_SHORTEST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one try may take, and how many there are."""

    timeout: float
    attempts: int

    def __post_init__(self) -> None:
        """Refuse what could never work."""
        if not 0 < self.timeout < math.inf:  # and no NaN
            raise ValueError(f"timeout must be a number of seconds above 0, not {self.timeout}")
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, not {self.attempts}")

    def pauses(self) -> Iterator[float]:
        """Seconds to pause after each failed try but the last: longer and longer, at random."""
        backoff = ExponentialWithJitterBackoff(cap=_LONGEST_PAUSE_S, base=_SHORTEST_PAUSE_S)
        for failures in range(1, self.attempts):
            yield backoff.compute(failures)

    def piece(self, left: float) -> float:
        """How long to wait for a message in one request, of the seconds that are left."""
        return min(left, self.timeout / 2)


def options(
    of: type, url: str, account: str | None, secret: str | None, patience: Patience, more: dict[str, Any]
) -> dict[str, Any]:
    """What redis-py is told, `of` being its client. RESP3, because its maps have types."""
    for name, value in {**more, **parse_url(url)}.items():  # redis-py, too, lets the URL's query win
        if name in _SET_HERE and value != _SET_HERE[name][0]:
            raise ValueError(f"{name}={value} is not possible: {_SET_HERE[name][1]}")
    # Its unix sockets refuse an option that only TCP has.
    of_tcp = {} if url.startswith("unix://") else {"socket_keepalive": True}
    return {
        "username": account,
        "password": "" if account is not None and secret is None else secret,
        "protocol": 3,
        "socket_timeout": patience.timeout,
        "socket_connect_timeout": patience.timeout,
        # Redis-py's own bound, 100 since its version 8, fails whoever comes next. Here a program's threads and tasks
        # are the bound.
        "max_connections": 2**31,
        **of_tcp,
        **_no_maintenance(of),
        **more,
    }


def _no_maintenance(of: type) -> dict[str, Any]:
    """No notifications of Redis Enterprise, for which redis-py asks whatever server speaks RESP3.

    With them the asyncio pool of its version 8 does not notice that a connection was closed while nobody used it, by a
    restart say, and its version 7 refuses unix sockets.
    """
    if "maint_notifications_config" not in inspect.signature(of).parameters:
        return {}
    from redis.maint_notifications import MaintNotificationsConfig  # not there before

    return {"maint_notifications_config": MaintNotificationsConfig(enabled=False)}


def may_repeat(request: Request[Any], error: PosthasteError) -> bool:
    """Whether to try again after this error."""
    if isinstance(error, (Busy, NotConnected)):
        return True  # nothing happened
    return request.repeatable and isinstance(error, (ConnectionLost, StoreFailed))


def leaves_in_doubt(error: PosthasteError) -> bool:
    """Whether the request may have happened in spite of this error."""
    if isinstance(error, StoreFailed):
        return "nothing was changed" not in str(error)
    return isinstance(error, ConnectionLost) and not isinstance(error, NotConnected)
