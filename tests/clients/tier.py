"""A `posthaste queue` process for a test, and what its answers look like to any library."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0
STOP_S = 60.0

Message = dict[str, Any]


def program() -> Path:
    """The program under test: what POSTHASTE names, else what `cargo build` made."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = Path(os.environ.get("POSTHASTE", target / "debug" / "posthaste"))
    if not path.exists():
        raise FileNotFoundError(f"{path} is not built: run `cargo build`, or let POSTHASTE name the program")
    return path


class Tier:
    """One server on a store directory; it can be killed and started again on the same port."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        """Start it on a free port."""
        self._directory = directory
        self._arguments = arguments
        self.port = 0
        self.http_port = 0
        self.start()

    @property
    def socket_path(self) -> Path:
        """The unix socket it also listens on."""
        return self._directory / "tier.sock"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        self._process = subprocess.Popen(
            [
                *(program(), "queue", "--threads", "2"),
                *(() if "--http" in self._arguments else ("--http", "off")),
                *("--listen", f"127.0.0.1:{self.port}", "--listen", f"unix:{self.socket_path}"),
                *("--store", f"embedded:{self._directory / 'data'}"),
                *self._arguments,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._log: list[str] = []
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()
        if not self._listening.wait(START_S) or self.port == 0:
            self.kill()
            raise RuntimeError("the server did not say where it listens; it said:\n" + "".join(self._log))

    def stop(self) -> int:
        """Ask it to stop, and wait until it has; its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._end()

    def kill(self) -> None:
        """End it without warning."""
        self._process.kill()
        self._end()

    def log(self) -> str:
        """What it has said so far."""
        return "".join(self._log)

    def _end(self) -> int:
        code = self._process.wait(STOP_S)
        self._reader.join(STOP_S)
        if self._process.stderr is not None:
            self._process.stderr.close()
        return code

    def _follow(self) -> None:
        for line in self._process.stderr or ():
            self._log.append(line)
            if found := re.search(r"listening on 127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
            if found := re.search(r"health and figures on https?://127\.0\.0\.1:(\d+)", line):
                self.http_port = int(found[1])
            if self.port and (self.http_port or "--http" not in self._arguments):
                self._listening.set()
        self._listening.set()  # it ended


def message(answer: Any) -> Message:  # noqa: ANN401 - libraries disagree on what a map is
    """A message map, whether it came as a map (RESP3) or as a flat array of names and values (RESP2)."""
    if isinstance(answer, Mapping):
        return {_text(name): value for name, value in answer.items()}
    if isinstance(answer, Sequence) and not isinstance(answer, (str, bytes)):
        return {_text(name): value for name, value in zip(answer[::2], answer[1::2], strict=True)}
    raise TypeError(f"a message was expected, not {answer!r}")


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name
