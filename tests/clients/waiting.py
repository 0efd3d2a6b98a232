"""Helpers that wait until a condition of a test holds."""

import time
from collections.abc import Callable

import redis

from tier import Tier


def until(holds: Callable[[], bool]) -> None:
    """Wait until something is true."""
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.01)


def are_waiting(tier: Tier, pops: int) -> bool:
    """Whether so many pops wait at the tier."""
    with redis.Redis(port=tier.port) as watcher:
        return int(watcher.info("store")["blocked_clients"]) == pops
