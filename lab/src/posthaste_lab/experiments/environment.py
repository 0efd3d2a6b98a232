"""The environment of a run, on which figures depend although no factor varies it: machines, systems, versions."""

import math
import platform
import re
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from posthaste_lab.experiments.description import Experiment
from posthaste_lab.experiments.hosts import Host, hosts_of, run
from posthaste_lab.experiments.kinds import kinds, version_of
from posthaste_lab.experiments.memory import file_system
from posthaste_lab.experiments.problems import RunFailed

LIBRARIES = ("numpy", "scipy", "polars", "matplotlib", "statsmodels")
# The memory that a kernel reports differs by some kB from boot to boot; that of another machine differs by more.
MEMORY, MEMORY_WITHIN = "memory", 0.01
FILE_SYSTEM = "file system of the stores"
# Commands that every machine with a POSIX shell can run; the answer is one line, empty where it does not know.
QUESTIONS = {
    "system": "uname -srm",
    "cpu": "sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1",
    "cores": "nproc",
    MEMORY: "sed -n 's/^MemTotal: *//p' /proc/meminfo",
    "cpu governor": "cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null",
    "load average at the start": "cut -d ' ' -f 1-3 /proc/loadavg",
    "distribution": "sed -n 's/^PRETTY_NAME=\"\\(.*\\)\"/\\1/p' /etc/os-release",
}
# Path of the program under test, given as $0: on another machine it may be a name on PATH.
PLACE = '"$(command -v "$0")"'
# The first line of /proc/stat, twice: ticks since the machine began, by what its processors did (proc_stat(5)).
TWO_MOMENTS = "head -n 1 /proc/stat && sleep 0.4 && head -n 1 /proc/stat"
# Fields of that line: those that add up to all time, and of them idle and waiting for a disk.
STATES, IDLE = 8, (3, 4)
# Answers that differ from one minute to the next.
PASSING = ("load average at the start",)


def environment(experiment: Experiment, hosts: dict[str, Host], posthaste: Path) -> dict[str, Any]:
    """Returns the environment of a run, as `plan.json` holds it."""
    used = hosts_of(experiment, hosts)
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "programs": _versions(experiment, hosts),
        "posthaste": str(posthaste),
        "laboratory": version("posthaste-lab"),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
        "sha256": hashes(experiment, hosts),
        "hosts": {name: machine(host) for name, host in used.items()},
    }


def _versions(experiment: Experiment, hosts: dict[str, Host]) -> dict[str, str]:
    """Returns each program's version on the host of the first part that runs it; `hashes` show other hosts' builds."""
    versions: dict[str, str] = {}
    for name, part in experiment.parts.items():
        program = kinds()[part.kind].program
        if program not in versions:
            versions[program] = version_of(part.kind, hosts[experiment.host_of(name)])
    return versions


def machine(host: Host) -> dict[str, str]:
    """Returns the answers of a machine to QUESTIONS, and file system and disk of its scratch directory."""
    answers = {name: _answer(host, ["sh", "-c", question]) for name, question in QUESTIONS.items()}
    answers[FILE_SYSTEM] = file_system(host)
    answers["disk of the stores"] = _answer(host, ["sh", "-c", 'df -P "$0" | sed -n "2s/ .*//p"', host.scratch])
    return {name: answer for name, answer in answers.items() if answer}


def _answer(host: Host, command: list[str]) -> str:
    """Returns the output of a command on a host; empty where it cannot be run."""
    try:
        return run(host, command).strip()
    except RunFailed:
        return ""


def hashes(experiment: Experiment, hosts: dict[str, Host]) -> dict[str, str]:
    """Returns the SHA-256 of the program under test on each machine: two builds may have the same version."""
    return {
        name: _answer(host, ["sh", "-c", f"sha256sum {PLACE}", str(host.posthaste)]).partition(" ")[0]
        for name, host in hosts_of(experiment, hosts).items()
    }


def marks(experiment: Experiment, hosts: dict[str, Host]) -> dict[str, str]:
    """Returns device, inode, size and time of the program on each machine: cheap signs that it was replaced."""
    return {
        name: _answer(host, ["sh", "-c", f"stat -L -c '%d %i %s %Y' {PLACE}", str(host.posthaste)])
        for name, host in hosts_of(experiment, hosts).items()
    }


def differences(held: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Returns in words how two environments differ in facts that matter to figures and that both of them hold."""
    return _differences(_of_programs(held) | _of_machines(held), _of_programs(now) | _of_machines(now))


def other_machines(held: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Returns in words how the machines of two environments differ, also in number."""
    alone = sorted(held["hosts"].keys() ^ now["hosts"].keys())
    return _differences(_of_machines(held), _of_machines(now)) + [f"{host} is in one of them only" for host in alone]


def _differences(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return [
        f"{name} was {before[name]} and is {after[name]}"
        for name in before
        if name in after and not _same(name, before[name], after[name])
    ]


def _same(name: str, before: str, after: str) -> bool:
    sizes = [float(found[1]) for said in (before, after) if (found := re.fullmatch(r"(\d+) kB", said))]
    if name.startswith(f"{MEMORY} of ") and len(sizes) == 2:
        return math.isclose(*sizes, rel_tol=MEMORY_WITHIN)
    return before == after


def _of_programs(around: dict[str, Any]) -> dict[str, str]:
    """Returns the facts about programs, by their names in a sentence."""
    facts = {f"version of {name}": said for name, said in around["programs"].items()}
    return facts | {f"posthaste on {host} (SHA-256)": said for host, said in around.get("sha256", {}).items()}


def _of_machines(around: dict[str, Any]) -> dict[str, str]:
    """Returns the facts about machines that stay as they are, by their names in a sentence."""
    return {
        f"{name} of {host}": said
        for host, answers in around["hosts"].items()
        for name, said in answers.items()
        if name not in PASSING
    }


def busy_share(host: Host) -> float:
    """Returns the share of a machine's CPU time in which it is busy right now; 0 where that cannot be told.

    Not the load average: over a minute that is for the most part the run which ended before this one.
    """
    moments = [list(map(int, line.split()[1:])) for line in _answer(host, ["sh", "-c", TWO_MOMENTS]).splitlines()]
    if len(moments) != 2:
        return 0.0
    passed = [after - before for before, after in zip(*moments, strict=True)]
    total = sum(passed[:STATES])
    return 1 - sum(passed[state] for state in IDLE) / total if total > 0 else 0.0
