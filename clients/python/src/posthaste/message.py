"""Messages and queues as objects, read from the maps that the server answers with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message, as PEEK and POP show it."""

    id: int
    queue: str
    sender: str
    recipient: str | None
    """The only account that may read it; None when it is for anyone."""
    sent_at: datetime
    deliveries: int
    """Number of deliveries; that of the current pop is included."""
    body: bytes
    priority: int = 0
    headers: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    receipt: str | None = None
    """Name of its lease; None when it was not popped with one."""
    first_queue: str | None = None
    """The queue from which a dead letter came; None for other messages."""
    reason: str | None = None
    """The reason why it is a dead letter; None for other messages."""

    @property
    def text(self) -> str:
        """The body as text. Raises UnicodeDecodeError, a ValueError, when it is not UTF-8."""
        return self.body.decode()


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The queue to which messages are moved after `after` deliveries without an acknowledgment."""

    queue: str
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One queue, as QLIST shows it."""

    name: str
    id: int
    messages: int
    """Number of messages in any state."""
    bytes: int
    """Total bytes of the bodies of its messages."""
    oldest_s: float
    """The age of its oldest message in seconds; 0 when it is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDetails(Queue):
    """One queue with its options, as QINFO shows it. None means no limit."""

    leased: int
    delayed: int
    max_messages: int | None
    max_bytes: int | None
    ttl_s: float | None
    dead_letter: DeadLetter | None
    forbid_self: bool
    strict: bool


def message(answer: Any) -> Message:  # noqa: ANN401 - redis-py gives what came
    """Returns the message in a map. Unknown fields are ignored, as the server's documentation requires."""
    fields = _fields(answer)
    return Message(
        id=fields["id"],
        queue=_text(fields["queue"]),
        sender=_text(fields["from"]),
        recipient=_text_or_none(fields["to"]),
        sent_at=datetime.fromtimestamp(fields["sent_ms"] / 1000, UTC),
        deliveries=fields["deliveries"],
        body=fields["body"],
        priority=fields.get("priority", 0),
        headers=_fields(fields.get("headers", {})),
        receipt=_text_or_none(fields.get("receipt")),
        first_queue=_text_or_none(fields.get("first_queue")),
        reason=_text_or_none(fields.get("reason")),
    )


def message_or_none(answer: Any) -> Message | None:  # noqa: ANN401
    """Returns the message, or None when there is none."""
    return None if answer is None else message(answer)


def messages(answer: Any) -> list[Message]:  # noqa: ANN401
    """Returns all messages of an array."""
    return [message(one) for one in answer]


def queues(answer: Any) -> list[Queue]:  # noqa: ANN401
    """Returns all queues of an array."""
    return [Queue(**_counts(_fields(one))) for one in answer]


def queue_details(answer: Any) -> QueueDetails:  # noqa: ANN401
    """Returns a queue with its options."""
    fields = _fields(answer)
    grave = fields["deadletter"] and _fields(fields["deadletter"])
    return QueueDetails(
        **_counts(fields),
        leased=fields["leased"],
        delayed=fields["delayed"],
        max_messages=fields["maxmsgs"],
        max_bytes=fields["maxbytes"],
        ttl_s=None if fields["ttl_ms"] is None else fields["ttl_ms"] / 1000,
        dead_letter=DeadLetter(_text(grave["queue"]), grave["after"]) if grave else None,
        forbid_self=bool(fields["forbidself"]),
        strict=bool(fields["strict"]),
    )


def names(answer: Any) -> list[str]:  # noqa: ANN401
    """Returns the names of queues."""
    return [_text(one) for one in answer]


def _counts(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": _text(fields["name"]),
        "id": fields["id"],
        "messages": fields["messages"],
        "bytes": fields["bytes"],
        "oldest_s": fields["oldest_ms"] / 1000,
    }


def _fields(answer: Mapping[Any, Any]) -> dict[str, Any]:
    return {_text(name): value for name, value in answer.items()}


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _text_or_none(value: bytes | str | None) -> str | None:
    return None if value is None else _text(value)
