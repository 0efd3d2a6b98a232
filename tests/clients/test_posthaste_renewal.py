"""How the typed Python client (clients/python) keeps leases while work lasts, without a server."""

import os
import threading
import warnings
from collections.abc import Callable

import pytest
from posthaste.renewal import Renewal

from waiting import until


def test_an_extension_that_fails_keeps_the_other_leases(caplog: pytest.LogCaptureFixture) -> None:
    """Also with an error that nobody foresaw; one of work that is done meanwhile is nobody's concern."""
    asked: dict[str, int] = {"failing": 0, "lasting": 0}

    def extend(receipt: str, _lease: float) -> bool:
        asked[receipt] += 1
        if receipt == "failing":
            if asked[receipt] == 2:
                renewal.end(receipt)
            raise ValueError(f"failure {asked[receipt]}")
        return True

    renewal = Renewal(extend, lease=0.03, longest=120.0)
    renewal.begin("failing")
    renewal.begin("lasting")
    until(lambda: asked["failing"] == 2 and asked["lasting"] > 3)
    renewal.end("lasting")
    assert caplog.messages == ["a lease could not be extended yet: failure 1"]


def test_a_process_forked_off_keeps_its_own_leases_alone() -> None:
    """The thread that did so stayed behind, and so did the messages under work."""
    asked: list[str] = []
    renewal = Renewal(noting(asked), lease=0.03, longest=120.0)
    renewal.begin("the parent's")
    until(lambda: bool(asked))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, since Python 3.12
        child = os.fork()
    if child == 0:
        try:
            asked.clear()
            renewal.begin("the child's")
            until(lambda: len(asked) > 2)
            os._exit(0 if set(asked) == {"the child's"} else 2)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    renewal.end("the parent's")


def test_a_thread_that_could_not_be_started_is_started_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has no thread to give at one moment may have one at another."""

    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    asked: list[str] = []
    renewal = Renewal(noting(asked), lease=0.03, longest=120.0)
    with monkeypatch.context() as none_left:
        none_left.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(RuntimeError):
            renewal.begin("first")
    renewal.begin("second")
    until(lambda: len(asked) > 2)
    renewal.end("second")
    assert set(asked) == {"second"}


def noting(asked: list[str]) -> Callable[[str, float], bool]:
    """Extensions that all succeed, and are noted."""

    def extend(receipt: str, _lease: float) -> bool:
        asked.append(receipt)
        return True

    return extend
