"""Confidence intervals of a mean, a proportion and a percentile; and the number of samples needed.

Each is the classical one that holds in the cases of performance work: few runs (Student, not the normal distribution),
rare errors (Wilson, which does not give 0 +- 0), and far percentiles (order statistics, which show that a hundred
requests say nothing about a p99.9).
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from posthaste_lab.checks import count, fraction, number, positive, quantile
from posthaste_lab.checks import samples as checked
from posthaste_lab.errors import BadArgument
from posthaste_lab.stats.rounding import mean_without_rounding, without_rounding

SAMPLES_MAX = 1e18
"""More than anybody takes: what asks for them is a slip."""


class Interval(NamedTuple):
    """The two ends of an interval. An end is infinite where the data do not bound that side."""

    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the distance between the ends."""
        return (self.high - self.low) / 2

    def holds(self, value: float) -> bool:
        """Returns whether a value lies within the interval, ends included."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class MeanInterval:
    """A mean with the interval that holds the true one with the given confidence. Unpacks to (low, high)."""

    mean: float
    low: float
    high: float
    stdev: float
    n: int
    confidence: float

    @property
    def half_width(self) -> float:
        """Half of the interval, as written after +-."""
        return (self.high - self.low) / 2

    def __iter__(self) -> Iterator[float]:
        """The two ends."""
        return iter((self.low, self.high))


@dataclass(frozen=True)
class ProportionInterval:
    """A share with the interval of the true one. Unpacks to (low, high)."""

    proportion: float
    low: float
    high: float
    successes: int
    n: int
    confidence: float

    def __iter__(self) -> Iterator[float]:
        """The two ends."""
        return iter((self.low, self.high))


@dataclass(frozen=True)
class PercentileInterval:
    """A percentile with the interval of the true one. Unpacks to (low, high).

    An end that no order statistic reaches with this confidence is infinite. Then `enough` is false, and `note` says so
    in words. `needed` is the least number of independent samples that gives both ends.
    """

    value: float
    low: float
    high: float
    q: float
    n: int
    confidence: float
    enough: bool
    needed: int
    note: str

    def __iter__(self) -> Iterator[float]:
        """The two ends."""
        return iter((self.low, self.high))


def mean_interval(samples: Iterable[float], confidence: float = 0.95) -> MeanInterval:
    """Student's interval of the mean of independent samples, usually one figure for each run.

    mean +- t[1-a/2; n-1] s/sqrt(n): Jain (1991), section 13.2. Not for the requests or seconds of one run, which are
    correlated: use `batch_means` for them. Raises BadArgument for fewer than 2 samples.
    """
    values = checked("samples", samples, least=2)
    level = fraction("confidence", confidence)
    mean, stdev = mean_without_rounding(values), without_rounding(float(values.std(ddof=1)), values)
    half = float(stats.t.ppf((1 + level) / 2, len(values) - 1)) * stdev / math.sqrt(len(values))
    return MeanInterval(mean, mean - half, mean + half, stdev, len(values), level)


def proportion_interval(successes: int, n: int, confidence: float = 0.95) -> ProportionInterval:
    """Wilson's interval of a share: `successes` of `n`.

    It is right for no failures in many tries, where the common p +- z sqrt(p(1-p)/n) has a width of 0. Wilson, JASA
    22 (1927), as scipy computes it. Raises BadArgument for more successes than tries.
    """
    total, hits = count("n", n), count("successes", successes, least=0)
    if hits > total:
        raise BadArgument("successes", successes, f"must not exceed n = {n}")
    level = fraction("confidence", confidence)
    ends = stats.binomtest(hits, total).proportion_ci(level, method="wilson")
    return ProportionInterval(hits / total, float(ends.low), float(ends.high), hits, total, level)


def percentile_interval(samples: Iterable[float], q: float, confidence: float = 0.95) -> PercentileInterval:
    """A percentile with the interval that order statistics give.

    `q` is in percent from 1 up, and a fraction below 1: 95 and 0.95 mean the same, 1 is the first percentile.
    Assumes independent samples, but no distribution; the value itself is interpolated linearly between
    order statistics, but never outside the interval. Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2;
    Hahn and Meeker, Statistical Intervals, section 5.2. Coverage is at least `confidence`.
    """
    values = checked("samples", samples)
    share, level = quantile("q", q), fraction("confidence", confidence)
    outside = (1 - level) / 2
    ends = stats.quantile_test(values, p=share).confidence_interval(level)
    low = -math.inf if math.isnan(ends.low) else float(ends.low)
    high = math.inf if math.isnan(ends.high) else float(ends.high)
    needed = max(math.ceil(math.log(outside) / math.log(share)), math.ceil(math.log(outside) / math.log1p(-share)))
    enough = math.isfinite(low) and math.isfinite(high)
    if not enough:  # for a median with a confidence of 1/2, 3/4, … this number is just too small
        needed = max(needed, len(values) + 1)
    note = (
        ""
        if enough
        else (
            f"not enough samples: {len(values)} of the {needed} that the {share * 100:g}th percentile needs for a "
            f"two-sided {level * 100:g} % interval"
        )
    )
    # Of few samples the interpolated value may lie below an order statistic that is the interval's end.
    value = min(max(float(np.quantile(values, share)), low), high)
    return PercentileInterval(value, low, high, share, len(values), level, enough, needed, note)


def sample_size(
    mean: float, stdev: float, relative_error: float, confidence: float = 0.95, *, student: bool = False
) -> int:
    """Returns how many samples give an interval of +- `relative_error` (0.05 is 5 %) of the mean; at least 2.

    (z s / (r x))^2, rounded up: Jain (1991), section 13.9.1, for a standard deviation that is known well. With
    `student`, t replaces z, as in the interval of that many samples: use it when the answer is below 30.
    """
    center = abs(number("mean", mean))
    if center == 0:
        raise BadArgument("mean", mean, "must not be 0: no error is relative to it")
    spread, error = positive("stdev", stdev), positive("relative_error", relative_error)
    level = fraction("confidence", confidence)
    wanted = error * center
    scale = spread / wanted if wanted > 0 else math.inf
    normal = float(stats.norm.ppf((1 + level) / 2)) * scale
    if normal > SAMPLES_MAX**0.5:
        raise BadArgument("relative_error", relative_error, "would take more samples than anybody takes (10^18)")
    n = max(2, math.ceil(normal**2 - 1e-9))
    if student:
        while float(stats.t.ppf((1 + level) / 2, n - 1)) * scale > math.sqrt(n):
            n += 1
    return n
