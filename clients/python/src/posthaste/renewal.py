"""Extends leases while work lasts, from a thread of its own that starts with the first message.

A lease is extended when a third of it is over, so two attempts may fail before it is lost. Whether it was lost is
not told to the work, which could not stop half-way; the acknowledgment finds out.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from posthaste.errors import PosthasteError

log = logging.getLogger("posthaste")


@dataclass(slots=True)
class _Held:
    due: float
    until: float


class Renewal:
    """The leases under work."""

    def __init__(self, extend: Callable[[str, float], bool], lease: float, longest: float) -> None:
        """Leases of so many seconds, each extended for at most `longest`."""
        self._extend = extend
        self._lease = lease
        self._longest = longest
        self._held: dict[str, _Held] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def begin(self, receipt: str) -> None:
        """Extend this lease from now on."""
        now = time.monotonic()
        with self._changed:
            self._held[receipt] = _Held(due=now + self._lease / 3, until=now + self._longest)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="posthaste-renewal", daemon=True)
                self._thread.start()
            self._changed.notify()

    def end(self, receipt: str) -> None:
        """Extend it no more."""
        with self._changed:
            self._held.pop(receipt, None)

    def _work(self) -> None:
        while True:
            receipt = self._next_due()
            try:
                alive = self._extend(receipt, self._lease)
            except PosthasteError as error:
                log.warning("a lease could not be extended yet: %s", error)
                continue
            if not alive:
                self.end(receipt)

    def _next_due(self) -> str:
        """Wait until a lease is to be extended, and set when it will be so again."""
        with self._changed:
            while True:
                now = time.monotonic()
                self._held = {receipt: held for receipt, held in self._held.items() if held.until > now}
                if not self._held:
                    self._changed.wait()
                    continue
                receipt, held = min(self._held.items(), key=lambda entry: entry[1].due)
                if held.due <= now:
                    held.due = now + self._lease / 3
                    return receipt
                self._changed.wait(held.due - now)
