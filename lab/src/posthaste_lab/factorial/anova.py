"""Analysis of variance of one or two factors with any number of levels.

Jain (1991), chapters 20 to 22. F tests whether a factor has any effect; effects with intervals say which. Tests compare
the tables with scipy and statsmodels.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from scipy import stats

from posthaste_lab.checks import FloatArray, figures, fraction, not_too_large, samples, sequence
from posthaste_lab.errors import BadArgument
from posthaste_lab.stats.intervals import Interval
from posthaste_lab.stats.rounding import squares_without_rounding, without_rounding


@dataclass(frozen=True)
class AnovaRow:
    """One line of an analysis of variance. `f` and `p` are NaN where no F test applies."""

    source: str
    sum_squares: float
    degrees_of_freedom: int
    mean_square: float
    variation: float
    f: float = math.nan
    p: float = math.nan


@dataclass(frozen=True, eq=False)
class OneFactor:
    """Analysis of one factor. `effects` are the levels' means less the grand mean; intervals are theirs.

    `differences` has the interval of every pair of levels, first minus second, for one comparison at a time.
    """

    levels: tuple[str, ...]
    grand_mean: float
    effects: dict[str, float]
    intervals: dict[str, Interval]
    differences: dict[tuple[str, str], Interval]
    table: tuple[AnovaRow, ...]
    error_stdev: float
    residuals: tuple[FloatArray, ...] = field(repr=False)

    @property
    def f(self) -> float:
        """The F statistic of the factor."""
        return self.table[0].f

    @property
    def p(self) -> float:
        """The probability of at least this F by chance."""
        return self.table[0].p


@dataclass(frozen=True, eq=False)
class TwoFactor:
    """Analysis of two factors, rows and columns. Effects are differences from the grand mean.

    Without repetitions `interactions` is None, as they cannot be told from error; `notes` says so.
    """

    row_levels: tuple[str, ...]
    column_levels: tuple[str, ...]
    grand_mean: float
    row_effects: dict[str, float]
    column_effects: dict[str, float]
    interactions: FloatArray | None
    row_intervals: dict[str, Interval]
    column_intervals: dict[str, Interval]
    table: tuple[AnovaRow, ...]
    error_stdev: float
    residuals: FloatArray = field(repr=False)
    notes: tuple[str, ...] = ()

    def row(self, source: str) -> AnovaRow:
        """Returns the line of the table for "rows", "columns", "interaction" or "error"."""
        return next(line for line in self.table if line.source == source)


def one_factor(
    responses: Mapping[str, Iterable[float]] | Sequence[Iterable[float]] | FloatArray,
    confidence: float = 0.95,
) -> OneFactor:
    """Analysis of one factor: the responses of each level, in rows or by name; levels may have different numbers.

    Jain (1991), chapter 20. Raises BadArgument for fewer than two levels or no repetition at all.
    """
    given = dict(responses) if isinstance(responses, Mapping) else _numbered(responses)
    groups = {str(name): samples(f"responses[{name!r}]", values) for name, values in given.items()}
    if len(groups) < 2:
        raise BadArgument("responses", list(groups), "must have at least two levels")
    everything = np.concatenate(list(groups.values()))
    freedom = len(everything) - len(groups)
    if freedom < 1:
        raise BadArgument("responses", list(groups), "must repeat at least one level: without error there is no test")
    grand = float(everything.mean())
    effects = {name: without_rounding(float(values.mean()) - grand, everything) for name, values in groups.items()}
    residuals = tuple(values - values.mean() for values in groups.values())
    sse = squares_without_rounding(float(sum(r @ r for r in residuals)), everything)
    ssa = float(sum(len(values) * effects[name] ** 2 for name, values in groups.items()))
    table = _table([("factor", ssa, len(groups) - 1)], sse, freedom)
    s = math.sqrt(sse / freedom)
    t = float(stats.t.ppf((1 + fraction("confidence", confidence)) / 2, freedom))
    n, total = {name: len(values) for name, values in groups.items()}, len(everything)
    return OneFactor(
        levels=tuple(groups),
        grand_mean=grand,
        effects=effects,
        intervals={k: around(e, t * s * math.sqrt(1 / n[k] - 1 / total)) for k, e in effects.items()},
        differences={
            (a, b): around(
                without_rounding(effects[a] - effects[b], everything), t * s * math.sqrt(1 / n[a] + 1 / n[b])
            )
            for a, b in combinations(groups, 2)
        },
        table=table,
        error_stdev=s,
        residuals=residuals,
    )


def two_factor(
    responses: Sequence[Sequence[float]] | Sequence[Sequence[Sequence[float]]] | FloatArray,
    confidence: float = 0.95,
    *,
    row_levels: Sequence[str] | None = None,
    column_levels: Sequence[str] | None = None,
) -> TwoFactor:
    """Analysis of two factors, from a table of rows x columns, or rows x columns x repetitions.

    Jain (1991), chapters 21 (without repetitions) and 22 (with). Raises BadArgument for tables with fewer than two
    levels either way, or with holes (use `general` for unbalanced data).
    """
    y = figures("responses", responses)
    if y.ndim == 2:
        y = y[:, :, None]
    if y.ndim != 3 or min(y.shape[:2]) < 2 or y.shape[2] < 1 or not np.isfinite(y).all():
        raise BadArgument("responses", y.shape, "must be a full table with at least two rows and two columns")
    rows, columns, repetitions = not_too_large("responses", y).shape
    notes: tuple[str, ...] = ()
    names = (_levels("row_levels", row_levels, rows), _levels("column_levels", column_levels, columns))
    grand, cells = float(y.mean()), y.mean(axis=2)
    by_row, by_column = cells.mean(axis=1) - grand, cells.mean(axis=0) - grand
    interaction = cells - grand - by_row[:, None] - by_column[None, :]
    for effects in (by_row, by_column, interaction):
        effects[:] = np.vectorize(lambda effect: without_rounding(effect, y))(effects)
    sources = [
        ("rows", columns * repetitions * float(by_row @ by_row), rows - 1),
        ("columns", rows * repetitions * float(by_column @ by_column), columns - 1),
    ]
    together = (rows - 1) * (columns - 1)
    if repetitions > 1:
        residuals = y - cells[:, :, None]
        sources.append(("interaction", repetitions * float((interaction**2).sum()), together))
        freedom = rows * columns * (repetitions - 1)
    else:
        residuals, freedom = interaction[:, :, None], together
        notes = ("without repetitions, interactions cannot be told from error, and are counted as error",)
    sse = squares_without_rounding(float((residuals**2).sum()), y)
    s = math.sqrt(sse / freedom)
    t = float(stats.t.ppf((1 + fraction("confidence", confidence)) / 2, freedom))
    half_row, half_column = (t * s * math.sqrt((k - 1) / y.size) for k in (rows, columns))
    return TwoFactor(
        row_levels=names[0],
        column_levels=names[1],
        grand_mean=grand,
        row_effects=dict(zip(names[0], by_row.tolist(), strict=True)),
        column_effects=dict(zip(names[1], by_column.tolist(), strict=True)),
        interactions=interaction if repetitions > 1 else None,
        row_intervals={k: around(e, half_row) for k, e in zip(names[0], by_row.tolist(), strict=True)},
        column_intervals={k: around(e, half_column) for k, e in zip(names[1], by_column.tolist(), strict=True)},
        table=_table(sources, sse, freedom),
        error_stdev=s,
        residuals=residuals,
        notes=notes,
    )


def _numbered(responses: Iterable[Iterable[float]]) -> dict[str, Iterable[float]]:
    return {str(i + 1): row for i, row in enumerate(sequence("responses", responses))}


def _levels(argument: str, given: Sequence[str] | None, number: int) -> tuple[str, ...]:
    names = tuple(str(i + 1) for i in range(number)) if given is None else tuple(given)
    if len(set(names)) != number:
        raise BadArgument(argument, names, f"must be {number} different names")
    return names


def around(value: float, half: float) -> Interval:
    """Returns the interval of this half-width around a value."""
    return Interval(value - half, value + half)


def anova_rows(
    sources: Iterable[tuple[str, float, int]], sse: float, freedom: int, total: float
) -> tuple[AnovaRow, ...]:
    """Returns the lines for sources (name, sum of squares, degrees of freedom), and that of the error.

    `total` is the sum of squares of which each has its share of the variation. Without any error every effect is
    certain, and none where there are no squares either.
    """
    mse = sse / freedom
    lines = []
    for source, squares, degrees in sources:
        f = squares / degrees / mse if mse else math.inf if squares else math.nan
        p = float(stats.f.sf(f, degrees, freedom)) if mse else 0.0 if squares else math.nan
        lines.append(AnovaRow(source, squares, degrees, squares / degrees, squares / total if total else 0.0, f, p))
    return (*lines, AnovaRow("error", sse, freedom, mse, sse / total if total else 0.0))


def _table(sources: list[tuple[str, float, int]], sse: float, freedom: int) -> tuple[AnovaRow, ...]:
    """Returns the lines of a balanced design, whose sums of squares add up to the total."""
    return anova_rows(sources, sse, freedom, sum(squares for _, squares, _ in sources) + sse)
