"""What a test program starts: finds it, says what it waits for, and ends it.

Processes are known by a variable in their environment, which also those keep that left the program's process group.
"""

import os
import signal
import time
from pathlib import Path

MARK = "POSTHASTE_TEST_PROGRAM"

# Seconds that processes have to end by themselves once the program that started them has ended.
GRACE_S = 60.0


def marked(name: str) -> list[int]:
    """Ids of the processes that run, and bear this mark."""
    mark = f"{MARK}={name}".encode()
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and bears(entry, mark)
    ]


def bears(process: Path, mark: bytes) -> bool:
    """Whether the mark is in the environment of a process, which may end meanwhile; one that has ended has none."""
    try:
        return mark in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def left_behind(name: str) -> list[int]:
    """Ids of the processes with this mark that do not end by themselves."""
    until = time.monotonic() + GRACE_S
    while (left := marked(name)) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def describe(pids: list[int]) -> str:
    """A line for each process and for each of its threads, with the kernel function in which it waits."""
    return "".join(map(describe_one, pids))


def describe_one(pid: int) -> str:
    """The command of a process, and its threads; of one that has ended meanwhile, nothing."""
    process = Path("/proc") / str(pid)
    try:
        command = (
            (process / "cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")
            .strip()
        )
        threads = [
            f"    {(thread / 'comm').read_text().strip()}: {(thread / 'wchan').read_text() or 'runs'}\n"
            for thread in sorted((process / "task").iterdir())
        ]
    except OSError:
        return ""
    return f"  {pid} {command}\n{''.join(threads)}"


def end(pids: list[int]) -> None:
    """Ends processes at once."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
