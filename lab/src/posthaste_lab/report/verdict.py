"""The hypothesis, claim by claim, against figures and their intervals.

A claim holds when the whole interval keeps its limits, is refuted when the whole interval breaks one, and is
undecided in between: then more repetitions would tell. Ratios are compared on logarithms, where they are differences.
"""

import math
from dataclasses import dataclass
from typing import Literal

from posthaste_lab.experiments.description import Claim, Level
from posthaste_lab.report.cells import Cell
from posthaste_lab.report.quantities import amount, digits
from posthaste_lab.stats import compare_means, mean_interval

Word = Literal["holds", "is refuted", "is undecided"]


@dataclass(frozen=True)
class Decision:
    """What became of a claim."""

    claim: Claim
    word: Word
    value: float
    low: float
    high: float
    why: str
    trials: tuple[str, ...]


def decide(claim: Claim, cells: list[Cell]) -> Decision:
    """Decide a claim by the trials it is about."""
    values, trials = _values(claim, claim.where, cells)
    if not values:
        return Decision(claim, "is undecided", math.nan, math.nan, math.nan, "no trial tells", ())
    if claim.than is None:
        return _conclude(claim, *_mean(values), trials)
    others, more = _values(claim, claim.than, cells)
    if not others or min(*values, *others) <= 0:
        return Decision(claim, "is undecided", math.nan, math.nan, math.nan, "no ratio can be formed", (*trials, *more))
    return _conclude(claim, *_ratio(values, others), (*trials, *more))


def overall(decisions: list[Decision]) -> str:
    """The hypothesis as a whole, in a word or two."""
    if not decisions:
        return "not decided by figures: no claim is about what was run"
    words = [decision.word for decision in decisions]
    if "is refuted" in words:
        return "refuted"
    return "undecided" if "is undecided" in words else "confirmed"


def _values(claim: Claim, where: dict[str, Level], cells: list[Cell]) -> tuple[list[float], tuple[str, ...]]:
    chosen = [cell for cell in cells if all(cell.levels[name] == level for name, level in where.items())]
    figures = [figure for cell in chosen if (figure := cell.figure(claim.figure)) is not None]
    return [v for f in figures for v in f.values], tuple(name for f in figures for name in f.trials)


def _mean(values: list[float]) -> tuple[float, float, float]:
    if len(values) < 2:
        return values[0], math.nan, math.nan
    interval = mean_interval(values)
    return interval.mean, interval.low, interval.high


def _ratio(values: list[float], others: list[float]) -> tuple[float, float, float]:
    a, b = [math.log(value) for value in values], [math.log(value) for value in others]
    ratio = math.exp(sum(a) / len(a) - sum(b) / len(b))
    if len(a) < 2 or len(b) < 2:
        return ratio, math.nan, math.nan
    difference = compare_means(a, b)
    return ratio, math.exp(difference.low), math.exp(difference.high)


def _conclude(claim: Claim, value: float, low: float, high: float, trials: tuple[str, ...]) -> Decision:
    least = -math.inf if claim.at_least is None else claim.at_least
    most = math.inf if claim.at_most is None else claim.at_most

    def said(figure: float) -> str:
        return digits(figure, 3) if claim.than is not None else amount(claim.figure, figure)

    limits = [f"at least {said(least)}"] if claim.at_least is not None else []
    limits += [f"at most {said(most)}"] if claim.at_most is not None else []
    limit = " and ".join(limits)
    if math.isnan(low):
        kept = "keeps to" if least <= value <= most else "does not keep to"
        why = f"{said(value)} {kept} {limit}, but one repetition has no interval"
        return Decision(claim, "is undecided", value, low, high, why, trials)
    word: Word = "is undecided"
    if least <= low and high <= most:
        word = "holds"
    elif high < least or low > most:
        word = "is refuted"
    why = f"measured {said(value)}, interval {said(low)} to {said(high)}; claimed {limit}"
    return Decision(claim, word, value, low, high, why, trials)
