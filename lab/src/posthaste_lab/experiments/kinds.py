"""Kinds of programs, as `kinds.toml` describes them, and the options that each program lists itself.

A part's options are checked against the program's own --help before anything starts, so a misspelled option costs a
sentence and not an hour, and a new option of a program needs no change here. The program is asked on the part's own
machine, since versions may differ between machines, and some machines may lack it.
"""

import re
import subprocess
import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict

from posthaste_lab.experiments.hosts import Host, run
from posthaste_lab.experiments.problems import RunFailed
from posthaste_lab.experiments.tables import Value

Role = Literal["server", "step", "load"]
POSTGRESQL = "postgresql"
BENCH_QUEUE = "bench queue"
# A placeholder for an address or a path in an option's value.
PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_-]*)\}")
# Prints the directory of the newest version of the distribution's packages, else of the one on PATH; else nothing.
FIND_POSTGRESQL = """
found=$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -t / -k 5n | tail -n 1)
found=${found:-$(command -v initdb)} && dirname "$(readlink -f "$found")" || true
"""
ANSWER_S = 60.0  # time for a program to tell its version or its options
# Exit codes of a shell, or of ssh, that could not run the command.
NOT_RUN = (126, 127, 255)


class Kind(BaseModel):
    """A kind of program; `kinds.toml` says what the fields mean."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    does: str
    role: Role
    program: str
    arguments: list[str] = []
    defaults: dict[str, Value] = {}
    optional: list[str] = []
    ready: str | None = None
    help: list[str] = []
    version: list[str] = ["--version"]
    summary: str | None = None

    @property
    def recorded(self) -> bool:
        """Whether the program leaves a record."""
        return "record" in self.defaults


@cache
def kinds() -> dict[str, Kind]:
    """Returns all kinds by name."""
    tables = tomllib.loads(files("posthaste_lab.experiments").joinpath("kinds.toml").read_text("utf-8"))
    return {name: Kind.model_validate({"name": name, **table}) for name, table in tables.items()}


def find_program(name: str, host: Host) -> str:
    """Returns the path of a program on a machine. Raises RunFailed when the program is not there."""
    if name == "posthaste":
        return str(host.posthaste)
    if name == "postgres":
        return f"{postgresql_programs(host)}/postgres"
    found = run(host, ["sh", "-c", 'command -v "$0" || true', name]).strip()
    if not found:
        raise RunFailed(f"{name} is not on {host.name}: install it from the distribution's packages")
    return found


@cache
def postgresql_programs(host: Host) -> str:
    """Returns the directory of PostgreSQL's programs on a machine. Raises RunFailed when there is none."""
    found = run(host, ["sh", "-c", FIND_POSTGRESQL]).strip()
    if not found:
        raise RunFailed(
            f"PostgreSQL's initdb is not on {host.name}: install postgresql from the distribution's packages"
        )
    return found


@cache
def known_options(kind: str, host: Host) -> frozenset[str]:
    """Returns the options that the program of a kind lists, without dashes; empty when it lacks the kind's command."""
    program = find_program(kinds()[kind].program, host)
    if kind == POSTGRESQL:
        said = _output(host, program, "--describe-config")
        return frozenset(line.split("\t", 1)[0] for line in said.splitlines())
    return frozenset(re.findall(r"--([a-z][a-z0-9-]*)", _output(host, program, *kinds()[kind].help)))


@cache
def version_of(kind: str, host: Host) -> str:
    """Returns the first line that the program of a kind prints when it is asked for its version."""
    said = _output(host, find_program(kinds()[kind].program, host), *kinds()[kind].version).strip()
    return said.splitlines()[0] if said else "unknown"


@cache
def _output(host: Host, *command: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603
            host.command(list(command)), capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except OSError as error:
        raise RunFailed(f"{command[0]} cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise RunFailed(
            f"{command[0]} on {host.name} gave no answer within {ANSWER_S:g} s when it was asked what it is"
        ) from None
    if done.returncode in NOT_RUN:
        raise RunFailed(f"{command[0]} cannot be run on {host.name}: {done.stderr.strip()}")
    return "" if done.returncode else done.stdout or done.stderr
