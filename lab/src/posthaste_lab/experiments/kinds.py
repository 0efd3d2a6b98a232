"""Kinds of programs, as `kinds.toml` describes them, and what each program says about its own options.

A part's options are checked against the program's own --help before anything starts, so a misspelled option costs a
sentence and not an hour, and a program that learns an option needs no change here.
"""

import difflib
import re
import shutil
import subprocess
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from posthaste_lab.experiments.description import LINKS, Experiment, Value
from posthaste_lab.experiments.problems import RunFailed

Role = Literal["server", "step", "load"]
POSTGRESQL = "postgresql"
BENCH_QUEUE = "bench queue"
OWN_PLACEHOLDERS = {
    "address", "host", "port", "dir", "record", "summary", "duration", "head", "tail", "window", "seed", "user"
}  # fmt: skip


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


def find_program(name: str, posthaste: Path) -> str:
    """Where a program is. Raises RunFailed when it is not here."""
    if name == "posthaste":
        return str(posthaste)
    if name == "postgres":
        return str(postgresql_programs() / "postgres")
    found = shutil.which(name)
    if found is None:
        raise RunFailed(f"{name} is not here: install it from the distribution's packages")
    return found


def postgresql_programs() -> Path:
    """The directory of PostgreSQL's programs: the newest version here. Raises RunFailed when there is none."""
    versions = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(re.sub(r"\D", "", path.parts[4]) or 0)
    )
    if versions:
        return versions[-1].parent
    found = shutil.which("initdb")
    if found is None:
        raise RunFailed("PostgreSQL's initdb is not here: install postgresql from the distribution's packages")
    return Path(found).resolve().parent


@cache
def known_options(kind: str, program: str) -> frozenset[str]:
    """Options that the program of a kind says it has, without dashes; none when it has no such command."""
    if kind == POSTGRESQL:
        said = _output(program, "--describe-config")
        return frozenset(line.split("\t", 1)[0] for line in said.splitlines())
    return frozenset(re.findall(r"--([a-z][a-z0-9-]*)", _output(program, *kinds()[kind].help)))


@cache
def version_of(kind: str, program: str) -> str:
    """What the program of a kind says when it is asked for its version."""
    said = _output(program, *kinds()[kind].version).strip()
    return said.splitlines()[0] if said else "unknown"


@cache
def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except OSError as error:
        raise RunFailed(f"{command[0]} cannot be run: {error.strerror}") from None
    return "" if done.returncode else done.stdout or done.stderr


def check_parts(experiment: Experiment, posthaste: Path) -> list[str]:
    """Problems with the parts: unknown kinds, options the programs lack, placeholders that stand for nothing."""
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
                elif not isinstance(value, int) or value < 1:
                    problems.append(f"{target} = {value!r}: must be a whole number, at least 1")
                else:
                    most[name] = max(most[name], value)
    before: list[str] = []
    for name, part in experiment.parts.items():
        if part.kind == BENCH_QUEUE and True in settings[name].get("check", []) and most[name] > 1:
            problems.append(f"parts.{name}.check = True: needs its queues to itself, and there are {most[name]} of it")
        kind = kinds().get(part.kind)
        if kind is None:
            problems.append(f"parts.{name}.kind = {part.kind!r}: is none of {', '.join(kinds())}")
        else:
            problems += _option_problems(name, kind, settings[name], before, posthaste)
        before.append(name)
    roles = [kinds()[part.kind].role for part in experiment.parts.values() if part.kind in kinds()]
    if "load" not in roles:
        problems.append(f"parts: none of {', '.join(experiment.parts)} is a load, so nothing would be measured")
    return problems


def _option_problems(
    part: str, kind: Kind, settings: dict[str, list[Value]], before: list[str], posthaste: Path
) -> list[str]:
    known = known_options(kind.name, find_program(kind.program, posthaste))
    if not known:
        arguments = " ".join([kind.program, *kind.arguments])
        return [f"parts.{part}.kind = {kind.name!r}: this program has no such command ({arguments})"]
    problems = []
    for option, values in settings.items():
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            problems.append(f"parts.{part}.{option}: {kind.name} has no such option{hint}")
        for value in values:
            for each in value if isinstance(value, list) else [value]:
                unknown = set(re.findall(r"\{([a-z][a-z0-9_-]*)\}", str(each))) - OWN_PLACEHOLDERS - set(before)
                if unknown:
                    problems.append(
                        f"parts.{part}.{option} = {each!r}: {{{min(unknown)}}} is no part that starts before this one"
                    )
    return problems
