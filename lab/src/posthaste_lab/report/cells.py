"""Joins the repetitions of each cell to means with intervals. The unit of replication is the trial.

Requests within a trial are not independent, so their number does not narrow the intervals.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.figures import Row
from posthaste_lab.experiments.omissions import FILE as OMISSIONS
from posthaste_lab.experiments.results import Result, Run, read_run
from posthaste_lab.experiments.tables import Level
from posthaste_lab.stats import mean_interval

BEYOND = {"response_p90_s": 0.1, "response_p99_s": 0.01, "response_p99_9_s": 0.001}  # shares of the requests
BEYOND_LEAST = 10
TOO_FEW = "too few requests"


@dataclass(frozen=True)
class Figure:
    """A mean over trials; `low` and `high` are NaN if there is only one."""

    mean: float
    low: float
    high: float
    trials: tuple[str, ...]
    values: tuple[float, ...]

    @property
    def half_width(self) -> float:
        """Half of the interval."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Cell:
    """One combination of levels and its trials."""

    number: int
    levels: dict[str, Level]
    results: tuple[Result, ...]

    def figure(self, name: str) -> Figure | None:
        """Returns a figure of the trials, named by its column in trials.csv; None when no trial has it."""
        return figure_of(self.results, lambda result: result.figures.get(name))

    def by_repetition(self, name: str) -> dict[int, float]:
        """Returns the value of a figure in each trial that has it, by repetition."""
        figure = self.figure(name)
        if figure is None:
            return {}
        repetitions = {result.name: result.repetition for result in self.results}
        return {repetitions[trial]: value for trial, value in zip(figure.trials, figure.values, strict=True)}

    def kind_figure(self, kind: str, name: str) -> Figure | None:
        """Returns a figure of one kind of request, named by its column in kinds.csv; None when no trial has it."""
        return figure_of(self.results, lambda result: result.kinds.get(kind, {}).get(name))


def is_luck(name: str, trials: Iterable[Row]) -> bool:
    """Returns whether a figure is a percentile beyond which fewer than ten requests lie in any of these trials."""
    beyond = BEYOND.get(name, math.inf)
    return any(are_few(float(trial.get("served", math.inf)) * beyond) for trial in trials)


def are_few(beyond: float) -> bool:
    """Returns whether so many requests beyond a percentile are too few to know it: single ones decide it then."""
    return beyond < BEYOND_LEAST * (1 - 1e-9)


def figure_of(results: Iterable[Result], read: Callable[[Result], float | None]) -> Figure | None:
    """A figure over trials with Student's 95 % interval."""
    known = [(result.name, value) for result in results if (value := read(result)) is not None]
    known = [(name, float(value)) for name, value in known if not math.isnan(float(value))]
    if not known:
        return None
    trials, values = tuple(name for name, _ in known), tuple(value for _, value in known)
    if len(values) == 1:
        return Figure(values[0], math.nan, math.nan, trials, values)
    interval = mean_interval(values)
    return Figure(interval.mean, interval.low, interval.high, trials, values)


def read_finished(directory: Path, purpose: str) -> Run:
    """Returns the run in `directory`, of which a page is to be made: `purpose` says so in an error.

    Raises BadArgument when there is no run, or none of its trials is over and counts.
    """
    run = read_run(directory)
    if not run.finished:
        left_out = f" that its {OMISSIONS} does not leave out"
        which = left_out if any(result.finished for result in run.results) else " yet"
        raise BadArgument("DIR", str(directory), f"holds no finished trial{which}, so there is nothing to {purpose}")
    return run


def cells_of(run: Run) -> list[Cell]:
    """All cells that have a finished trial, in standard order."""
    by_cell: dict[int, list[Result]] = {}
    for result in run.finished:
        by_cell.setdefault(result.cell, []).append(result)
    return [Cell(number, results[0].levels, tuple(results)) for number, results in sorted(by_cell.items())]


def series_of(run: Run, cells: list[Cell]) -> dict[str, list[Cell]]:
    """Returns a line of cells along the horizontal axis for each combination of the other factors, by its name."""
    lines: dict[str, list[Cell]] = {}
    for cell in cells:
        others = {name: cell.levels[name] for name in run.other_factors}
        lines.setdefault(", ".join(f"{name} = {level}" for name, level in others.items()), []).append(cell)
    if run.x is not None:
        for line in lines.values():
            line.sort(key=lambda cell: float(cell.levels[run.x or ""]))
    return lines
