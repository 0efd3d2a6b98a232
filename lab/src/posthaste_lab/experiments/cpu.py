"""How busy a trial kept its machines: CPU time of each part, and the share of the time in which a machine was not idle.

Programs that leave a record tell it in its `system.csv`, for themselves and for the whole machine. Of servers that
leave none, memcached and PostgreSQL, it is read from /proc while the trial runs, where they run on this machine.
"""

import csv
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from posthaste_lab.experiments.clocks import start_unix_s
from posthaste_lab.experiments.figures import Row
from posthaste_lab.experiments.hosts import Local
from posthaste_lab.experiments.parts import Instance
from posthaste_lab.files import reading

SYSTEM = "system.csv"
SAMPLE_S = 0.25  # least time between two samples: one takes some microseconds for each process of a server
BUSY = ("user", "system", "steal")  # of the machine's time; the rest is idle, be it in wait of a disk
# Fields of /proc/PID/stat behind the name: CPU time of the process, and of its children that have ended.
CPU_TICKS = slice(11, 15)
PROC = Path("/proc")

Measured = tuple[float, float]


def cpu_seconds(record: Path, measured: Measured | None) -> float | None:
    """Returns the CPU time of a recorded program in the measured time; None when its record does not hold it.

    The CPU time of a window that lies within the measured time only in part is assumed to be spread evenly over it.
    """
    return _within(record / SYSTEM, start_unix_s(record), measured)


def busy_share(record: Path, measured: Measured) -> float | None:
    """Returns the share of its machine's CPU time that was not idle in the measured time; None where it is not told."""
    since = start_unix_s(record)
    busy = told = 0.0
    with reading(record / SYSTEM), (record / SYSTEM).open(newline="") as lines:
        for row in csv.DictReader(lines):
            length_s = float(row["length_s"])
            within_s = length_s * _share_within(since + float(row["start_s"]), length_s, measured)
            shares = [row.get(f"machine_{name}_share") for name in BUSY]
            if within_s > 0 and all(shares):
                busy += within_s * sum(map(float, filter(None, shares)))
                told += within_s
    return busy / told if told else None


def _within(path: Path, since_s: float, measured: Measured | None) -> float | None:
    total, seen = 0.0, False
    with reading(path), path.open(newline="") as lines:
        for row in csv.DictReader(lines):
            share = _share_within(since_s + float(row["start_s"]), float(row["length_s"]), measured)
            if row["cpu_s"] and share > 0:
                total, seen = total + share * float(row["cpu_s"]), True
    return total if seen else None


def _share_within(begin: float, length_s: float, measured: Measured | None) -> float:
    """Returns the share of a window that lies within the measured time."""
    if measured is None:
        return 1.0
    within_s = min(begin + length_s, measured[1]) - max(begin, measured[0])
    return within_s / length_s if within_s > 0 else 0.0


@dataclass
class Watch:
    """Samples the CPU time of servers on this machine that leave no record, while a trial runs."""

    instances: Sequence[Instance]
    every_s: float
    samples: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    last_s: float = 0.0

    def look_if_due(self) -> None:
        """Takes a sample of each server where a window has passed since the last one."""
        if time.monotonic() - self.last_s >= max(self.every_s, SAMPLE_S):
            self.look()

    def look(self) -> None:
        """Takes a sample of each server."""
        self.last_s, now = time.monotonic(), time.time()
        for instance in self.instances:
            if is_watched(instance) and instance.process is not None:
                used_s = _used_below(instance.process.pid)
                if used_s is not None:
                    self.samples.setdefault(instance.keep.name, []).append((now, used_s))

    def write(self, zero_unix_s: float) -> None:
        """Writes the samples of each server to its `system.csv`, in seconds since `zero_unix_s` on this wall clock."""
        for instance in self.instances:
            taken = self.samples.get(instance.keep.name, [])
            if len(taken) < 2:
                continue
            with (instance.keep / SYSTEM).open("w", newline="") as out:
                table = csv.writer(out)
                table.writerow(["start_s", "length_s", "cpu_s"])
                for (begin, before), (end, after) in pairwise(taken):
                    table.writerow([f"{begin - zero_unix_s:.6f}", f"{end - begin:.6f}", f"{after - before:.6f}"])


def is_watched(instance: Instance) -> bool:
    """Returns whether an instance is a server on this machine that leaves no record."""
    return instance.kind.role == "server" and not instance.kind.recorded and isinstance(instance.host, Local)


def _used_below(parent: int) -> float | None:
    """Returns the CPU time of all descendants of a process, in seconds; None where this system does not tell them."""
    try:
        waiting = _children(parent)
    except OSError:
        return None
    ticks = 0
    while waiting:
        process = waiting.pop()
        with suppress(OSError, ValueError, IndexError):  # it may have ended; then its parent has its time
            stat = (PROC / str(process) / "stat").read_text("utf-8", "replace")
            ticks += sum(map(int, stat.rpartition(")")[2].split()[CPU_TICKS]))
            waiting += _children(process)
    return ticks / os.sysconf("SC_CLK_TCK")


def _children(process: int) -> list[int]:
    return [int(each) for each in (PROC / str(process) / "task" / str(process) / "children").read_text().split()]


@dataclass(frozen=True)
class Effort:
    """How busy a trial kept its machines, in the measured time: CPU cores by part, shares not idle by machine.

    All instances of a part count together. What was not measured is left out.
    """

    cores: dict[str, float]
    busy: dict[str, float]
    figures: Row


def effort_of(instances: Sequence[Instance], measured: Measured) -> Effort:
    """Returns the effort of a trial whose files are fetched."""
    used: dict[str, list[float | None]] = {}
    roles: dict[str, set[str]] = {}
    shares: dict[str, list[float]] = {}
    for instance in instances:
        if instance.kind.role == "step":
            continue
        roles.setdefault(_role(instance), set()).add(instance.part)
        used.setdefault(instance.part, []).append(_used_by(instance, measured))
        record = instance.keep / "record"
        if (record / SYSTEM).exists() and (share := busy_share(record, measured)) is not None:
            shares.setdefault(instance.host.name, []).append(share)
    length_s = measured[1] - measured[0]
    told = {part: [each for each in every if each is not None] for part, every in used.items()}
    cores = {part: sum(known) / length_s for part, known in told.items() if len(known) == len(used[part])}
    busy = {host: sum(known) / len(known) for host, known in shares.items()}
    figures: Row = {
        f"{role}_cpu_cores": sum(cores[part] for part in parts)
        for role, parts in roles.items()
        if parts <= cores.keys()
    }
    return Effort(cores, busy, figures | ({"machine_busy_share": max(busy.values())} if busy else {}))


def _role(instance: Instance) -> str:
    """Returns a word for what an instance is to a trial: load, tier, memcached or postgresql."""
    if instance.kind.role == "load":
        return "load"
    return "tier" if instance.kind.recorded else instance.kind.name


def _used_by(instance: Instance, measured: Measured) -> float | None:
    record = instance.keep / "record"
    if (record / SYSTEM).exists():
        return cpu_seconds(record, measured)
    watched = instance.keep / SYSTEM
    return _within(watched, measured[0], measured) if watched.exists() else None
