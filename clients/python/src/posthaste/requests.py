"""Every request as a value: its words, how its answer is read, and whether it may be repeated.

No input or output happens here, so that the blocking and the asynchronous client say the same words. A request may
be repeated when asking twice does what asking once does: by itself (PEEK, QCREATE), or because it carries a key by
which the server knows it again (SEND with DEDUP, POP with REQID). Such a key is made when the request is made, so
every repetition has the same one. A pop with a lease carries none: should its answer be lost, the message comes
back when the lease is over, and the server need not remember a key for ten minutes.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar

from posthaste import message as parse
from posthaste.message import DeadLetter, Message, Queue, QueueDetails

T = TypeVar("T")
Word = str | bytes | int


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """What is asked, and what becomes of the answer."""

    words: tuple[Word, ...]
    read: Callable[[Any], T]
    repeatable: bool = True
    read_in_doubt: Callable[[Any], T] | None = None
    """How the answer is read when an earlier try may have happened. None: as ever."""

    def understand(self, answer: Any, *, in_doubt: bool) -> T:  # noqa: ANN401 - whatever redis-py has read
        """What the answer means. `in_doubt`: an earlier try may have happened."""
        read = self.read_in_doubt if in_doubt and self.read_in_doubt else self.read
        return read(answer)


class QueueOptions(TypedDict, total=False):
    """Options of a queue. Given for an existing queue, they replace all it has; `strict=False` alone takes all away."""

    max_messages: int
    max_bytes: int
    ttl: float
    """Seconds, for messages sent without a time to live of their own."""
    dead_letter: DeadLetter
    forbid_self: bool
    strict: bool


class SendOptions(TypedDict, total=False):
    """Options of a message."""

    to: str
    """The only account that may read it; `*` for a copy to everybody."""
    delay: float
    """Seconds until it can be read."""
    ttl: float
    """Seconds until it vanishes."""
    priority: int
    """0 to 255; higher ones are read first."""
    dedup: str | bytes
    """The message's own key; without one, a key is made that protects only the repetitions of this call."""
    headers: Mapping[str, str | bytes]


class ReadOptions(TypedDict, total=False):
    """Which messages are meant, beside the queue."""

    sender: str
    not_own: bool
    broadcast: bool
    any_order: bool


def check_names(options: Mapping[str, object], known: frozenset[str]) -> None:
    """Refuse an option that there is not: left out, it would be missed by nobody until a message is there twice."""
    unknown = sorted(options.keys() - known)
    if unknown:
        raise TypeError(f"there is no option {', '.join(unknown)}; there are {', '.join(sorted(known))}")


def create_queue(name: str | None, options: QueueOptions) -> Request[int]:
    """QCREATE: the queue's id."""
    check_names(options, QueueOptions.__optional_keys__)
    grave = options.get("dead_letter")
    words = (
        *_valued("MAXMSGS", options.get("max_messages")),
        *_valued("MAXBYTES", options.get("max_bytes")),
        *_timed("TTL", options.get("ttl")),
        *(("DEADLETTER", grave.queue, "AFTER", grave.after) if grave else ()),
        *_flagged("FORBIDSELF", options.get("forbid_self")),
        *_flagged("STRICT", options.get("strict")),
    )
    if name is None:  # every repetition would make another queue
        return Request(("QCREATE", "-", *words), int, repeatable=False)
    # An option said to be off takes no word, and QCREATE without words keeps what the queue has.
    return Request(("QCREATE", name, *(words or (("NOOPTIONS",) if options else ()))), int)


def delete_queue(name: str) -> Request[int]:
    """QDELETE: how many messages went with it. Repeated, it would deny that there ever was a queue."""
    return Request(("QDELETE", name), int, repeatable=False)


def purge_queue(name: str) -> Request[int]:
    """QPURGE: how many messages were removed. Repeated, it would remove what came since."""
    return Request(("QPURGE", name), int, repeatable=False)


def queues() -> Request[list[Queue]]:
    """QLIST."""
    return Request(("QLIST",), parse.queues)


def queue(name: str) -> Request[QueueDetails]:
    """QINFO."""
    return Request(("QINFO", name), parse.queue_details)


def readable() -> Request[list[str]]:
    """QREADABLE."""
    return Request(("QREADABLE",), parse.names)


def redrive(source: str, to: str | None) -> Request[int]:
    """QREDRIVE: how many moved. Repeated, it would count only the rest."""
    return Request(("QREDRIVE", source, *(() if to is None else (to,))), int, repeatable=False)


def send(queue: str, body: str | bytes, options: SendOptions) -> Request[int]:
    """SEND: the message's id."""
    check_names(options, SendOptions.__optional_keys__)
    headers = options.get("headers", {})
    key = options.get("dedup")  # an empty one goes there to be refused: whoever gave it counts on it
    words = (
        *_valued("TO", options.get("to")),
        *_timed("DELAY", options.get("delay")),
        *_timed("TTL", options.get("ttl")),
        *_valued("PRIORITY", options.get("priority")),
        *("DEDUP", uuid.uuid4().bytes if key is None else key),
        *(word for name, value in headers.items() for word in ("HEADER", name, value)),
    )
    return Request(("SEND", queue, body, *words), int)


def send_many(queue: str, bodies: tuple[str | bytes, ...]) -> Request[list[int]]:
    """SENDMANY: the ids. It has no key, so it is not repeated."""
    return Request(("SENDMANY", queue, *bodies), list, repeatable=False)


def peek(queue: str | None, options: ReadOptions) -> Request[Message | None]:
    """PEEK: the message that a pop would take."""
    return Request(("PEEK", *_selection(queue, options)), parse.message_or_none)


def peek_many(queue: str | None, count: int, options: ReadOptions) -> Request[list[Message]]:
    """PEEK with COUNT."""
    return Request(("PEEK", *_selection(queue, options), "COUNT", count), parse.messages)


@dataclass(frozen=True, slots=True)
class Pop:
    """A pop that may wait, and may be asked in several pieces: all of them carry the same key."""

    queue: str | None
    options: ReadOptions
    lease: float | None
    key: bytes | None

    @classmethod
    def new(cls, queue: str | None, lease: float | None, options: ReadOptions) -> "Pop":
        """A pop with a key of its own, unless a lease protects it."""
        check_names(options, ReadOptions.__optional_keys__ | {"lease", "wait"})
        return cls(queue, options, lease, uuid.uuid4().bytes if lease is None else None)

    def one(self, wait: float) -> Request[Message | None]:
        """The next message, waiting for it so many seconds."""
        return Request(self._words(wait), parse.message_or_none)

    def many(self, count: int, wait: float) -> Request[list[Message]]:
        """The next messages, at most so many."""
        return Request((*self._words(wait), "COUNT", count), parse.messages)

    def _words(self, wait: float) -> tuple[Word, ...]:
        return (
            "POP",
            *_selection(self.queue, self.options),
            *_timed("LEASE", self.lease),
            *(_timed("BLOCK", wait) if wait > 0 else ()),
            *_valued("REQID", self.key),
        )


def ack(receipts: tuple[str, ...]) -> Request[int]:
    """ACK: how many leases were still there. A repetition may count fewer than the first try removed."""
    return Request(("ACK", *receipts), int)


def finish(receipt: str) -> Request[bool]:
    """ACK of one message, and whether its lease was still there.

    A repetition that finds no lease counts as one that does: most likely the first try removed the message, and only
    its answer was lost. Work that is done must not be undone for that.
    """
    return Request(("ACK", receipt), bool, read_in_doubt=lambda _: True)


def nack(receipt: str, delay: float | None) -> Request[bool]:
    """NACK: whether the lease was still there."""
    return Request(("NACK", receipt, *_timed("DELAY", delay)), bool)


def extend(receipt: str, seconds: float) -> Request[bool]:
    """EXTEND: whether the lease was still there."""
    return Request(("EXTEND", receipt, _milliseconds(seconds)), bool)


def receipt(of: Message | str) -> str:
    """What names a lease: a message that was popped with one, or its receipt."""
    if isinstance(of, str):
        return of
    if of.receipt is None:
        raise ValueError(f"message {of.id} has no lease: pop it with lease=…")
    return of.receipt


def _selection(queue: str | None, options: ReadOptions) -> tuple[Word, ...]:
    check_names(options, ReadOptions.__optional_keys__)
    return (
        *_valued("QUEUE", queue),
        *_valued("FROM", options.get("sender")),
        *_flagged("NOTOWN", options.get("not_own")),
        *_flagged("BROADCAST", options.get("broadcast")),
        *_flagged("ANYORDER", options.get("any_order")),
    )


def _valued(name: str, value: Word | None) -> tuple[Word, ...]:
    return () if value is None else (name, value)


def _timed(name: str, seconds: float | None) -> tuple[Word, ...]:
    return () if seconds is None else (name, _milliseconds(seconds))


def _flagged(name: str, wanted: bool | None) -> tuple[Word, ...]:
    return (name,) if wanted else ()


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
