"""A whole run: every trial of the plan, in its order, recorded, and run once.

- An interruption (Ctrl-C, SIGTERM, SIGHUP, a crash of this program) leaves complete trials and at most one incomplete
  one; the same command resumes the run there.
- A trial that fails is recorded as failed and the run continues, so that one bad setting does not cost a night.
- After several failures in a row the run stops, because then the setup is at fault and not a setting.
- It stops at once if a part refuses its options before any trial has finished: most often the other trials have the
  same options.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from posthaste_lab.experiments.description import Experiment
from posthaste_lab.experiments.environment import busy_share, environment, hashes, marks
from posthaste_lab.experiments.hosts import Host
from posthaste_lab.experiments.journal import Journal
from posthaste_lab.experiments.plan import OVERHEAD_S, Plan, Trial, make_plan
from posthaste_lab.experiments.problems import RunFailed, UsedWrongly
from posthaste_lab.experiments.scratch import Scratch
from posthaste_lab.experiments.trial import run_trial

FAILURES_IN_A_ROW_MAX = 3
# Share of a machine's CPU time, above which what else runs there would influence the measurement.
BUSY = 0.1


@dataclass(frozen=True)
class Progress:
    """The progress of a run, reported before each trial and at the end; `over` of `of` trials are over."""

    trial: Trial | None
    over: int
    of: int
    remaining_s: float
    failed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """The result of a run: how many trials finished, why others failed, which rules finished ones broke.

    `lost` has a sentence for each file of a trial, now finished or earlier, that is missing or not whole.
    """

    finished: int
    failed: dict[str, str]
    not_accepted: dict[str, list[str]]
    lost: dict[str, tuple[str, ...]]


class Program:
    """The program under test, which must stay the same: after a new build during a run, trials would measure both."""

    def __init__(
        self, experiment: Experiment, hosts: dict[str, Host], known: dict[str, str], sha256: dict[str, str]
    ) -> None:
        """Remembers the program's marks and hashes on the machines of the experiment."""
        self.experiment, self.hosts = experiment, hosts
        self._marks, self._hashes = known, sha256

    def must_be_the_same(self) -> None:
        """Raises RunFailed where the program has changed, or is gone."""
        now = marks(self.experiment, self.hosts)
        if now == self._marks:
            return
        for host, found in hashes(self.experiment, self.hosts).items():
            if found != self._hashes[host]:
                raise RunFailed(
                    f"posthaste on {host} is not the program any more that this run was begun with, and trials of two "
                    "would not be of one system; put that one back, or name another directory with --out"
                )
        self._marks = now


def run_experiment(
    experiment: Experiment,
    source: str,
    hosts: dict[str, Host],
    directory: Path,
    *,
    quick: bool = False,
    retry_failed: bool = False,
    tell: Callable[[Progress], None] = lambda _: None,
) -> Outcome:
    """Runs the trials of `experiment`, whose file has the text `source`, that are not yet done in `directory`.

    With `retry_failed`, trials that failed earlier are run again. Raises BadExperiment when the directory holds
    something else or another process works there, RunFailed when the run has to stop, KeyboardInterrupt when
    interrupted; then nothing is left running.
    """
    plan, journal = make_plan(experiment), Journal(directory)
    known = marks(experiment, hosts)  # taken before the hashes, so that any later change is noticed
    around = environment(experiment, hosts, hosts["local"].posthaste)
    around["busy"] = any(busy_share(hosts[name]) > BUSY for name in around["hosts"])
    program = Program(experiment, hosts, known, around["sha256"])
    with journal.alone():
        resumed = journal.begin(source, plan, around, quick=quick)
        results = {trial.name: result for trial in plan.trials if (result := journal.done(trial)) is not None}
        if results:  # an interruption may have come between the end of a trial and its rows
            journal.write_tables(list(results.values()))
        if retry_failed:
            results = {name: result for name, result in results.items() if result["status"] == "finished"}
        if resumed and around["busy"] and len(results) < len(plan.trials):
            journal.resumed_while_busy()
        with _terminable():
            _run_all(experiment, plan, program, journal, results, tell)
        journal.note("", "ended", "")
    failed = {name: result["reason"] for name, result in results.items() if result["status"] == "failed"}
    not_accepted = {name: result["objections"] for name, result in results.items() if result["objections"]}
    lost = {trial.name: losses for trial in plan.trials if (losses := journal.losses(trial))}
    return Outcome(len(results) - len(failed), failed, not_accepted, lost)


def _run_all(
    experiment: Experiment,
    plan: Plan,
    program: Program,
    journal: Journal,
    results: dict[str, dict[str, Any]],
    tell: Callable[[Progress], None],
) -> None:
    todo = [trial for trial in plan.trials if trial.name not in results]
    took: list[float] = []
    hosts = program.hosts
    failures = 0
    for place, trial in enumerate(todo):
        each_s = sum(took) / len(took) if took else plan.trial_s + OVERHEAD_S
        failed = tuple(name for name, result in results.items() if result["status"] == "failed")
        tell(Progress(trial, len(results), len(plan.trials), each_s * (len(todo) - place), failed))
        program.must_be_the_same()
        for stays in Scratch(journal.of(trial)).clear(hosts):
            journal.note(trial.name, "left behind", stays)
        journal.clear(trial)
        results[trial.name] = _run_one(experiment, trial, hosts, journal)
        took.append(results[trial.name]["took_s"])
        failures = failures + 1 if results[trial.name]["status"] == "failed" else 0
        journal.write_tables(list(results.values()))
        finished = any(result["status"] == "finished" for result in results.values())
        if results[trial.name].get("used_wrongly") and not finished:
            raise RunFailed(
                f"a part refuses what it is given, which no repetition mends: {results[trial.name]['reason']}; "
                "mend the file, and name another directory with --out"
            )
        if failures == FAILURES_IN_A_ROW_MAX:
            raise RunFailed(
                f"{failures} trials in a row failed, the last because {results[trial.name]['reason']}; "
                f"their logs are in {journal.of(trial)}"
            )
    tell(Progress(None, len(results), len(plan.trials), 0.0))


def _run_one(experiment: Experiment, trial: Trial, hosts: dict[str, Host], journal: Journal) -> dict[str, Any]:
    journal.note(trial.name, "started", "")
    started = time.time()
    try:
        result = run_trial(experiment, trial, hosts, journal.of(trial))
    except (RunFailed, OSError, ValueError, KeyError) as failure:
        # A fault of a machine, or in the files of a part, fails this trial and not the whole run.
        reason = f"what a part left has no {failure}" if isinstance(failure, KeyError) else str(failure)
        ended = {
            "status": "failed",
            "reason": reason,
            "used_wrongly": isinstance(failure, UsedWrongly),
            "started_unix_s": started,
            "took_s": time.time() - started,
        }
        result = (
            asdict(trial)
            | ended
            | {"measured_unix_s": None, "commands": {}, "figures": {}, "kinds": {}, "objections": []}
        )
    except KeyboardInterrupt:
        journal.note(trial.name, "interrupted", "")
        raise
    journal.end(trial, result)
    return result


@contextmanager
def _terminable() -> Iterator[None]:
    """Turns SIGTERM and SIGHUP into KeyboardInterrupt, except signals that are ignored, as SIGHUP is under nohup."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) != signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
