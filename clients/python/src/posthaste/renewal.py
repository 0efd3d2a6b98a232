"""Extends leases while work lasts, from a thread of its own that starts with the first message.

A lease is extended when a third of it is over, so two attempts may fail before it is lost. Whether it was lost is
not told to the work, which could not stop half-way; the acknowledgment finds out. The work's end does not wait for
an extension under way, which may hang longer than the lease lasts; what becomes of it is nobody's concern then.

A process that is forked off has neither the thread nor the messages under work: it begins with none.
"""

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger("posthaste")

IDLE_S = 10.0
"""How long the thread waits for a next message before it ends."""


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
        self.forget()
        _all.add(self)

    def forget(self) -> None:
        """Begin anew, in a process that was forked off."""
        self._held: dict[str, _Held] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def begin(self, receipt: str) -> None:
        """Extend this lease from now on."""
        now = time.monotonic()
        with self._changed:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="posthaste-renewal", daemon=True)
                thread.start()  # may fail, and is tried again by the next one then
                self._thread = thread
            self._held[receipt] = _Held(due=now + self._lease / 3, until=now + self._longest)
            self._changed.notify()

    def end(self, receipt: str) -> None:
        """Extend it no more."""
        with self._changed:
            self._held.pop(receipt, None)

    def _work(self) -> None:
        while (receipt := self._next_due()) is not None:
            try:
                alive = self._extend(receipt, self._lease)
            except Exception as error:  # whatever it is: the other leases are still to be extended
                if self._is_held(receipt):
                    log.warning("a lease could not be extended yet: %s", error)
                continue
            if not alive:
                self.end(receipt)

    def _is_held(self, receipt: str) -> bool:
        with self._changed:
            return receipt in self._held

    def _next_due(self) -> str | None:
        """Wait until a lease is due, and set when it will be so again. None: nothing is worked on, the thread ends."""
        with self._changed:
            while True:
                now = time.monotonic()
                self._held = {receipt: held for receipt, held in self._held.items() if held.until > now}
                if not self._held:
                    if self._changed.wait_for(lambda: bool(self._held), IDLE_S):
                        continue
                    self._thread = None
                    return None
                receipt, held = min(self._held.items(), key=lambda entry: entry[1].due)
                if held.due <= now:
                    held.due = now + self._lease / 3
                    return receipt
                self._changed.wait(held.due - now)


_all: weakref.WeakSet[Renewal] = weakref.WeakSet()


def _forget_all() -> None:
    for renewal in _all:
        renewal.forget()


if hasattr(os, "register_at_fork"):  # not where nothing forks
    os.register_at_fork(after_in_child=_forget_all)
