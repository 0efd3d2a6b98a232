"""The errors of the client.

The server begins every refusal with one word for programs. Each word is a type here, so that a program can catch the
errors that it can handle. A lost connection is no refusal: it is unknown whether the request happened.
"""

import re
from typing import ClassVar

from redis import exceptions


class PosthasteError(Exception):
    """Base of all errors of this package."""


class ConnectionLost(PosthasteError):
    """No connection, or no answer in time: the request may or may not have happened."""


class NotConnected(ConnectionLost):
    """No connection could be made: nothing happened; it may be tried again."""


class LeaseLost(PosthasteError):
    """The lease had run out before the message was acknowledged: another consumer may have it by now."""


class Refused(PosthasteError):
    """The server refused the request. `word` is its word for programs, the message its sentence for people."""

    word: ClassVar[str] = "ERR"


class NotLoggedIn(Refused):
    """Accounts are closed, and this client named none."""

    word = "NOAUTH"


class NoAccount(Refused):
    """The account is unknown or its secret wrong; or the recipient never logged in and the queue is strict."""

    word = "NOACCOUNT"


class NoQueue(Refused):
    """There is no queue of that name; also when it is deleted while a request waits on it."""

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
    """Too many requests are waiting. The request did not happen, and may be tried again.

    Of a QDELETE, a QPURGE or a QREDRIVE a part may have happened: then the text says how many messages were removed or
    moved ("at least …"), and the client does not repeat it by itself.
    """

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

# A tier's messages to a connection that it refuses: they arrive as an answer, although no request was read.
_TURNED_AWAY = re.compile(r"max number of clients reached|too many connections from your address")
# redis-py's messages for a failed connection. Other ones count as a lost connection, which is the safe side.
_NOT_CONNECTED = re.compile(r"Error (.* )?connecting to |Timeout connecting to |Too many connections")


def understood(error: exceptions.RedisError | OSError) -> PosthasteError:
    """Returns this package's error for one of redis-py.

    redis-py removes the first word where it is also one of Redis's, and keeps it in `status_code`; before version 7.2
    only its type shows the word, and that type is a kind of lost connection.
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
