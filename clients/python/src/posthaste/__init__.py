"""Typed client of Posthaste's queue tier.

    from posthaste import Client, Consumer

    with Client() as tier:
        tier.create_queue("orders")
        tier.send("orders", "two coffees")
        message = tier.pop("orders", lease=60)
        tier.ack(message)

`posthaste.aio` has the same for asyncio.
"""

from posthaste.client import Client
from posthaste.consumer import Consumer, Delivery, growing_pause
from posthaste.errors import (
    BadQuery,
    Busy,
    ConnectionLost,
    Denied,
    Full,
    LeaseLost,
    NoAccount,
    NoQueue,
    NotConnected,
    NotLoggedIn,
    PosthasteError,
    Refused,
    StoreFailed,
    TooBig,
)
from posthaste.message import DeadLetter, Message, Queue, QueueDetails

__version__ = "0.1.0"

__all__ = [
    "BadQuery",
    "Busy",
    "Client",
    "ConnectionLost",
    "Consumer",
    "DeadLetter",
    "Delivery",
    "Denied",
    "Full",
    "LeaseLost",
    "Message",
    "NoAccount",
    "NoQueue",
    "NotConnected",
    "NotLoggedIn",
    "PosthasteError",
    "Queue",
    "QueueDetails",
    "Refused",
    "StoreFailed",
    "TooBig",
    "growing_pause",
]
