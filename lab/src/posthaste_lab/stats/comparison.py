"""Comparison of two systems: the interval of the difference says whether it is real, and how large.

Student's interval takes means for normal, which those of few skewed samples are not: the bootstrap's does not, but
needs more of them. The effect size lays the difference beside the spread within the systems.
"""

import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import stats
from scipy.special import gammaln

from posthaste_lab.checks import FloatArray, fraction, samples
from posthaste_lab.errors import BadArgument
from posthaste_lab.stats.intervals import Interval
from posthaste_lab.stats.rounding import without_rounding

BOOTSTRAP_LEAST = 8  # samples of each system: of fewer there are too few ways to draw, and intervals are too narrow
RESAMPLES = 9_999
DRAWN_AT_ONCE = 10_000_000  # figures of resamples in memory


@dataclass(frozen=True)
class Comparison:
    """The difference of two means, a - b, with its interval. Unpacks to (low, high).

    `significant` says that the interval does not hold zero; `relative` is the difference over the mean of b (NaN where
    that is 0); `p_value` is two-sided. `effect_size` is Hedges' g: the difference in standard deviations within the
    systems, pooled and corrected for few samples (Journal of Educational Statistics 6, 1981); NaN where nothing varies.
    """

    difference: float
    low: float
    high: float
    p_value: float
    confidence: float
    degrees_of_freedom: float
    relative: float
    method: str
    effect_size: float = math.nan
    _samples: tuple[FloatArray, ...] = field(default=(), repr=False, compare=False)

    @cached_property
    def bootstrap(self) -> Interval | None:
        """The bootstrap's interval of the difference (BCa); None with fewer than 8 samples, or where nothing varies.

        Efron, Journal of the American Statistical Association 82 (1987). Always drawn with the same random numbers.
        """
        if min(map(len, self._samples), default=0) < BOOTSTRAP_LEAST or self.low == self.high:
            return None
        found = stats.bootstrap(
            self._samples,
            _difference_of_means,
            n_resamples=RESAMPLES,
            batch=max(1, DRAWN_AT_ONCE // max(map(len, self._samples))),
            confidence_level=self.confidence,
            method="BCa",
            rng=np.random.default_rng(0),
        ).confidence_interval
        return Interval(float(found.low), float(found.high))

    @property
    def significant(self) -> bool:
        """Whether zero lies outside the interval."""
        return not self.low <= 0 <= self.high

    def __iter__(self) -> Iterator[float]:
        """The two ends."""
        return iter((self.low, self.high))


def compare_paired(a: Iterable[float], b: Iterable[float], confidence: float = 0.95) -> Comparison:
    """Mean of a - b where the samples belong together pairwise (the same day, seed or workload).

    Student's interval of the differences: Jain (1991), section 13.4.1. Raises BadArgument for samples of different
    lengths or fewer than 2 pairs.
    """
    first, second = samples("a", a, least=2), samples("b", b, least=2)
    if len(first) != len(second):
        raise BadArgument("b", len(second), f"must have as many samples as a, {len(first)}: they are pairs")
    constant = without_rounding(float((first - second).std()), np.concatenate([first, second])) == 0
    with _quiet():
        test = None if constant else stats.ttest_rel(first, second)
    return _comparison(first, second, test, len(first) - 1, confidence, "paired t", (first - second,))


def compare_means(a: Iterable[float], b: Iterable[float], confidence: float = 0.95) -> Comparison:
    """Mean of a minus mean of b, for independent samples.

    Welch's interval, which does not assume equal variances: Biometrika 34 (1947); Jain (1991), section
    13.4.2. Raises BadArgument for fewer than 2 samples of either.
    """
    first, second = samples("a", a, least=2), samples("b", b, least=2)
    spread = max(float(first.std()), float(second.std()))
    constant = without_rounding(spread, np.concatenate([first, second])) == 0
    with _quiet():
        test = None if constant else stats.ttest_ind(first, second, equal_var=False)
    return _comparison(first, second, test, len(first) + len(second) - 2, confidence, "Welch t", (first, second))


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses scipy's warning about equal figures: a sample may be constant, and then its variance is 0."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Precision loss", RuntimeWarning)
        yield


def _comparison(
    first: FloatArray,
    second: FloatArray,
    test: object,
    freedom: float,
    confidence: float,
    method: str,
    drawn: tuple[FloatArray, ...],
) -> Comparison:
    level = fraction("confidence", confidence)
    difference = without_rounding(float(first.mean() - second.mean()), np.concatenate([first, second]))
    base = float(second.mean())
    low = high = difference
    p_value = 1.0 if difference == 0 else 0.0
    if test is not None:  # without any spread there is nothing to test
        ends = test.confidence_interval(level)  # type: ignore[attr-defined]
        low, high, p_value = float(ends.low), float(ends.high), float(test.pvalue)  # type: ignore[attr-defined]
        freedom = float(test.df)  # type: ignore[attr-defined]
    relative = difference / base if base else math.nan
    effect = _hedges(first, second, difference)
    return Comparison(difference, low, high, p_value, level, freedom, relative, method, effect, drawn)


def _hedges(first: FloatArray, second: FloatArray, difference: float) -> float:
    freedom = len(first) + len(second) - 2
    squares = (len(first) - 1) * float(first.var(ddof=1)) + (len(second) - 1) * float(second.var(ddof=1))
    pooled = without_rounding(math.sqrt(squares / freedom), np.concatenate([first, second]))
    if pooled == 0:
        return math.nan
    bias = math.exp(float(gammaln(freedom / 2) - gammaln((freedom - 1) / 2))) / math.sqrt(freedom / 2)
    return bias * difference / pooled


def _difference_of_means(*drawn: FloatArray, axis: int = -1) -> FloatArray:
    """Returns the mean of the first less that of the second; of differences of pairs, their mean."""
    means = [each.mean(axis=axis) for each in drawn]
    return np.asarray(means[0] if len(means) == 1 else means[0] - means[1])
