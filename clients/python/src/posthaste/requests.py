"""Every request as a value: its words, how its answer is read, and whether it may be repeated.

No input or output happens here, so that the blocking and the asynchronous client send the same words. A request may be
repeated when sending it twice has the effect of sending it once: by its nature (PEEK, QCREATE), or because it has a key
by which the server recognizes it (SEND with DEDUP, POP with REQID). The key is made with the request, so every
repetition has the same one. A pop with a lease has no key: if its answer is lost, the message comes back when the lease
is over, and the server need not remember a key for ten minutes.
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
    """A request, and how its answer is read."""

    words: tuple[Word, ...]
    read: Callable[[Any], T]
    repeatable: bool = True
    read_in_doubt: Callable[[Any], T] | None = None
    """Reads the answer when an earlier try may have happened; None: `read` does."""

    def understand(self, answer: Any, *, in_doubt: bool) -> T:  # noqa: ANN401 - whatever redis-py has read
        """Returns the meaning of the answer. `in_doubt` says whether an earlier try may have happened."""
        read = self.read_in_doubt if in_doubt and self.read_in_doubt else self.read
        return read(answer)


class QueueOptions(TypedDict, total=False):
    """Options of a queue. For an existing queue they replace all its options; `strict=False` alone removes them all."""

    max_messages: int
    max_bytes: int
    ttl: float
    """Time to live, in seconds, of messages that are sent without one."""
    dead_letter: DeadLetter
    forbid_self: bool
    strict: bool


class SendOptions(TypedDict, total=False):
    """Options of a message."""

    to: str
    """The only account that may read it; `*` sends a copy to every account."""
    delay: float
    """Seconds until it can be read."""
    ttl: float
    """Seconds until it vanishes."""
    priority: int
    """0 to 255; higher ones are read first."""
    dedup: str | bytes
    """Key against duplicates; without one, a key is made that protects only against repetitions of this call."""
    headers: Mapping[str, str | bytes]


class ReadOptions(TypedDict, total=False):
    """Conditions, beside the queue, on the messages to read."""

    sender: str
    not_own: bool
    broadcast: bool
    any_order: bool


def check_names(options: Mapping[str, object], known: frozenset[str]) -> None:
    """Raises TypeError for unknown options: if they were ignored, a typo in `dedup` would show only as a duplicate."""
    unknown = sorted(options.keys() - known)
    if unknown:
        raise TypeError(f"there is no option {', '.join(unknown)}; there are {', '.join(sorted(known))}")


def create_queue(name: str | None, options: QueueOptions) -> Request[int]:
    """QCREATE, whose answer is the queue's id."""
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
    # An option that is off has no word, and QCREATE without words would keep the queue's options.
    return Request(("QCREATE", name, *(words or (("NOOPTIONS",) if options else ()))), int)


def delete_queue(name: str) -> Request[int]:
    """QDELETE, whose answer is the number of messages deleted. Repeated, it would be refused with NOQUEUE."""
    return Request(("QDELETE", name), int, repeatable=False)


def purge_queue(name: str) -> Request[int]:
    """QPURGE, whose answer is the number of messages removed. Repeated, it would remove messages sent since."""
    return Request(("QPURGE", name), int, repeatable=False)


def queues() -> Request[list[Queue]]:
    """QLIST."""
    return Request(("QLIST",), parse.queues)


def queue(name: str) -> Request[QueueDetails]:
    """QINFO."""
    return Request(("QINFO", name), parse.queue_details)


def readable(*, not_own: bool) -> Request[list[str]]:
    """QREADABLE."""
    return Request(("QREADABLE", *_flagged("NOTOWN", not_own)), parse.names)


def redrive(source: str, to: str | None) -> Request[int]:
    """QREDRIVE, whose answer is the number of messages moved. Repeated, it would count only the rest."""
    return Request(("QREDRIVE", source, *(() if to is None else (to,))), int, repeatable=False)


def send(queue: str, body: str | bytes, options: SendOptions) -> Request[int]:
    """SEND, whose answer is the message's id, or the number of copies."""
    check_names(options, SendOptions.__optional_keys__)
    headers = options.get("headers", {})
    key = options.get("dedup")  # an empty one is sent, and refused: the caller relies on it
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
    """SENDMANY, whose answer is the list of ids. It has no key, so it is not repeated."""
    return Request(("SENDMANY", queue, *bodies), list, repeatable=False)


def peek(queue: str | None, options: ReadOptions) -> Request[Message | None]:
    """PEEK, whose answer is the message that a pop would take."""
    return Request(("PEEK", *_selection(queue, options)), parse.message_or_none)


def peek_many(queue: str | None, count: int, options: ReadOptions) -> Request[list[Message]]:
    """PEEK with COUNT."""
    return Request(("PEEK", *_selection(queue, options), "COUNT", count), parse.messages)


@dataclass(frozen=True, slots=True)
class Pop:
    """A pop that may wait in several pieces, all of which have the same key."""

    queue: str | None
    options: ReadOptions
    lease: float | None
    key: bytes | None

    @classmethod
    def new(cls, queue: str | None, lease: float | None, options: ReadOptions) -> "Pop":
        """Makes a pop, with a key of its own unless a lease protects its message."""
        check_names(options, ReadOptions.__optional_keys__ | {"lease", "wait"})
        return cls(queue, options, lease, uuid.uuid4().bytes if lease is None else None)

    def one(self, wait: float) -> Request[Message | None]:
        """POP of the next message, waiting for it up to `wait` seconds."""
        return Request(self._words(wait), parse.message_or_none)

    def many(self, count: int, wait: float) -> Request[list[Message]]:
        """POP of the next messages, at most `count`, waiting up to `wait` seconds."""
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
    """ACK, whose answer is the number of leases that existed. A repetition may count fewer than the first removed."""
    return Request(("ACK", *receipts), int)


def finish(receipt: str) -> Request[bool]:
    """ACK of one message, whose answer is whether its lease still existed.

    In a repetition a missing lease counts as existing: most likely the first try removed the message, and only its
    answer was lost. Finished work must not be reported as lost for that.
    """
    return Request(("ACK", receipt), bool, read_in_doubt=lambda _: True)


def nack(receipt: str, delay: float | None) -> Request[bool]:
    """NACK, whose answer is whether the lease still existed."""
    return Request(("NACK", receipt, *_timed("DELAY", delay)), bool)


def extend(receipt: str, seconds: float) -> Request[bool]:
    """EXTEND, whose answer is whether the lease still existed."""
    return Request(("EXTEND", receipt, _milliseconds(seconds)), bool)


def receipt(of: Message | str) -> str:
    """Returns the receipt of a message that was popped with a lease, or the given receipt itself."""
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
