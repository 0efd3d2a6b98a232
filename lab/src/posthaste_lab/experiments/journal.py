"""The directory of a run, and the journal of everything that was tried in it.

| file | holds |
| --- | --- |
| experiment.toml | the description as it was run |
| plan.json | trials in their order, seed, environment |
| trials/NAME/ | one trial: a directory for each part, events.csv, trial.json when it is done |
| trials/NAME/scratch.json | while the trial runs: its directories on its machines |
| trials.csv, kinds.csv | a row for each trial that is done; a row for each of its kinds of request |
| journal.csv | every start, end, failure and interruption, with its time |
| .lock | nothing: the process that runs the experiment has locked it |
"""

import csv
import fcntl
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from posthaste_lab.experiments.environment import differences
from posthaste_lab.experiments.figures import Row
from posthaste_lab.experiments.plan import Plan, Trial
from posthaste_lab.experiments.problems import BadExperiment
from posthaste_lab.experiments.results import losses_in, read_trial
from posthaste_lab.files import read_json, reading, write_whole

DONE = "trial.json"
PLAN = "plan.json"
LOCK = ".lock"
BUSY_AGAIN = "busy_when_resumed"  # beside "busy", which is of the beginning
# Entries that exist before the plan is written; a run that ended before that, as on a full disk, leaves only these.
BEFORE_THE_PLAN = {LOCK, "trials", "experiment.toml", f"{PLAN}.new"}
OUT = "--out"  # the argument that names the directory, for error messages


@dataclass(frozen=True)
class Journal:
    """A run's directory."""

    directory: Path

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Locks the directory against other processes, and makes it if needed; a killed process loses its lock.

        Raises BadExperiment if another process holds the lock, or the directory holds something else than a run.
        """
        there = {path.name for path in self.directory.iterdir()} if self.directory.exists() else set()
        if PLAN not in there and there and not self._is_about_to_begin(there):
            raise BadExperiment(str(self.directory), ["holds something that is no run: name another directory"])
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / LOCK).open("a") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BadExperiment(
                    str(self.directory),
                    ["is being run by another process: wait for its end, or name another directory"],
                ) from None
            yield

    def _is_about_to_begin(self, there: set[str]) -> bool:
        """Returns whether these entries were left by a run that ended before its plan was written."""
        tried = "trials" in there and any((self.directory / "trials").iterdir())
        return LOCK in there and there <= BEFORE_THE_PLAN and not tried

    def begin(self, source: str, plan: Plan, environment: dict[str, Any], *, quick: bool) -> bool:
        """Writes the files of a new run, or resumes an interrupted run of the same experiment: whether it does.

        Raises BadExperiment if the directory holds another run, or the environment has changed.
        """
        content = plan.as_json() | {
            "quick": quick,
            "experiment_sha256": hashlib.sha256(source.encode()).hexdigest(),
            "environment": environment,
        }
        path = self.directory / PLAN
        if path.exists():
            held = read_json(path, OUT)
            with reading(path, OUT):
                same = all(held[key] == content[key] for key in ("experiment_sha256", "quick", "trials"))
                changed = differences(held["environment"], environment)
            if not same:
                raise BadExperiment(
                    str(self.directory),
                    ["holds a run of another experiment, or of this one as it was: name another directory with --out"],
                )
            if changed:
                raise BadExperiment(
                    str(self.directory),
                    [f"was begun with something else: {each}; name another directory with --out" for each in changed],
                )
            self.note("", "resumed", f"posthaste at {environment['posthaste']}")
            return True
        (self.directory / "trials").mkdir(parents=True, exist_ok=True)
        (self.directory / "experiment.toml").write_text(source, "utf-8")
        write_json(path, content)
        self.note("", "begun", "")
        return False

    def resumed_while_busy(self) -> None:
        """Records in `plan.json` that something else ran on a machine when the run was resumed with trials to run."""
        path = self.directory / PLAN
        held = read_json(path, OUT)
        with reading(path, OUT):
            held["environment"][BUSY_AGAIN] = True
        write_json(path, held)

    def of(self, trial: Trial) -> Path:
        """The directory of a trial."""
        return self.directory / "trials" / trial.name

    def done(self, trial: Trial) -> dict[str, Any] | None:
        """Returns the content of `trial.json`; None while the trial is not over. Raises BadFile for a wrong content."""
        path = self.of(trial) / DONE
        return read_trial(path, OUT).model_dump() if path.exists() else None

    def losses(self, trial: Trial) -> tuple[str, ...]:
        """Returns a sentence for each lost file of a trial that is over. Raises BadFile for a wrong `trial.json`."""
        return losses_in(read_trial(self.of(trial) / DONE, OUT), self.of(trial))

    def clear(self, trial: Trial) -> None:
        """Makes an empty directory for a trial; removes, and notes in the journal, what an earlier attempt left."""
        if self.of(trial).exists():
            shutil.rmtree(self.of(trial))
            self.note(trial.name, "cleared", "what was left of an interrupted or failed trial; it is run again")
        self.of(trial).mkdir(parents=True)

    def end(self, trial: Trial, result: dict[str, Any]) -> None:
        """Records that the trial is over, with its result."""
        write_json(self.of(trial) / DONE, result)
        self.note(trial.name, result["status"], result["reason"])

    def note(self, trial: str, event: str, detail: str) -> None:
        """Appends a line to the journal."""
        path = self.directory / "journal.csv"
        new = not path.exists()
        with path.open("a", newline="") as out:
            table = csv.writer(out)
            if new:
                table.writerow(["time", "trial", "event", "detail"])
            table.writerow([datetime.now(UTC).isoformat(timespec="seconds"), trial, event, detail])

    def write_tables(self, results: Sequence[dict[str, Any]]) -> None:
        """Write trials.csv and kinds.csv anew from all trials that are over."""
        trials, kinds = [], []
        for result in sorted(results, key=lambda each: (each["cell"], each["repetition"])):
            key = {"trial": result["name"]} | {name: result[name] for name in ("place", "cell", "repetition")}
            levels = result["levels"]
            head = (
                key
                | levels
                | {
                    "status": result["status"],
                    "accepted": not result["objections"],
                    "took_s": round(result["took_s"], 3),
                }
            )
            # A level wins over a figure of the same name: the figure `clients` is of all loads, a level that of each.
            trials.append(head | result["figures"] | levels)
            kinds += [key | levels | {"kind": kind} | figures | levels for kind, figures in result["kinds"].items()]
        write_table(self.directory / "trials.csv", trials)
        write_table(self.directory / "kinds.csv", kinds)


def write_json(path: Path, content: object) -> None:
    """Writes a JSON file, whole or not at all."""
    write_whole(path, json.dumps(content, indent=2) + "\n")


def write_table(path: Path, rows: Iterable[Row]) -> None:
    """Writes a CSV with a column for every name that occurs; a cell without a figure is empty."""
    rows = list(rows)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    new = path.with_suffix(".new")
    with new.open("w", newline="") as out:
        table = csv.DictWriter(out, columns, restval="")
        table.writeheader()
        table.writerows(rows)
    new.replace(path)
