"""Posthaste's client for asyncio: `Client`, `Consumer`, `Delivery`."""

from posthaste.aio.client import Client
from posthaste.aio.consumer import Consumer, Delivery

__all__ = ["Client", "Consumer", "Delivery"]
