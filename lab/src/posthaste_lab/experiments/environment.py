"""What a figure depends on and nobody varies: machine, system, versions. Written down with every run."""

import math
import os
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
from posthaste_lab.experiments.problems import RunFailed

LIBRARIES = ("numpy", "scipy", "polars", "matplotlib", "statsmodels")
# A kernel keeps some kB more or less of the memory for itself at each start; another machine differs by more.
MEMORY, MEMORY_WITHIN = "memory", 0.01
# What can be asked of every machine with a POSIX shell; a line of an answer each, empty where it does not tell.
QUESTIONS = {
    "system": "uname -srm",
    "cpu": "sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1",
    "cores": "nproc",
    MEMORY: "sed -n 's/^MemTotal: *//p' /proc/meminfo",
    "cpu governor": "cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null",
    "load average at the start": "cut -d ' ' -f 1-3 /proc/loadavg",
    "distribution": "sed -n 's/^PRETTY_NAME=\"\\(.*\\)\"/\\1/p' /etc/os-release",
}
# Where the program under test lies: on another machine it may be a name on PATH.
PLACE = '"$(command -v "$0")"'
# Answers that differ from one minute to the next.
PASSING = ("load average at the start",)


def environment(experiment: Experiment, hosts: dict[str, Host], posthaste: Path) -> dict[str, Any]:
    """Everything, as `plan.json` keeps it."""
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
    """Of each program, as it is where the first part runs that needs it; `hashes` tell what differs from there."""
    versions: dict[str, str] = {}
    for name, part in experiment.parts.items():
        program = kinds()[part.kind].program
        if program not in versions:
            versions[program] = version_of(part.kind, hosts[experiment.host_of(name)])
    return versions


def machine(host: Host) -> dict[str, str]:
    """What a machine says about itself, and where its scratch directory lies."""
    answers = {name: _answer(host, ["sh", "-c", question]) for name, question in QUESTIONS.items()}
    answers["file system of the stores"] = _answer(host, ["stat", "-f", "-c", "%T", host.scratch])
    answers["disk of the stores"] = _answer(host, ["sh", "-c", 'df -P "$0" | sed -n "2s/ .*//p"', host.scratch])
    return {name: answer for name, answer in answers.items() if answer}


def _answer(host: Host, command: list[str]) -> str:
    """What a command says there; nothing where it cannot be run."""
    try:
        return run(host, command).strip()
    except RunFailed:
        return ""


def hashes(experiment: Experiment, hosts: dict[str, Host]) -> dict[str, str]:
    """SHA-256 of the program under test on each machine: two builds of one version have the same name."""
    return {
        name: _answer(host, ["sh", "-c", f"sha256sum {PLACE}", str(host.posthaste)]).partition(" ")[0]
        for name, host in hosts_of(experiment, hosts).items()
    }


def marks(experiment: Experiment, hosts: dict[str, Host]) -> dict[str, str]:
    """By what a program that was replaced is known without being read: its place on the disk, its size, its time."""
    return {
        name: _answer(host, ["sh", "-c", f"stat -L -c '%d %i %s %Y' {PLACE}", str(host.posthaste)])
        for name, host in hosts_of(experiment, hosts).items()
    }


def differences(held: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """In what two environments differ that figures depend on, in words. What only one of them tells is passed over."""
    before, after = _facts(held), _facts(now)
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


def _facts(around: dict[str, Any]) -> dict[str, str]:
    """Programs and machines by what they are called in a sentence."""
    facts = {f"version of {name}": said for name, said in around["programs"].items()}
    facts |= {f"posthaste on {host} (SHA-256)": said for host, said in around.get("sha256", {}).items()}
    for host, answers in around["hosts"].items():
        facts |= {f"{name} of {host}": said for name, said in answers.items() if name not in PASSING}
    return facts


def busy(host: Host) -> float:
    """Load of this machine per core over the last minute, before we add to it."""
    return os.getloadavg()[0] / (os.cpu_count() or 1) if host.name == "local" else 0.0
