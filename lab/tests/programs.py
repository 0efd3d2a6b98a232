"""The program under test and small experiments for it, for tests that run real programs."""

import io
import os
import shutil
import sys
import textwrap
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from posthaste_lab.cli import main
from posthaste_lab.experiments.hosts import Host, this_machine

ROOT = Path(__file__).parents[2]

# A few hundred milliseconds of load: enough that every record has rows.
SMALL = """
title = "A small experiment"
question = "Does it run?"
hypothesis = "It does."

[run]
duration = "500ms"
repetitions = 2
trim = { head = "100ms", tail = "50ms" }
window = "50ms"
seed = 7

[parts.tier]
kind = "queue"
store = "embedded:{dir}/store"

[parts.load]
kind = "bench queue"
connect = "{tier}"
check = true

[factors.clients]
levels = [2, 8]
sets = "load.clients"

[[claims]]
says = "more clients get more"
figure = "throughput_per_s"
where = { clients = 8 }
than = { clients = 2 }
at_least = 0.0001

[quick]
duration = "300ms"
repetitions = 1
levels.clients = [2]
"""


def program() -> Path:
    """The program under test: POSTHASTE, else what cargo built here last."""
    named = os.environ.get("POSTHASTE")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return Path(named) if named else target / "debug" / "posthaste"


def here() -> dict[str, Host]:
    """The only machine of an experiment, with the program under test."""
    return {"local": this_machine(program())}


def write(directory: Path, text: str = SMALL) -> Path:
    """An experiment file."""
    path = directory / "experiment.toml"
    path.write_text(textwrap.dedent(text), "utf-8")
    return path


def lab_command(*arguments: object) -> list[str]:
    """A command line of the laboratory, for a process of its own."""
    return [sys.executable, "-m", "posthaste_lab", *map(str, arguments)]


@dataclass(frozen=True)
class Said:
    """What the laboratory said."""

    stdout: str
    stderr: str


def lab(*arguments: object, code: int = 0) -> Said:
    """Run the laboratory as its users do, but in this process, which knows its libraries already."""
    out, err, ended = io.StringIO(), io.StringIO(), 0
    given = {"POSTHASTE": str(program())}
    with (
        patch.dict(os.environ, given),
        patch.object(sys, "argv", ["posthaste-lab", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            ended = int(end.code or 0)
    assert ended == code, (ended, out.getvalue(), err.getvalue())
    return Said(out.getvalue(), err.getvalue())


def run_through(path: Path, out: Path, *options: object) -> Said:
    """Run an experiment whose trials all finish, anew if one did not.

    A trial lasts some hundred milliseconds: where the machine stands still for as long, nothing is answered in it.
    """
    for _ in range(9):
        with suppress(AssertionError):
            return lab("run", path, "--out", out, *options)
        shutil.rmtree(out)
    return lab("run", path, "--out", out, *options)


def left_running(scratch: Path) -> list[str]:
    """Command lines of programs that still work below a scratch directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue  # it has ended meanwhile
        if str(scratch) in command and "posthaste_lab" not in command:
            found.append(command)
    return found
