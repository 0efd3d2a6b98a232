"""Analysis of any design, balanced or not, with any numbers of levels: least squares, by statsmodels.

Factors are coded so that their effects add up to zero: with the usual coding (one level as the reference) and
unbalanced data, tests of main effects would answer another question. Sums of squares are of type II: each term after
all others of no higher order.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy import stats

from posthaste_lab.checks import FloatArray, figures, fraction, not_too_large, sequence
from posthaste_lab.errors import BadArgument
from posthaste_lab.factorial.anova import AnovaRow, anova_rows, around
from posthaste_lab.stats.intervals import Interval
from posthaste_lab.stats.rounding import squares_without_rounding, without_rounding


@dataclass(frozen=True, eq=False)
class General:
    """A model fitted by least squares: the table of variance, coefficients with intervals, residuals, fit.

    Coefficients are differences from the mean over levels, named "factor[level]"; that of a factor's last level is
    minus the sum of the others and not listed.
    """

    formula: str
    table: tuple[AnovaRow, ...]
    coefficients: dict[str, float]
    intervals: dict[str, Interval]
    fitted: FloatArray
    residuals: FloatArray
    error_stdev: float
    r_squared: float


def general(
    table: pl.DataFrame | Mapping[str, Sequence[object]],
    response: str,
    factors: Sequence[str],
    interactions: Iterable[tuple[str, ...]] = (),
    confidence: float = 0.95,
) -> General:
    """Fits `response` to `factors`, and to the named interactions, over the rows of a table (one row a run).

    Raises BadArgument for missing columns, responses that are not finite, factors without a level in some row or with
    the same in all, and for models with as many coefficients as runs or with combinations of levels that never occur.
    """
    import pandas as pd  # statsmodels reads its frames
    import statsmodels.formula.api as smf  # slow to load, and only needed here
    from statsmodels.stats.anova import anova_lm

    level = fraction("confidence", confidence)
    frame = table if isinstance(table, pl.DataFrame) else _frame(table)
    factors = [factors] if isinstance(factors, str) else sequence("factors", factors)
    terms = [[name] for name in factors] + [list(together) for together in interactions]
    y = _checked(frame, response, factors, terms)
    safe = {name: f"f{i}" for i, name in enumerate(factors)}
    data: dict[str, object] = {"y": y} | {safe[name]: frame[name].cast(pl.String).to_list() for name in factors}
    formula = "y ~ " + " + ".join(":".join(f"C({safe[name]}, Sum)" for name in term) for term in terms)
    model = smf.ols(formula, pd.DataFrame(data))
    runs, parameters = model.exog.shape
    if runs <= parameters or np.linalg.matrix_rank(model.exog) < parameters:
        raise BadArgument("factors", list(factors), f"{runs} runs cannot tell {parameters} coefficients apart")
    fit = model.fit()

    def readable(text: str) -> str:
        for name, short in safe.items():
            text = text.replace(f"C({short}, Sum)", name)
        return text.replace("[S.", "[")

    squares = {
        readable(str(name)): (squares_without_rounding(max(float(line["sum_sq"]), 0.0), y), int(line["df"]))
        for name, line in anova_lm(fit, typ=2).iterrows()
    }
    sse, freedom = squares.pop("Residual")
    total = squares_without_rounding(float(((y - y.mean()) ** 2).sum()), y)
    coefficients = {readable(name): without_rounding(float(value), y) for name, value in fit.params.items()}
    quantile = float(stats.t.ppf((1 + level) / 2, freedom)) if sse else 0.0
    return General(
        formula=readable(formula).replace("y ~", f"{response} ~"),
        table=anova_rows([(name, *line) for name, line in squares.items()], sse, freedom, total),
        coefficients=coefficients,
        intervals={
            name: around(coefficients[name], quantile * float(error))
            for name, error in zip(coefficients, fit.bse, strict=True)
        },
        fitted=np.asarray(fit.fittedvalues),
        residuals=np.asarray(fit.resid),
        error_stdev=math.sqrt(sse / freedom),
        r_squared=1 - sse / total if total else math.nan,
    )


def _checked(frame: pl.DataFrame, response: str, factors: Sequence[str], terms: Iterable[Sequence[str]]) -> FloatArray:
    """Returns the responses, after checking them, the factors' levels, and that terms are made of factors."""
    if not factors:
        raise BadArgument("factors", factors, "must name a column at least")
    for column in (response, *factors):
        if column not in frame.columns:
            raise BadArgument("factors", column, f"must be a column: {', '.join(frame.columns)}")
    y = figures("response", frame[response].to_list())
    if not np.isfinite(y).all():
        raise BadArgument("response", response, "must be finite in every row")
    not_too_large("response", y)
    for name in factors:
        levels = frame[name].fill_nan(None) if frame[name].dtype.is_float() else frame[name]
        if levels.null_count():  # statsmodels would silently drop such rows
            raise BadArgument("factors", name, "must have a level in every row")
        if levels.n_unique() < 2:
            raise BadArgument("factors", name, "must have two levels at least")
    for name in (name for term in terms for name in term):
        if name not in factors:
            raise BadArgument("interactions", name, f"must be one of {', '.join(factors)}")
    return y


def _frame(table: Mapping[str, Sequence[object]]) -> pl.DataFrame:
    """Returns columns by name as a frame; a column may mix whole and other numbers."""
    try:
        columns = {str(name): list(column) for name, column in dict(table).items()}
        return pl.DataFrame(columns, strict=False)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise BadArgument("table", table, f"must hold columns of one length: {str(error).splitlines()[0]}") from None
