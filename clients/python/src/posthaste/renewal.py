"""Extends leases while work lasts, from a thread of its own that starts with the first message.

A lease is extended when a third of it is over, so two attempts may fail before it is lost. The work is not told that
its lease was lost, as it could not stop half-way; the acknowledgment detects it. The end of the work does not wait for
an extension under way, which may hang longer than the lease lasts, and whose result no longer matters.

A forked process has neither the thread nor the messages under work: it begins with none.
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
"""Seconds for which the thread waits for the next message before it ends."""


@dataclass(slots=True)
class _Held:
    due: float
    until: float


class Renewal:
    """The leases of messages that are being worked on."""

    def __init__(self, extend: Callable[[str, float], bool], lease: float, longest: float) -> None:
        """Extends leases of `lease` seconds by calling `extend`, each for at most `longest` seconds."""
        self._extend = extend
        self._lease = lease
        self._longest = longest
        self.forget()
        _all.add(self)

    def forget(self) -> None:
        """Forgets all leases and the thread, as a forked process must."""
        self._held: dict[str, _Held] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def begin(self, receipt: str) -> None:
        """Begins to extend this lease."""
        now = time.monotonic()
        with self._changed:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="posthaste-renewal", daemon=True)
                thread.start()  # if it fails, the next lease tries again
                self._thread = thread
            self._held[receipt] = _Held(due=now + self._lease / 3, until=now + self._longest)
            self._changed.notify()

    def end(self, receipt: str) -> None:
        """Stops extending this lease."""
        with self._changed:
            self._held.pop(receipt, None)

    def _work(self) -> None:
        while (receipt := self._next_due()) is not None:
            try:
                alive = self._extend(receipt, self._lease)
            except Exception as error:  # of any kind: the other leases must still be extended
                if self._is_held(receipt):
                    log.warning("a lease could not be extended yet: %s", error)
                continue
            if not alive:
                self.end(receipt)

    def _is_held(self, receipt: str) -> bool:
        with self._changed:
            return receipt in self._held

    def _next_due(self) -> str | None:
        """Waits until a lease is due, sets its next due time, and returns it.

        Returns None, so that the thread ends, when there has been no lease for IDLE_S.
        """
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


if hasattr(os, "register_at_fork"):  # missing on systems without fork
    os.register_at_fork(after_in_child=_forget_all)
