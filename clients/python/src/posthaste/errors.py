"""What can go wrong, as types.

The server begins every refusal with one word for programs; each word is a type here, so that a program catches
what it can do something about and lets the rest pass. A lost connection is no refusal: nobody knows what became
of the request.
"""

import re
from typing import ClassVar

from redis import exceptions


class PosthasteError(Exception):
    """Whatever this package raises of its own."""


class ConnectionLost(PosthasteError):
    """No connection, or no answer in time: the request may or may not have happened."""


class NotConnected(ConnectionLost):
    """No connection could be made: nothing happened; it may be tried again."""


class LeaseLost(PosthasteError):
    """The lease had run out before the message was acknowledged: somebody else may have it by now."""


class Refused(PosthasteError):
    """The server said no. `word` is its word for programs, the text its sentence for people."""

    word: ClassVar[str] = "ERR"


class NotLoggedIn(Refused):
    """Accounts are closed, and this client named none."""

    word = "NOAUTH"


class NoAccount(Refused):
    """The account is unknown or its secret wrong; or the recipient never logged in and the queue is strict."""

    word = "NOACCOUNT"


class NoQueue(Refused):
    """There is no queue of that name; also when it is deleted while somebody waits on it."""

    word = "NOQUEUE"


class BadQuery(Refused):
    """A read named neither queue nor sender, or a queue was named as its own dead-letter queue."""

    word = "BADQUERY"


class TooBig(Refused):
    """The body is larger than the server takes."""

    word = "TOOBIG"


class Full(Refused):
    """A limit of the queue or of the server is reached: consumers are behind."""

    word = "FULL"


class Busy(Refused):
    """Too many requests wait. Nothing happened; it may be tried again."""

    word = "BUSY"


class StoreFailed(Refused):
    """The store failed: the request may or may not have happened, unless the text says that nothing was changed."""

    word = "STORE"


class Denied(Refused):
    """The account may not do that, or the queue's options forbid it."""

    word = "DENIED"


_BY_WORD: dict[str, type[Refused]] = {
    kind.word: kind
    for kind in (NotLoggedIn, NoAccount, NoQueue, BadQuery, TooBig, Full, Busy, StoreFailed, Denied, Refused)
}

# What a tier tells a connection that it does not let in: it comes as an answer, and yet nothing was asked.
_TURNED_AWAY = re.compile(r"max number of clients reached|too many connections from your address")
# How redis-py says so. What it might say otherwise one day counts as a lost connection, which is the safe side.
_NOT_CONNECTED = re.compile(r"Error (.* )?connecting to |Timeout connecting to |Too many connections")


def understood(error: exceptions.RedisError | OSError) -> PosthasteError:
    """What an error of redis-py means here.

    redis-py cuts the first word away where it is also one of Redis's, and keeps it in `status_code`; before its version
    7.2 in the type alone, which to it is a kind of lost connection.
    """
    text = str(error)
    if isinstance(error, exceptions.AuthenticationError):
        return NotLoggedIn(text)
    if _TURNED_AWAY.match(text):
        return NotConnected(text)
    word = getattr(error, "status_code", None) or text.split(" ", 1)[0]
    if word in _BY_WORD:
        return _BY_WORD[word](text.removeprefix(word).lstrip() or text)
    if isinstance(error, (exceptions.ConnectionError, exceptions.TimeoutError, OSError)):
        return NotConnected(text) if _NOT_CONNECTED.match(text) else ConnectionLost(text)
    return Refused(text)
