"""A `posthaste cache` process for a test, and the memcached processes behind it."""

import os
import pwd
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from certificates import Authority, Pair
from tier import START_S, STOP_S, program


class Memcached:
    """The distribution's memcached on a free port."""

    def __init__(self, directory: Path, shows: Pair | None = None, asks: Authority | None = None) -> None:
        """Start it, and wait until it listens. With a certificate to show it speaks TLS."""
        user = ["-u", pwd.getpwnam("nobody").pw_name] if os.geteuid() == 0 else []
        encryption: list[str] = []
        if shows is not None:
            options = [f"ssl_chain_cert={shows.certificate}", f"ssl_key={shows.key}"]
            if asks is not None:
                options += [f"ssl_ca_cert={asks.certificate}", "ssl_verify_mode=2"]
            encryption = ["-Z", "-o", ",".join(options)]
        self._command = ["memcached", "-l", "127.0.0.1", "-U", "0", *user, *encryption]
        self._directory = directory
        self.port = -1  # the system chooses
        self.start_again()
        self.name = f"{'tls:' if encryption else ''}127.0.0.1:{self.port}"

    def start_again(self) -> None:
        """Start it, empty, where it was; it tells its port itself: whoever answers there may be another."""
        with tempfile.TemporaryDirectory() as home:
            Path(home).chmod(0o777)  # started by root it runs, and writes, as another user
            told = Path(home, "port")
            self._process = subprocess.Popen(
                [*self._command, "-p", str(self.port)],
                cwd=self._directory,
                env=dict(os.environ) | {"MEMCACHED_PORT_FILENAME": str(told)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            deadline = time.monotonic() + START_S
            while not told.exists():
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("memcached does not listen")
                time.sleep(0.01)
            self.port = int(told.read_text().removeprefix("TCP INET: "))

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait(STOP_S)


class Router:
    """One router in front of these servers."""

    program = staticmethod(program)

    def __init__(self, servers: Sequence[Memcached], *arguments: str) -> None:
        """Start it on a free port, and wait until it listens."""
        self.servers = servers
        self.port = 0
        self.http_port = 0
        names = [word for server in servers for word in ("--server", server.name)]
        # A machine that is busy with other things answers late.
        patience = () if "--server-timeout" in arguments else ("--server-timeout", "20s")
        self._process = subprocess.Popen(
            [
                *(program(), "cache", "--listen", "127.0.0.1:0"),
                *(() if "--http" in arguments else ("--http", "off")),
                *(*names, *patience, *arguments),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._serves_http = "--http" in arguments
        self._log: list[str] = []
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()
        if not self._listening.wait(START_S) or self.port == 0:
            self.stop()
            raise RuntimeError("the router did not say where it listens; it said:\n" + "".join(self._log))

    def log(self) -> str:
        """What it has said so far."""
        return "".join(self._log)

    def stop(self) -> int:
        """Ask it to stop, and wait until it has; its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(STOP_S)
        self._reader.join(STOP_S)
        return code

    def _follow(self) -> None:
        with self._process.stderr or open(os.devnull) as log:
            for line in log:
                self._log.append(line)
                if found := re.search(r"listening on 127\.0\.0\.1:(\d+)", line):
                    self.port = int(found[1])
                if found := re.search(r"health and figures on http://[\d.]+:(\d+)", line):
                    self.http_port = int(found[1])
                if self.port and (self.http_port or not self._serves_http):
                    self._listening.set()
        self._listening.set()  # it ended
