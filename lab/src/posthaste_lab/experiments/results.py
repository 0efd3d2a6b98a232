"""A run's directory, read: what was asked, what was done, and a row of figures for each trial."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from posthaste_lab.errors import BadArgument
from posthaste_lab.experiments.description import Experiment, Factor, Level, load
from posthaste_lab.experiments.figures import Row


@dataclass(frozen=True)
class Result:
    """One trial that is over."""

    name: str
    place: int
    cell: int
    repetition: int
    levels: dict[str, Level]
    finished: bool
    reason: str
    figures: Row
    kinds: dict[str, Row]
    measured_unix_s: tuple[float, float] | None
    directory: Path
    objections: tuple[str, ...] = ()
    links: tuple[dict[str, Any], ...] = ()

    def record(self, role: str) -> Path | None:
        """The record of its first load or tier, if it left one: `role` is "load" or "tier"."""
        for path in sorted(self.directory.glob("*/record")):
            is_load = (path.parent / "summary.json").exists()
            if is_load == (role == "load") and (path / "windows.csv").exists():
                return path
        return None


@dataclass(frozen=True)
class Run:
    """A whole run."""

    directory: Path
    experiment: Experiment
    plan: dict[str, Any]
    results: tuple[Result, ...]

    @cached_property
    def finished(self) -> list[Result]:
        """Trials with figures, by cell and repetition."""
        return sorted((r for r in self.results if r.finished), key=lambda r: (r.cell, r.repetition))

    @property
    def quick(self) -> bool:
        """Whether it was the short version."""
        return bool(self.plan["quick"])

    @property
    def missing(self) -> int:
        """Trials of the plan that are not over."""
        return len(self.plan["trials"]) - len(self.results)

    @cached_property
    def x(self) -> str | None:
        """The factor on the horizontal axis: the one named, else the one with most levels if those are numbers."""
        if self.experiment.report.x is not None:
            return self.experiment.report.x
        numeric = {name: len(factor.levels) for name, factor in self.experiment.factors.items() if is_numeric(factor)}
        best = max(numeric, key=lambda name: numeric[name], default=None)
        return best if best is not None and numeric[best] >= 3 else None

    @property
    def other_factors(self) -> list[str]:
        """Factors that are not the horizontal axis."""
        return [name for name in self.experiment.factors if name != self.x]

    @property
    def two_levels(self) -> bool:
        """Whether it is a 2^k design with effects to tell apart: of one factor, the claim says it all."""
        factors = self.experiment.factors.values()
        return len(factors) > 1 and all(len(factor.levels) == 2 for factor in factors)


def is_numeric(factor: Factor) -> bool:
    """Whether levels are numbers, so that a scale makes sense."""
    return all(isinstance(level, int | float) and not isinstance(level, bool) for level in factor.levels)


def read_run(directory: Path) -> Run:
    """Read a run. Raises BadArgument when the directory holds none."""
    if not (directory / "plan.json").exists():
        raise BadArgument("DIR", str(directory), "holds no run (no plan.json); posthaste-lab run makes one")
    plan = json.loads((directory / "plan.json").read_text("utf-8"))
    experiment = load(directory / "experiment.toml")
    experiment = experiment.quickly() if plan["quick"] else experiment
    results = []
    for trial in plan["trials"]:
        path = directory / "trials" / trial["name"] / "trial.json"
        if path.exists():
            results.append(_read_trial(path))
    return Run(directory, experiment, plan, tuple(results))


def _read_trial(path: Path) -> Result:
    try:
        return _result(json.loads(path.read_text("utf-8")), path.parent)
    except (KeyError, ValueError) as error:
        raise BadArgument("DIR", str(path), f"is no trial as this version leaves them ({error!r})") from None


def _result(held: dict[str, Any], directory: Path) -> Result:
    measured = held["measured_unix_s"]
    return Result(
        name=held["name"],
        place=held["place"],
        cell=held["cell"],
        repetition=held["repetition"],
        levels=held["levels"],
        finished=held["status"] == "finished",
        reason=held["reason"],
        figures=held["figures"],
        kinds=held["kinds"],
        measured_unix_s=(measured[0], measured[1]) if measured else None,
        directory=directory,
        objections=tuple(held["objections"]),
        links=tuple(held.get("links", ())),
    )


def spoken_levels(levels: dict[str, Level]) -> str:
    """Levels as a reader would say them."""
    return ", ".join(f"{name} = {level}" for name, level in levels.items()) or "the only combination"
