"""Analysis of any design, balanced or not, with any numbers of levels: least squares, by statsmodels.

Factors are coded so that their effects add up to zero: with the usual coding (one level as the reference) and
unbalanced data, tests of main effects would answer another question. Sums of squares are of type II: each term after
all others of no higher order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from posthaste_lab.checks import FloatArray, figures, fraction, sequence
from posthaste_lab.errors import BadArgument
from posthaste_lab.factorial.anova import AnovaRow
from posthaste_lab.stats.intervals import Interval


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
    if not factors:
        raise BadArgument("factors", factors, "must name a column at least")
    for column in (response, *factors):
        if column not in frame.columns:
            raise BadArgument("factors", column, f"must be a column: {', '.join(frame.columns)}")
    y = figures("response", frame[response].to_list())
    if not np.isfinite(y).all():
        raise BadArgument("response", response, "must be finite in every row")
    for name in factors:
        levels = frame[name].fill_nan(None) if frame[name].dtype.is_float() else frame[name]
        if levels.null_count():  # statsmodels would silently drop such rows
            raise BadArgument("factors", name, "must have a level in every row")
        if levels.n_unique() < 2:
            raise BadArgument("factors", name, "must have two levels at least")
    safe = {name: f"f{i}" for i, name in enumerate(factors)}
    data: dict[str, object] = {"y": y} | {safe[name]: frame[name].cast(pl.String).to_list() for name in factors}
    terms = [[name] for name in factors] + [list(together) for together in interactions]
    for term in terms:
        for name in term:
            if name not in safe:
                raise BadArgument("interactions", name, f"must be one of {', '.join(factors)}")
    formula = "y ~ " + " + ".join(":".join(f"C({safe[name]}, Sum)" for name in term) for term in terms)
    model = smf.ols(formula, pd.DataFrame(data))
    runs, coefficients = model.exog.shape
    if runs <= coefficients or np.linalg.matrix_rank(model.exog) < coefficients:
        raise BadArgument(
            "factors",
            list(factors),
            f"{runs} runs cannot tell {coefficients} coefficients apart",
        )
    fit = model.fit()
    squares = anova_lm(fit, typ=2)
    total = float(((y - y.mean()) ** 2).sum())

    def readable(text: str) -> str:
        for name, short in safe.items():
            text = text.replace(f"C({short}, Sum)", name)
        return text.replace("[S.", "[")

    ends = fit.conf_int(1 - level)
    return General(
        formula=readable(formula).replace("y ~", f"{response} ~"),
        table=tuple(_line(readable(str(name)), line, total) for name, line in squares.iterrows()),
        coefficients={readable(name): float(value) for name, value in fit.params.items()},
        intervals={readable(name): Interval(float(e[0]), float(e[1])) for name, e in ends.iterrows()},
        fitted=np.asarray(fit.fittedvalues),
        residuals=np.asarray(fit.resid),
        error_stdev=float(np.sqrt(fit.mse_resid)),
        r_squared=float(fit.rsquared),
    )


def _frame(table: Mapping[str, Sequence[object]]) -> pl.DataFrame:
    """Returns columns by name as a frame; a column may mix whole and other numbers."""
    try:
        columns = {str(name): list(column) for name, column in dict(table).items()}
        return pl.DataFrame(columns, strict=False)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise BadArgument("table", table, f"must hold columns of one length: {str(error).splitlines()[0]}") from None


def _line(source: str, line: Mapping[str, float], total: float) -> AnovaRow:
    squares, degrees = float(line["sum_sq"]), int(line["df"])
    name = "error" if source == "Residual" else source
    share = squares / total if total else 0.0
    return AnovaRow(name, squares, degrees, squares / degrees, share, float(line["F"]), float(line["PR(>F)"]))
