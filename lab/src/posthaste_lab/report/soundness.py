"""Whether the figures of a run may be relied on: one verdict for each check of each trial.

The report says the same in its sections; here it is in a form that a program can act on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from posthaste_lab import laws
from posthaste_lab.experiments.clocks import unrelated
from posthaste_lab.experiments.results import Result, Run, spoken_levels
from posthaste_lab.experiments.spans import counted
from posthaste_lab.report.cells import BEYOND_LEAST, cells_of, is_luck
from posthaste_lab.report.laws import verdicts
from posthaste_lab.report.records import trace
from posthaste_lab.report.steady import Steadiness, steadiness
from posthaste_lab.stats.steadiness import STEADY_LEAST

Word = Literal["holds", "fails", "not known"]
BUSY = {"generator_utilization": "the load generator's busiest thread", "machine_busy_share": "the busiest machine"}
REPETITIONS_LEAST = 2  # with one there is no interval


@dataclass(frozen=True)
class Check:
    """The verdict of one check. `about` is a trial, a combination of levels, or empty for the whole run."""

    about: str
    name: str
    word: Word
    why: str


def checks_of(run: Run) -> list[Check]:
    """Returns all verdicts on a run, those on its trials in the order of their names."""
    head, _, tail = run.experiment.trimmed
    traced = [(result, found) for result in run.finished if (found := trace(result, head, tail)) is not None]
    steady = {each.trial: each for each in steadiness(traced)}
    checks = []
    if run.missing:
        checks.append(Check("", "complete", "fails", f"{counted(run.missing, 'trial')} of the plan still to run"))
    checks += [Check(each.name, "finished", "fails", each.reason) for each in run.results if not each.finished]
    for result in run.finished:
        checks += _checks_of_trial(result, steady.get(result.name))
    for cell in cells_of(run):
        word: Word = "holds" if len(cell.results) >= REPETITIONS_LEAST else "fails"
        why = f"{counted(len(cell.results), 'trial')}, of which {REPETITIONS_LEAST} are needed for an interval"
        checks.append(Check(spoken_levels(cell.levels), "repetitions", word, why))
    return checks


def trials_to_doubt(run: Run) -> dict[str, list[str]]:
    """Returns by trial what makes its figures wrong or not those of the system: a law, or the load generator's word."""
    doubts = {
        result.name: [check.why for check in (*_laws(result), *_generator(result)) if check.word == "fails"]
        for result in run.finished
    }
    return {name: why for name, why in doubts.items() if why}


def _checks_of_trial(result: Result, steady: Steadiness | None) -> Iterator[Check]:
    yield _check(result, "whole records", "; ".join(result.losses), "no file is lost")
    if result.objections:
        yield Check(result.name, "accepted", "fails", "; ".join(result.objections))
    if apart := ", ".join(unrelated(result.directory)):
        why = f"nothing relates the clock of {apart}, on another machine, to that of the load generator"
        yield Check(result.name, "clocks", "not known", why)
    yield from _laws(result)
    yield from _generator(result)
    if "response_p99_s" in result.figures:
        served = int(result.figures.get("served") or 0)
        few = is_luck("response_p99_s", [result.figures])
        why = f"{counted(served, 'request')} served, of which {BEYOND_LEAST} must lie beyond the 99th percentile"
        yield Check(result.name, "sample size", "fails" if few else "holds", why)
    if steady is None:
        why = f"fewer than {STEADY_LEAST} windows were recorded in the measured time"
        yield Check(result.name, "stationarity", "not known", why)
    else:
        level = f"no drift or change of level of {steady.figure} by a tenth"
        yield _check(result, "stationarity", steady.says, level)


def _laws(result: Result) -> Iterator[Check]:
    for verdict in verdicts(result):
        yield Check(result.name, verdict.law, "holds" if verdict.holds else "fails", verdict.message)
    for column, what in BUSY.items():
        if column in result.figures:
            for verdict in laws.check({"utilization": result.figures[column]}):
                why = f"{what}: {verdict.message}"
                yield Check(result.name, "utilization", "holds" if verdict.holds else "fails", why)


def _generator(result: Result) -> Iterator[Check]:
    if "generator_valid" in result.figures:
        invalid = result.figures["generator_valid"] is False
        why = str(result.figures.get("invalid_because") or "it says so") if invalid else ""
        yield _check(result, "load generator", why, "it calls its figures valid")


def _check(result: Result, name: str, wrong: str, right: str) -> Check:
    return Check(result.name, name, "fails" if wrong else "holds", wrong or right)
