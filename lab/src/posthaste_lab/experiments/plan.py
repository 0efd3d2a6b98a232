"""The trials of an experiment: every combination of levels, repeated, in a random order that its seed determines.

The order is shuffled within each repetition, not over all of them (a randomized complete block design): slow drift then
affects every combination alike, and a run that is broken off has whole repetitions.
"""

import random
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from posthaste_lab.experiments.description import Experiment
from posthaste_lab.experiments.spans import counted, spoken
from posthaste_lab.experiments.tables import LINKS, Level, Link, Value
from posthaste_lab.factorial import Aliases, aliases, design

# Seconds to start and stop the parts of a trial and clean up, assumed until the run has measured it.
OVERHEAD_S = 2.0


@dataclass(frozen=True)
class Trial:
    """One combination of levels (`cell`), run once. `place` is its position in the run, from 1."""

    name: str
    place: int
    cell: int
    repetition: int
    levels: dict[str, Level]


@dataclass(frozen=True)
class Plan:
    """The trials in the order in which they are run; `trial_s` is the load's duration in each."""

    seed: int
    trials: tuple[Trial, ...]
    trial_s: float

    @property
    def cells(self) -> int:
        """The number of combinations of levels."""
        return len({trial.cell for trial in self.trials})

    @property
    def estimate_s(self) -> float:
        """Estimated seconds of the whole run."""
        return len(self.trials) * (self.trial_s + OVERHEAD_S)

    def spoken(self) -> str:
        """The plan in a sentence."""
        times = Counter(trial.cell for trial in self.trials)[1]
        return (
            f"{counted(self.cells, 'combination')} x {counted(times, 'repetition')} = "
            f"{counted(len(self.trials), 'trial')} of {spoken(self.trial_s)}, "
            f"about {spoken(self.estimate_s)} in all"
        )

    def as_json(self) -> dict[str, Any]:
        """Returns the plan's part of `plan.json`."""
        return {"seed": self.seed, "trial_s": self.trial_s, "trials": [asdict(trial) for trial in self.trials]}


def make_plan(experiment: Experiment) -> Plan:
    """Returns the trials of an experiment in their order. The same file gives the same plan."""
    cells = _cells(experiment)
    trials: list[Trial] = []
    for repetition in range(1, experiment.run.repetitions + 1):
        order = list(enumerate(cells, start=1))
        random.Random(experiment.run.seed * 1_000_003 + repetition).shuffle(order)  # noqa: S311 - no secret
        for cell, levels in order:
            name = f"{cell:03}-r{repetition}"
            trials.append(Trial(name, len(trials) + 1, cell, repetition, levels))
    return Plan(experiment.run.seed, tuple(trials), experiment.run.duration)


def _cells(experiment: Experiment) -> list[dict[str, Level]]:
    names = list(experiment.factors)
    if experiment.design is None:
        # The first factor changes fastest, as in a sign table.
        levels = [experiment.factors[name].levels for name in reversed(names)]
        return [dict(zip(names, reversed(row), strict=True)) for row in product(*levels)]
    signs = design(names, generators=experiment.design.generators)
    return [
        {name: experiment.factors[name].levels[sign > 0] for name, sign in zip(names, row, strict=True)}
        for row in signs.tolist()
    ]


def aliased(experiment: Experiment) -> Aliases | None:
    """Returns the effects that a fractional design cannot tell apart; None for a full design."""
    if experiment.design is None:
        return None
    return aliases(list(experiment.factors), experiment.design.generators)


def options_of(experiment: Experiment, trial: Trial) -> dict[str, tuple[int, dict[str, Value]]]:
    """Returns for each part its number of instances and its options in this trial."""
    parts = {name: (part.instances, dict(part.options)) for name, part in experiment.parts.items()}
    for factor, level in trial.levels.items():
        for target, value in experiment.factors[factor].assignments(level).items():
            name, _, option = target.partition(".")
            if name == LINKS:
                continue
            if option == "instances":
                parts[name] = (int(str(value)), parts[name][1])
            else:
                parts[name][1][option] = value
    return parts


def links_of(experiment: Experiment, trial: Trial) -> dict[str, Link]:
    """Returns the links of a trial, by the part to which they lead."""
    links = {name: link.model_dump() for name, link in experiment.links.items()}
    for factor, level in trial.levels.items():
        for target, value in experiment.factors[factor].assignments(level).items():
            if target.startswith(f"{LINKS}."):
                part, _, option = target.removeprefix(f"{LINKS}.").partition(".")
                links[part][option] = value
    return {name: Link.model_validate(link) for name, link in links.items()}
