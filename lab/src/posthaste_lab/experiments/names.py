"""Checks for names of factors that are taken, and options set twice: one of the two would be lost without a word."""

from typing import TYPE_CHECKING

from posthaste_lab.factorial.effects import FACTORS_MAX as ANALYZED_MAX
from posthaste_lab.factorial.effects import OTHER_SHARES

if TYPE_CHECKING:
    from posthaste_lab.experiments.description import Experiment

# Columns of trials.csv and kinds.csv beside levels and figures. A factor named like a figure takes that column.
COLUMNS = ("trial", "place", "cell", "repetition", "status", "accepted", "took_s", "kind")


# Names of effects in the analysis of a 2^k design, beside the names of factors and their products, A:B.
EFFECTS = ("I", *OTHER_SHARES)


def name_problems(experiment: "Experiment") -> list[str]:
    """Returns what is wrong with the names of factors, and the options that several factors set."""
    taken = [
        f"factors.{name}: is the name of a column of trials.csv or kinds.csv; call it something else"
        for name in experiment.factors
        if name in COLUMNS
    ]
    return [*taken, *_effect_problems(experiment), *_set_twice(experiment)]


def _effect_problems(experiment: "Experiment") -> list[str]:
    """Returns what the analysis of a 2^k design would refuse after everything is measured."""
    if not experiment.two_levels:
        return []
    if len(experiment.factors) > ANALYZED_MAX:
        return [f"factors: {len(experiment.factors)} of two levels are more than the {ANALYZED_MAX} that are analyzed"]
    effects = ", ".join(("I", "A", "A:B", *OTHER_SHARES))
    return [
        f"factors.{name}: is no name for a factor of a 2^k design, whose effects are {effects}"
        for name in experiment.factors
        if name in EFFECTS or ":" in name
    ]


def _set_twice(experiment: "Experiment") -> list[str]:
    """Returns options that several factors set: the last one would win, and the levels of the others mean nothing."""
    by_target: dict[str, list[str]] = {}
    for name, factor in experiment.factors.items():
        for target in dict.fromkeys(target for level in factor.levels for target in factor.assignments(level)):
            by_target.setdefault(target, []).append(name)
    return [
        f"factors.{names[-1]} sets {target!r}: which factors.{names[0]} sets too; one factor must do"
        for target, names in by_target.items()
        if len(names) > 1
    ]
