"""Decides the hypothesis, claim by claim, from figures and their intervals.

- A claim holds when the whole interval keeps its limits, and is refuted when the whole interval breaks one.
- It is undecided in between: more repetitions would help.
- It is also undecided for a percentile beyond which fewer than ten requests of a trial lie: longer trials would help.
- It was not measured when no trial has its figure, or the quick version has not its levels, which more repetitions do
  not change.

Ratios are compared on logarithms, where they are differences. The value that decides is a contrast of the means of
cells (`stats.blocks`): each cell of a side has the same weight, however many trials it has, and effects of other
factors are not chance. With fewer than three complete repetitions a ratio would have one degree of freedom, so its
interval is then from the variance within cells. That of a mean is of complete repetitions if there are two.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from posthaste_lab.experiments.columns import ALL
from posthaste_lab.experiments.plan import make_plan
from posthaste_lab.experiments.problems import did_you_mean
from posthaste_lab.experiments.results import Run, spoken_levels
from posthaste_lab.experiments.spans import counted
from posthaste_lab.experiments.tables import Claim, Level, same_level
from posthaste_lab.report.cells import BEYOND_LEAST, TOO_FEW, Cell, is_luck
from posthaste_lab.report.quantities import amount, digits, stated
from posthaste_lab.stats.blocks import block_contrast
from posthaste_lab.stats.rounding import without_rounding

CONFIDENCE = 0.95
CUT = " (cut at 0)"
WHOLE_LEAST = {"mean": 2, "ratio": 3}  # fewest complete repetitions for an interval over them
Word = Literal["holds", "is refuted", "is undecided", "was not measured"]


@dataclass(frozen=True)
class Decision:
    """The decision on a claim, with the value and the interval that decided it."""

    claim: Claim
    word: Word
    value: float
    low: float
    high: float
    why: str
    trials: tuple[str, ...]


class Contrast(NamedTuple):
    """A weighted sum of the means of cells, with its interval; `low` and `high` are NaN where it has none."""

    value: float
    low: float
    high: float
    trials: tuple[str, ...]


def decisions_of(run: Run, cells: Sequence[Cell]) -> list[Decision]:
    """Returns the decision on each claim, at last those that a quick version leaves out.

    `cells` are those with a finished trial.
    """
    known = {cell.number for cell in cells}
    planned = {trial.cell: trial.levels for trial in make_plan(run.experiment).trials}
    empty = [Cell(number, levels, ()) for number, levels in planned.items() if number not in known]
    dropped = [
        _told_nothing(claim, "was not measured", "the quick version leaves out its levels")
        for claim in run.experiment.dropped
    ]
    return [*(decide(claim, [*cells, *empty]) for claim in run.experiment.claims), *dropped]


def decide(claim: Claim, cells: Sequence[Cell]) -> Decision:
    """Decides a claim from the trials it is about; a cell without trials was planned but has no finished one."""
    rows = [result.figures for cell in cells for result in cell.results]
    measured = {name for row in rows for name, value in row.items() if isinstance(value, int | float)}
    if measured and claim.figure not in measured:
        meant = "" if claim.figure in ALL else did_you_mean(claim.figure, measured)
        return _told_nothing(claim, "was not measured", f"no trial has a figure {claim.figure}{meant}")
    side = _of(claim.where, cells)
    other = [] if claim.than is None else _of(claim.than, cells)
    chosen = list({cell.number: cell for cell in [*side, *other]}.values())
    empty = [cell for cell in chosen if not cell.by_repetition(claim.figure)]
    trials = tuple(figure.trials for cell in chosen if (figure := cell.figure(claim.figure)) is not None)
    if not side or (claim.than is not None and not other) or len(empty) == len(chosen):
        return _told_nothing(claim, "is undecided", "no trial tells")
    if empty:
        return _told_nothing(
            claim, "is undecided", f"no trial tells of {spoken_levels(empty[0].levels)}", sum(trials, ())
        )
    if is_luck(claim.figure, (result.figures for cell in chosen for result in cell.results)):
        why = f"{TOO_FEW} beyond it, fewer than {BEYOND_LEAST} in a trial: longer trials would tell"
        return _told_nothing(claim, "is undecided", why, sum(trials, ()))
    weights = {cell.number: (cell in side) / len(side) - (cell in other) / max(1, len(other)) for cell in chosen}
    if claim.than is None:
        contrast = _contrast(chosen, weights, claim.figure, WHOLE_LEAST["mean"], float)
        return _with_doubts(_conclude(claim, contrast), chosen)
    if min(value for cell in chosen for value in cell.by_repetition(claim.figure).values()) <= 0:
        return _told_nothing(claim, "is undecided", "no ratio can be formed", sum(trials, ()))
    value, low, high, told = _contrast(chosen, weights, claim.figure, WHOLE_LEAST["ratio"], math.log)
    contrast = Contrast(math.exp(value), math.exp(low), math.exp(high), told)
    return _with_doubts(_conclude(claim, contrast), chosen)


def _with_doubts(decision: Decision, cells: Sequence[Cell]) -> Decision:
    """Returns the decision, with a note if the load generator calls some of its trials not valid."""
    results = [result for cell in cells for result in cell.results if result.name in decision.trials]
    invalid = sum(result.figures.get("generator_valid") is False for result in results)
    if not invalid:
        return decision
    why = f"{decision.why}; the load generator calls {invalid} of these {counted(len(results), 'trial')} not valid"
    return replace(decision, why=why)


def overall(decisions: list[Decision]) -> str:
    """Returns the decision on the hypothesis in words.

    It is never called confirmed: claims may be of a part of it only.
    """
    if not decisions:
        return "not decided by figures: no claim is about what was run"
    words = [decision.word for decision in decisions]
    if "is refuted" in words:
        return "refuted"
    if "was not measured" in words:
        return "not decided: a claim is about what was not measured"
    return "undecided" if "is undecided" in words else "its claims hold"


def _of(where: dict[str, Level], cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if all(same_level(cell.levels[name], level) for name, level in where.items())]


def _told_nothing(claim: Claim, word: Word, why: str, trials: tuple[str, ...] = ()) -> Decision:
    return Decision(claim, word, math.nan, math.nan, math.nan, why, trials)


def _contrast(
    cells: Sequence[Cell], weights: dict[int, float], figure: str, whole_least: int, scale: Callable[[float], float]
) -> Contrast:
    """Returns the contrast of scaled values, over complete repetitions if at least `whole_least`, else all trials."""
    known = {
        cell.number: {repetition: scale(value) for repetition, value in cell.by_repetition(figure).items()}
        for cell in cells
    }
    value, low, high, whole = block_contrast(known, weights, whole_least, CONFIDENCE)
    told = tuple(
        result.name
        for cell in cells
        for result in cell.results
        if result.repetition in (known[cell.number] if whole is None else whole)
    )
    return Contrast(value, low, high, told)


def _limits(claim: Claim) -> str:
    """Returns the limits of a claim in words, with all of their digits."""

    def said(limit: float) -> str:
        known = stated(limit)
        return digits(limit, known) if claim.than is not None else amount(claim.figure, limit, known)

    limits = [f"at least {said(claim.at_least)}"] if claim.at_least is not None else []
    limits += [f"at most {said(claim.at_most)}"] if claim.at_most is not None else []
    return " and ".join(limits)


def _is_below(one: float, other: float) -> bool:
    """Returns whether one figure is below the other by more than the rounding of sums and logarithms explains."""
    return without_rounding(one - other, np.array([one, other])) < 0


def _conclude(claim: Claim, contrast: Contrast) -> Decision:
    value, low, high, trials = contrast
    least = -math.inf if claim.at_least is None else claim.at_least
    most = math.inf if claim.at_most is None else claim.at_most

    def said(figure: float) -> str:
        return digits(figure, 3) if claim.than is not None else amount(claim.figure, figure)

    limit = _limits(claim)
    if math.isnan(low):
        broken = _is_below(value, least) or _is_below(most, value)
        kept = "does not keep to" if broken else "keeps to"
        why = f"{said(value)} {kept} {limit}, but one repetition has no interval"
        return Decision(claim, "is undecided", value, low, high, why, trials)
    cut = low < 0 and claim.than is None and claim.figure.endswith("_s")
    low = max(0.0, low) if cut else low  # Student's interval does not know that a time or a rate is not below 0
    word: Word = "is undecided"
    if not (_is_below(low, least) or _is_below(most, high)):
        word = "holds"
    elif _is_below(high, least) or _is_below(most, low):
        word = "is refuted"
    why = f"measured {said(value)}, interval {said(low)} to {said(high)}{CUT if cut else ''}; claimed {limit}"
    return Decision(claim, word, value, low, high, why, trials)
