"""Effects of a 2^k r design, full or fractional: sizes, shares of variation, intervals, residuals, advice.

Importance (the share of variation) and significance (an interval without zero) are different, so both are always
given; without repetitions there is no estimate of the error, and a note says so. Jain (1991), chapters 17 to 19; the
tests have the numbers of its examples, and compare formulas with statsmodels.

Repetitions of all cells in turn are blocks: an effect of a block on all its runs is removed from the error of effects
(Montgomery, Design and Analysis of Experiments, section 7.2). The error of the mean consists of nothing else.
"""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy import stats

from posthaste_lab.checks import SAMPLE_MAX, FloatArray, count, figures, fraction, not_too_large, number, sequence
from posthaste_lab.errors import BadArgument
from posthaste_lab.factorial.advice import advise
from posthaste_lab.factorial.design import Signs, collect
from posthaste_lab.factorial.lenth import EFFECTS_LEAST, standing_out
from posthaste_lab.factorial.words import all_effects, factor_names, label
from posthaste_lab.stats.intervals import Interval, mean_interval
from posthaste_lab.stats.rounding import squares_without_rounding, without_rounding

FACTORS_MAX = 12  # factors of an analysis: 4,096 effects
LOG_MOST = math.log(sys.float_info.max)
OTHER_SHARES = ("repetitions", "error")
Transform = Literal["none", "log", "reciprocal"]
FORWARD: dict[str, Callable[[FloatArray], FloatArray]] = {
    "none": lambda y: y,
    "log": lambda y: np.log(y),
    "reciprocal": lambda y: 1 / y,
}
BACKWARD: dict[str, Callable[[float], float]] = {
    "none": lambda y: y,
    "log": lambda y: math.exp(y) if y < LOG_MOST else math.inf,
    "reciprocal": lambda y: 1 / y,
}


@dataclass(frozen=True)
class Contrast:
    """A combination of effects with its interval (infinite without repetitions). Unpacks to (low, high)."""

    value: float
    low: float
    high: float

    @property
    def significant(self) -> bool:
        """Whether zero lies outside the interval."""
        return not self.low <= 0 <= self.high

    def __iter__(self) -> Iterator[float]:
        """The two ends."""
        return iter((self.low, self.high))


@dataclass(frozen=True)
class Prediction:
    """A predicted response with its interval, in the unit of the responses. Unpacks to (low, high).

    With a transform the interval is symmetric on the transformed scale, and therefore not in this unit.
    """

    mean: float
    low: float
    high: float

    def __iter__(self) -> Iterator[float]:
        """The two ends."""
        return iter((self.low, self.high))


@dataclass(frozen=True, eq=False)
class Effects:
    """The analysis of a 2^k r (or 2^(k-p) r) design. Effects are named "I" (the mean), "A", "A:B", ….

    `effects` are q of the -1/+1 model, half of the change from low to high level, on the transformed scale.
    `variation` is the share of each in the total sum of squares `sst` (without the mean), and that of "error", and of
    "repetitions" if these are blocks. `blocks` is then what each repetition adds to every cell, else None.
    `standard_error` is that of any effect, `intervals` and `significant` follow from it; all three are empty or NaN
    without repetitions. With blocks the mean has an interval of its own, Student's over blocks.
    `residuals` (cells x repetitions), `fitted` (of cells) and `sse` are on the transformed scale.
    `multipliers` (log only) are exp(2q): the factor by which the response grows from low to high; of an interaction,
    from unlike levels to like ones. `advice` says whether an additive or a multiplicative model fits these responses,
    and why. `notes` hold what a reader must know.
    """

    names: tuple[str, ...]
    transform: Transform
    confidence: float
    signs: Signs = field(repr=False)
    responses: FloatArray = field(repr=False)
    effects: dict[str, float]
    variation: dict[str, float]
    standard_error: float
    degrees_of_freedom: int
    intervals: dict[str, Interval]
    significant: dict[str, bool]
    residuals: FloatArray = field(repr=False)
    fitted: FloatArray = field(repr=False)
    blocks: FloatArray | None = field(repr=False)
    mean: float
    sse: float
    sst: float
    aliases: dict[str, tuple[str, ...]] = field(repr=False)
    advice: str
    notes: tuple[str, ...]

    @property
    def multipliers(self) -> dict[str, float]:
        """The factor by which each effect multiplies the response from its low to its high level; only with "log"."""
        if self.transform != "log":
            raise BadArgument("transform", self.transform, 'has multipliers only as "log"')
        return {name: math.exp(2 * q) for name, q in self.effects.items() if name != "I"}

    @property
    def error_stdev(self) -> float:
        """Standard deviation of one observation around its cell (and block), on the transformed scale."""
        return math.sqrt(self.sse / self.degrees_of_freedom) if self.degrees_of_freedom else math.nan

    def contrast(self, weights: Mapping[str, float]) -> Contrast:
        """Returns the sum of weight times effect with its interval; {"A": 1, "B": -1} tests whether A exceeds B.

        Jain (1991), chapter 18; the weights need not add up to zero.
        """
        if not isinstance(weights, Mapping):
            raise BadArgument("weights", weights, 'must give effects their weights, as in {"A": 1, "B": -1}')
        for name in weights:
            self._must_have(name)
        value = sum(number(f"weights[{name!r}]", w) * self.effects[name] for name, w in weights.items())
        value = without_rounding(value, FORWARD[self.transform](self.responses) * sum(map(abs, weights.values())))
        return self._with_error(value, self._half(weights, 1 / self.responses.shape[1]))

    def predict(self, cell: Sequence[float] | Mapping[str, float], future: int | None = None) -> Prediction:
        """Returns the response of a cell, given as its signs, with the interval of its mean, or of `future` runs' mean.

        `future=1` gives the interval of the next single run. Every effect is used, so the cell's own mean is predicted,
        with variance s^2 (1/r + 1/future): Jain (1991), chapter 18, checked against statsmodels. With blocks, s is
        the standard deviation of that cell between blocks, and each of the `future` runs is in a block of its own.
        """
        x = self._cell(cell)
        weights = {name: self._column(name, x) for name in self.effects}
        value = sum(q * weights[name] for name, q in self.effects.items())
        repetitions = self.responses.shape[1]
        spread = 1 / repetitions + (1 / count("future", future) if future is not None else 0.0)
        low, high = self._with_error(value, self._half(weights, spread))
        back = BACKWARD[self.transform]
        if self.transform == "reciprocal":
            ends = (math.inf if low <= 0 else back(low), math.inf if high <= 0 else back(high))
            return Prediction(back(value), min(ends), max(ends))
        return Prediction(
            back(value),
            -math.inf if math.isinf(low) else back(low),
            math.inf if math.isinf(high) else back(high),
        )

    def _with_error(self, value: float, half: float) -> Contrast:
        wide = math.inf if math.isnan(half) else half
        return Contrast(value, value - wide, value + wide)

    def _half(self, weights: Mapping[str, float], spread: float) -> float:
        """Returns the interval's half-width for a weighted sum of effects.

        Its variance is `spread` times that of the sum in one repetition.
        """
        cells, repetitions = self.responses.shape
        freedom, stdev = self.degrees_of_freedom, self.error_stdev
        stdev *= math.sqrt(sum(w * w for w in weights.values()) / cells)
        if self.blocks is not None and weights.get("I") and repetitions > 1:
            each = np.array([sum(w * self._column(name, x) for name, w in weights.items()) for x in self.signs]) / cells
            freedom, stdev = repetitions - 1, float((each @ FORWARD[self.transform](self.responses)).std(ddof=1))
        return _t(self.confidence, freedom) * stdev * math.sqrt(spread)

    def _must_have(self, name: str) -> None:
        if name not in self.effects:
            raise BadArgument("weights", name, f"must be one of {', '.join(self.effects)}")

    def _cell(self, cell: Sequence[float] | Mapping[str, float]) -> FloatArray:
        values = (
            [cell.get(name, math.nan) for name in self.names] if isinstance(cell, Mapping) else sequence("cell", cell)
        )
        x = figures("cell", values)
        if x.shape != (len(self.names),) or np.any(np.abs(x) != 1):
            raise BadArgument("cell", cell, f"must give -1 or +1 for each of {', '.join(self.names)}")
        if not (self.signs == x).all(axis=1).any():
            raise BadArgument("cell", cell, "was not run in this fraction, and its response is aliased with others")
        return x

    def _column(self, name: str, x: FloatArray) -> float:
        chosen = [] if name == "I" else [self.names.index(part) for part in name.split(":")]
        return float(np.prod(x[chosen]))


def analyze(
    signs: Sequence[Sequence[int]] | Signs,
    responses: Sequence[Sequence[float]] | Sequence[float] | FloatArray,
    names: Iterable[str] | None = None,
    transform: Transform = "none",
    confidence: float = 0.95,
    *,
    blocked: bool = False,
) -> Effects:
    """Analyzes a 2^k r design: `signs` are cells x factors of -1/+1, `responses` cells x repetitions.

    `transform` selects the model: "none" additive, "log" multiplicative (natural logarithms; the mean is a geometric
    one), "reciprocal" additive in 1/y, as rates add where times do not. In a fraction each effect stands for its whole
    set of aliases. Equal rows of `signs`, with one response each, are repetitions, as in a `design` with replications.
    With `blocked`, each column of responses is a block: its cells were run in turn, as those of experiments are, and
    not all runs in one random order, as in the books' 2^k r designs.

    Raises BadArgument for signs that are no balanced design of two levels, for responses that do not fit, and for zero
    or negative ones where the transform does not allow them.
    """
    table, given = _each_cell_once(_signs(signs), responses)
    if len(table) & (len(table) - 1) or len(table) < 2:
        raise BadArgument("signs", len(table), "must have 2, 4, 8, … rows, one for each cell (see collect)")
    named = factor_names(names if names is not None else table.shape[1], "names")
    if len(named) != table.shape[1]:
        raise BadArgument("names", named, f"must name the {table.shape[1]} factors")
    if any(":" in name for name in named):
        raise BadArgument("names", named, 'must not contain ":", which joins factors')
    if any(name in OTHER_SHARES for name in named):
        raise BadArgument("names", named, f"must not contain {' or '.join(OTHER_SHARES)}, which have shares too")
    given = _responses(given, len(table))
    y = _transformed(given, transform)
    columns, sets = _columns(table, named)
    confidence, (cells, repetitions) = fraction("confidence", confidence), y.shape
    means = y.mean(axis=1)
    q = {name: without_rounding(float(column @ means) / cells, y) for name, column in columns.items()}
    blocks = y.mean(axis=0) - y.mean() if blocked else None
    residuals = y - means[:, None] - (0.0 if blocks is None else blocks)
    sse = squares_without_rounding(float((residuals**2).sum()), y)
    sst = squares_without_rounding(float(((y - y.mean()) ** 2).sum()), y)
    freedom = (cells if blocks is None else cells - 1) * (repetitions - 1)
    error = math.sqrt(sse / freedom / y.size) if freedom else math.nan
    half = _t(confidence, freedom) * error
    intervals = {name: Interval(value - half, value + half) for name, value in q.items()} if freedom else {}
    squares = {name: y.size * value**2 for name, value in q.items() if name != "I"}
    if blocks is not None and freedom:
        intervals["I"] = Interval(*mean_interval(y.mean(axis=0), confidence))
        squares["repetitions"] = cells * float(blocks @ blocks)
    return Effects(
        names=tuple(named),
        transform=transform,
        confidence=confidence,
        signs=table,
        responses=given,
        effects=q,
        variation={name: each / sst if sst else 0.0 for name, each in (squares | {"error": sse}).items()},
        standard_error=error,
        degrees_of_freedom=freedom,
        intervals=intervals,
        significant={name: not interval.holds(0.0) for name, interval in intervals.items()},
        residuals=residuals,
        fitted=means,
        blocks=blocks,
        mean=q["I"],
        sse=sse,
        sst=sst,
        aliases=sets,
        advice=advise(given, {name: column for name, column in columns.items() if name != "I"}, blocked=blocked),
        notes=_notes(q, table.shape[1], repetitions, confidence),
    )


def _each_cell_once(table: Signs, responses: object) -> tuple[Signs, FloatArray]:
    """Returns each cell once; equal rows, as in a design with replications, are joined by `collect`."""
    values = figures("responses", responses)
    if len(values.shape) > 2 or values.size != len(table) or len(np.unique(table, axis=0)) == len(table):
        return table, values
    try:
        return collect(table, values.ravel())
    except BadArgument as error:
        raise BadArgument("signs", error.value, error.rule) from None


def _t(confidence: float, freedom: int) -> float:
    return float(stats.t.ppf((1 + confidence) / 2, freedom)) if freedom else math.nan


def _signs(signs: Sequence[Sequence[int]] | Signs) -> Signs:
    table = figures("signs", signs)
    if table.ndim != 2 or 0 in table.shape:
        raise BadArgument("signs", table.shape, "must be a table, cells in rows and factors in columns")
    if not np.isin(table, (-1, 1)).all():
        raise BadArgument("signs", np.setdiff1d(table, (-1, 1)).tolist(), "must hold -1 and +1 only")
    return table.astype(np.int64)


def _responses(responses: object, cells: int) -> FloatArray:
    given = figures("responses", responses)
    if given.ndim == 1:
        given = given[:, None]
    if given.ndim != 2 or given.shape[0] != cells or given.shape[1] == 0:
        raise BadArgument("responses", given.shape, f"must have a row for each of the {cells} cells")
    if not np.isfinite(given).all():
        raise BadArgument(
            "responses",
            float(given[~np.isfinite(given)][0]),
            "must be finite: the sign table needs every cell",
        )
    return not_too_large("responses", given)


def _transformed(given: FloatArray, transform: str) -> FloatArray:
    if not isinstance(transform, str) or transform not in FORWARD:
        raise BadArgument("transform", transform, f"must be one of {', '.join(FORWARD)}")
    if transform != "none" and given.min() <= 0:
        raise BadArgument("responses", float(given.min()), f'must be above 0 for transform="{transform}"')
    if transform == "reciprocal" and given.min() < 1 / SAMPLE_MAX:
        raise BadArgument("responses", float(given.min()), f"must be at least {1 / SAMPLE_MAX:g} to be inverted")
    return FORWARD[transform](given)


def _columns(table: Signs, names: list[str]) -> tuple[dict[str, Signs], dict[str, tuple[str, ...]]]:
    """Returns one column for each set of aliased effects, named by its simplest member; and the members of each set."""
    if table.shape[1] > FACTORS_MAX:
        raise BadArgument("signs", table.shape, f"must have at most {FACTORS_MAX} factors")
    columns: dict[bytes, str] = {}
    result: dict[str, Signs] = {}
    sets: dict[str, list[str]] = {}
    for effect in all_effects(table.shape[1]):
        column, name = table[:, sorted(effect)].prod(axis=1), label(effect, names)
        key = (column * column[0]).tobytes()
        if key not in columns:
            columns[key], result[name], sets[name] = name, column, []
        else:
            sign = "" if np.array_equal(column, result[columns[key]]) else "-"
            sets[columns[key]].append(sign + name)
    matrix = np.array(list(result.values()))
    if len(matrix) != len(table) or not np.array_equal(
        matrix @ matrix.T, len(table) * np.eye(len(table), dtype=np.int64)
    ):
        raise BadArgument("signs", table.tolist(), "is no full or regular fractional design: use general() for it")
    if any(len(label_.split(":")) == 1 and label_.lstrip("-") in names for label_ in sets["I"]):
        raise BadArgument("signs", table.tolist(), "has a factor that never changes")
    return result, {name: tuple(members) for name, members in sets.items() if members}


def _notes(q: dict[str, float], factors: int, repetitions: int, confidence: float) -> tuple[str, ...]:
    notes = []
    if repetitions == 1:
        notes.append("no error term: without repetitions nothing can be said to be significant; run each cell again")
        if len(q) > EFFECTS_LEAST:
            notes.append(standing_out(q, confidence))
    if len(q) < 2**factors:
        notes.append(f"a fraction of 1/{2**factors // len(q)}: every effect includes those it is aliased with")
    return tuple(notes)
