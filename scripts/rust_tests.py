#!/usr/bin/env python3
"""Runs the tests of all crates, about AT_ONCE of them at once: `scripts/rust_tests.py AT_ONCE`.

`cargo test` runs one program after the other, and waits with idle cores for the slowest test of each; most of a test is waiting.
What a program says is shown when it has ended.
"""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

# Tests of one program at once: some programs have one long test, others many short ones.
THREADS = 2

# What these check of times holds only where nothing else is busy.
ALONE = {"crates/load/tests/pace.rs", "tests/open_loop.rs"}


class Program(NamedTuple):
    """A test program: the file it is made of, where it is, and the directory that it expects to be run in."""

    source: str
    path: str
    home: Path


def build() -> list[Program]:
    """Builds all test programs. Those that try the whole of posthaste come first: they take longest."""
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


def run(program: Program) -> tuple[Program, subprocess.CompletedProcess[str], float]:
    """Runs one, as cargo would; how long it took in seconds."""
    began = time.monotonic()
    ended = subprocess.run(
        [program.path],
        cwd=program.home,
        env={"RUST_TEST_THREADS": str(THREADS)} | os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    return program, ended, time.monotonic() - began


def run_all(programs: list[Program], at_once: int) -> list[str]:
    """Runs these, so many at once, and shows what they said; the names of those that failed."""
    failed = []
    with ThreadPoolExecutor(at_once) as pool:
        for task in as_completed([pool.submit(run, program) for program in programs]):
            program, ended, seconds = task.result()
            print(f"== {program.source}, {seconds:.1f} s\n{ended.stdout}", flush=True)
            if ended.returncode:
                failed.append(f"{program.source} (exit {ended.returncode})")
    return failed


def main() -> int:
    """Exits with 1 if a program failed, and names it at the end."""
    programs = build()
    # One more, for there is always one that nears its end.
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
