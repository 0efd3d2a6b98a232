#!/usr/bin/env python3
"""Runs the tests of all crates, about AT_ONCE of them at once: `scripts/rust_tests.py AT_ONCE`.

`cargo test` runs one program after the other, and leaves cores idle until the slowest test of each has ended; most of a
test is waiting. The output of a program is shown when it has ended. One that does not end is ended, and shows what it
waits for; one that leaves a process behind has failed.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import test_processes

ROOT = Path(__file__).resolve().parent.parent

# Number of tests that a program runs at once: some programs have one long test, others many short ones.
THREADS = 2

# The same for programs that run alone: most of their tests sleep, and they check times, which hold only while nothing
# else is busy.
THREADS_ALONE = 4
ALONE = {"crates/load/tests/pace.rs", "tests/open_loop.rs"}

# Seconds after which a program is taken for one that will not end: several times what the longest takes on a slow
# machine with all others beside it.
LIMIT_S = 1200


class Program(NamedTuple):
    """A test program: its source file, its path, and the directory in which it expects to run."""

    source: str
    path: str
    home: Path


def build() -> list[Program]:
    """Builds all test programs. Those of the root package, which test all of posthaste and take longest, come first."""
    command = "cargo test --workspace --locked --no-run --message-format=json-render-diagnostics"
    built = subprocess.run(
        command.split(), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    if built.returncode:
        sys.exit(built.returncode)
    programs = []
    for message in map(json.loads, built.stdout.splitlines()):
        if message["reason"] == "compiler-artifact" and message["profile"]["test"]:
            source = os.path.relpath(message["target"]["src_path"], ROOT)
            home = Path(message["manifest_path"]).parent
            programs.append(Program(source, message["executable"], home))
    return sorted(programs, key=lambda program: (program.home != ROOT, program.source))


class Ended(NamedTuple):
    """A test program that has ended: its output, why it failed if it did, and the seconds and CPU seconds it took."""

    program: Program
    output: str
    fault: str
    wall_s: float
    cpu_s: float


def run(program: Program) -> Ended:
    """Runs a test program as cargo would. CPU seconds include those of the servers that it started and waited for."""
    threads = THREADS_ALONE if program.source in ALONE else THREADS
    mark = f"{os.getpid()}:{program.source}"
    environment = (
        {"RUST_TEST_THREADS": str(threads)} | os.environ | {test_processes.MARK: mark}
    )
    stuck: list[str] = []
    limit = threading.Timer(LIMIT_S, lambda: stuck.append(end_stuck(mark)))
    began = time.monotonic()
    # Not a pipe, which ends only when everything has that the program started.
    with tempfile.TemporaryFile() as output:
        running = subprocess.Popen(
            [program.path],
            cwd=program.home,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        limit.start()
        _, status, used = os.wait4(running.pid, 0)
        wall_s, cpu_s = time.monotonic() - began, used.ru_utime + used.ru_stime
        limit.cancel()
        limit.join()
        running.returncode = os.waitstatus_to_exitcode(status)
        left = test_processes.left_behind(mark)
        output.seek(0)
        shown = output.read().decode(errors="replace")
    fault = f"exit {running.returncode}" if running.returncode else ""
    if stuck:
        shown += f"When {LIMIT_S} s were over, these ran:\n{stuck[0]}"
        fault = "did not end"
    elif left:
        shown += f"These were left behind:\n{test_processes.describe(left)}"
        fault = fault or "left processes behind"
    test_processes.end(left)
    return Ended(program, shown, fault, wall_s, cpu_s)


def end_stuck(mark: str) -> str:
    """Ends a program and all that it started; returns what they were doing."""
    running = test_processes.marked(mark)
    doing = test_processes.describe(running)
    test_processes.end(running)
    return doing


def run_all(programs: list[Program], at_once: int) -> list[str]:
    """Runs programs, `at_once` at the same time, and shows their output; returns the names of those that failed."""
    failed = []
    with ThreadPoolExecutor(at_once) as pool:
        for task in as_completed([pool.submit(run, program) for program in programs]):
            ended = task.result()
            source = ended.program.source
            print(
                f"== {source}, {ended.wall_s:.1f} s, CPU {ended.cpu_s:.1f} s\n{ended.output}",
                flush=True,
            )
            if ended.fault:
                failed.append(f"{source} ({ended.fault})")
    return failed


def main() -> int:
    """Runs everything, and names the programs that failed at the end; returns 1 if there are any."""
    programs = build()
    # One more than needed, as usually one of them has only a few tests left.
    at_once = int(sys.argv[1]) // THREADS + 1
    failed = run_all([p for p in programs if p.source not in ALONE], at_once)
    failed += run_all([p for p in programs if p.source in ALONE], 1)
    documented = subprocess.run(
        ["cargo", "test", "--workspace", "--locked", "--doc"], cwd=ROOT, check=False
    )
    if documented.returncode:
        failed.append("examples in documentation")
    for name in failed:
        print(f"FAILED: {name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
