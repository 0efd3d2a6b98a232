"""Kinds of programs, as `kinds.toml` describes them, and what each program says about its own options.

A part's options are checked against the program's own --help before anything starts, so a misspelled option costs a
sentence and not an hour, and a program that learns an option needs no change here. The program asked is the one on the
part's machine: another machine may have another version of it, or be the only one that has it.
"""

import re
import subprocess
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict

from posthaste_lab.experiments.description import INSTANCES_MAX, LINKS, Experiment, Value
from posthaste_lab.experiments.hosts import Host, run
from posthaste_lab.experiments.problems import RunFailed, did_you_mean

Role = Literal["server", "step", "load"]
POSTGRESQL = "postgresql"
BENCH_QUEUE = "bench queue"
SEARCH = "find-max-rate"
REQUESTS = "requests"
OWN_PLACEHOLDERS = {
    "address", "host", "port", "dir", "record", "summary", "duration", "head", "tail", "window", "seed", "user"
}  # fmt: skip
# What [run] says of all parts, by what stands for it in their options: set by one of them, it would be told falsely.
OF_RUN = {
    "{duration}": "run.duration less run.trim",
    "{head}": "run.trim.head",
    "{tail}": "run.trim.tail",
    "{window}": "run.window",
    "{seed}": "run.seed",
}
# What stands for an address or a path in an option's value.
PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_-]*)\}")
# How the instances of a part are called, where there are several.
NUMBERED = re.compile(r"(.+)-([1-9]\d*)")
# The directory of the newest version of the distribution's packages, else of the one on PATH; nothing where none is.
FIND_POSTGRESQL = """
found=$(ls /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -t / -k 5n | tail -n 1)
found=${found:-$(command -v initdb)} && dirname "$(readlink -f "$found")" || true
"""
# How a shell, or ssh, ends when it could not run what it was asked to.
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


@cache
def kinds() -> dict[str, Kind]:
    """All kinds by name."""
    tables = tomllib.loads(files("posthaste_lab.experiments").joinpath("kinds.toml").read_text("utf-8"))
    return {name: Kind.model_validate({"name": name, **table}) for name, table in tables.items()}


def find_program(name: str, host: Host) -> str:
    """Where a program is on a machine. Raises RunFailed when it is not there."""
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
    """The directory of PostgreSQL's programs on a machine. Raises RunFailed when there is none."""
    found = run(host, ["sh", "-c", FIND_POSTGRESQL]).strip()
    if not found:
        raise RunFailed(
            f"PostgreSQL's initdb is not on {host.name}: install postgresql from the distribution's packages"
        )
    return found


@cache
def known_options(kind: str, host: Host) -> frozenset[str]:
    """Options that the program of a kind says it has, without dashes; none when it has no such command."""
    program = find_program(kinds()[kind].program, host)
    if kind == POSTGRESQL:
        said = _output(host, program, "--describe-config")
        return frozenset(line.split("\t", 1)[0] for line in said.splitlines())
    return frozenset(re.findall(r"--([a-z][a-z0-9-]*)", _output(host, program, *kinds()[kind].help)))


@cache
def version_of(kind: str, host: Host) -> str:
    """What the program of a kind says when it is asked for its version."""
    said = _output(host, find_program(kinds()[kind].program, host), *kinds()[kind].version).strip()
    return said.splitlines()[0] if said else "unknown"


@cache
def _output(host: Host, *command: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603
            host.command(list(command)), capture_output=True, text=True, timeout=60, check=False
        )
    except OSError as error:
        raise RunFailed(f"{command[0]} cannot be run: {error.strerror}") from None
    if done.returncode in NOT_RUN:
        raise RunFailed(f"{command[0]} cannot be run on {host.name}: {done.stderr.strip()}")
    return "" if done.returncode else done.stdout or done.stderr


def check_parts(experiment: Experiment, hosts: Mapping[str, Host]) -> list[str]:
    """Problems with the parts: unknown kinds, options the programs lack, placeholders and windows that hold nothing.

    A part on a machine that nobody named, which is a problem of its own, is checked as if it were on this one.
    """
    problems: list[str] = []
    settings: dict[str, dict[str, list[Value]]] = {
        name: {option: [value] for option, value in part.options.items()} for name, part in experiment.parts.items()
    }
    most = {name: part.instances for name, part in experiment.parts.items()}
    for factor in experiment.factors.values():
        for level in factor.levels:
            for target, value in factor.assignments(level).items():
                name, _, option = target.partition(".")
                if name == LINKS:
                    continue
                if option != "instances":
                    settings[name].setdefault(option, []).append(value)
                elif not isinstance(value, int) or not 1 <= value <= INSTANCES_MAX:
                    problems.append(f"{target} = {value!r}: must be a whole number from 1 to {INSTANCES_MAX}")
                else:
                    most[name] = max(most[name], value)
    before: list[str] = []
    for name, part in experiment.parts.items():
        if part.kind == BENCH_QUEUE and True in settings[name].get("check", []) and most[name] > 1:
            problems.append(f"parts.{name}.check = True: needs its queues to itself, and there are {most[name]} of it")
        if any(value is not False for value in settings[name].get(SEARCH, [])):
            problems.append(
                f"parts.{name}.{SEARCH}: makes many runs of run.duration, and a trial is one; make {name}.rate a factor"
            )
        if any(value is not False for value in settings[name].get(REQUESTS, [])):
            problems.append(
                f"parts.{name}.{REQUESTS}: ends a load when all are done, and a trial lasts run.duration; leave it out"
            )
        kind = kinds().get(part.kind)
        if kind is None:
            problems.append(f"parts.{name}.kind = {part.kind!r}: is none of {', '.join(kinds())}")
        else:
            host = hosts.get(experiment.host_of(name), hosts["local"])
            problems += [
                f"parts.{name}.{option}: is what {OF_RUN[str(stands)]} says, of every part and trial; set it there"
                for option, stands in kind.defaults.items()
                if stands in OF_RUN and option in settings[name]
            ]
            problems += _option_problems(name, kind, settings[name], before, host)
        before.append(name)
    roles = [kinds()[part.kind].role for part in experiment.parts.values() if part.kind in kinds()]
    problems += [*_unasked_links(experiment), *_untrimmed_loads(experiment), *_names_of_instances(most)]
    if "load" not in roles:
        problems.append(f"parts: none of {', '.join(experiment.parts)} is a load, so nothing would be measured")
    windowed = [
        name
        for name, part in experiment.parts.items()
        if part.kind in kinds() and "window" in kinds()[part.kind].defaults
    ]
    window, measured = experiment.run.window, experiment.trimmed[1]
    if windowed and window > measured:
        problems.append(
            f"run.window = {window:g} s: must be at most the {measured:g} s that are measured, or no window of "
            f"{', '.join(windowed)} lies within"
        )
    return problems


def _names_of_instances(most: Mapping[str, int]) -> list[str]:
    """Parts that are called as an instance of another: what both leave would lie in one directory."""
    pairs = [(name, NUMBERED.fullmatch(name)) for name in most]
    return [
        f"parts.{name}: is what instance {match[2]} of parts.{match[1]} is called; call it something else"
        for name, match in pairs
        if match is not None and 1 < most.get(match[1], 0) >= int(match[2])
    ]


def _unasked_links(experiment: Experiment) -> list[str]:
    """Links to parts that nobody connects to: no packet would ever pass them, and the report would tell of them."""
    found = {name: kinds().get(experiment.parts[name].kind) for name in experiment.links}
    return [
        f"links.{name}: is the way to a server, and {kind.name} is a {kind.role}, which nobody connects to; name the "
        "part that it asks"
        for name, kind in found.items()
        if kind is not None and kind.role != "server"
    ]


def _untrimmed_loads(experiment: Experiment) -> list[str]:
    """Loads that measure all they do where something is to be trimmed: the report would tell that it was."""
    head, _, tail = experiment.trimmed
    if head + tail == 0:
        return []
    found = {name: kinds().get(part.kind) for name, part in experiment.parts.items()}
    loads = {name: kind for name, kind in found.items() if kind is not None and kind.role == "load"}
    return [
        f"run.trim: cuts nothing of parts.{name}, since a {kind.name} has no time before and after what it measures; "
        "take run.trim out"
        for name, kind in loads.items()
        if "{head}" not in kind.defaults.values()
    ]


def _option_problems(
    part: str, kind: Kind, settings: dict[str, list[Value]], before: list[str], host: Host
) -> list[str]:
    known = known_options(kind.name, host)
    if not known:
        arguments = " ".join([kind.program, *kind.arguments])
        return [f"parts.{part}.kind = {kind.name!r}: this program has no such command ({arguments})"]
    problems = []
    for option, values in settings.items():
        if option not in known:
            problems.append(f"parts.{part}.{option}: {kind.name} has no such option{did_you_mean(option, known)}")
        for value in values:
            for each in value if isinstance(value, list) else [value]:
                unknown = set(PLACEHOLDER.findall(str(each))) - OWN_PLACEHOLDERS - set(before)
                if unknown:
                    problems.append(
                        f"parts.{part}.{option} = {each!r}: {{{min(unknown)}}} is no part that starts before this one"
                    )
    return problems
