"""Confidence intervals: of a mean, a proportion, a percentile; and how many samples one needs.

Each is the classical one that keeps its promise in the cases that performance work meets: few runs (Student, not
the normal law), rare errors (Wilson, which does not answer 0 +- 0), far percentiles (order statistics, which admit
that a hundred requests know nothing of a p99.9).
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

SAMPLES_MAX = 1e18
"""More than anybody takes: what asks for them is a slip."""


class Interval(NamedTuple):
    """Two ends. Infinite where the data leave that side open."""

    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the distance between the ends."""
        return (self.high - self.low) / 2

    def holds(self, value: float) -> bool:
        """Whether a value lies within, ends included."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class MeanInterval:
    """A mean and where the true one is, with the given confidence. Unpacks to (low, high)."""

    mean: float
    low: float
    high: float
    stdev: float
    n: int
    confidence: float

    @property
    def half_width(self) -> float:
        """What is written behind +-."""
        return (self.high - self.low) / 2

    def __iter__(self) -> Iterator[float]:
        """The two ends."""
        return iter((self.low, self.high))


@dataclass(frozen=True)
class ProportionInterval:
    """A share and where the true one is. Unpacks to (low, high)."""

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
    """A percentile and where the true one is. Unpacks to (low, high).

    An end that no order statistic reaches with this confidence is infinite; then `enough` is false, `needed` is the
    least number of independent samples that would give both ends, and `note` says so in words.
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

    mean +- t[1-a/2; n-1] s/sqrt(n): Jain (1991), section 13.2. Not for the requests or seconds of one run, which
    resemble their neighbors: use `batch_means` there. Raises BadArgument for fewer than 2 samples.
    """
    values = checked("samples", samples, least=2)
    level = fraction("confidence", confidence)
    mean, stdev = float(values.mean()), float(values.std(ddof=1))
    half = float(stats.t.ppf((1 + level) / 2, len(values) - 1)) * stdev / math.sqrt(len(values))
    return MeanInterval(mean, mean - half, mean + half, stdev, len(values), level)


def proportion_interval(successes: int, n: int, confidence: float = 0.95) -> ProportionInterval:
    """Wilson's interval of a share: `successes` of `n`.

    Right for no failures in many tries, where the common p +- z sqrt(p(1-p)/n) answers a width of 0. Wilson, JASA
    22 (1927), as scipy has it. Raises BadArgument for more successes than tries.
    """
    total, hits = count("n", n), count("successes", successes, least=0)
    if hits > total:
        raise BadArgument("successes", successes, f"must not exceed n = {n}")
    level = fraction("confidence", confidence)
    ends = stats.binomtest(hits, total).proportion_ci(level, method="wilson")
    return ProportionInterval(hits / total, float(ends.low), float(ends.high), hits, total, level)


def percentile_interval(samples: Iterable[float], q: float, confidence: float = 0.95) -> PercentileInterval:
    """A percentile (95 and 0.95 mean the same) with the interval that order statistics give.

    Assumes nothing about the law, only independent samples; the value itself is interpolated linearly between
    order statistics. Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2; Hahn and Meeker, Statistical
    Intervals, section 5.2. Coverage is at least `confidence`.
    """
    values = checked("samples", samples)
    share, level = quantile("q", q), fraction("confidence", confidence)
    outside = (1 - level) / 2
    ends = stats.quantile_test(values, p=share).confidence_interval(level)
    low = -math.inf if math.isnan(ends.low) else float(ends.low)
    high = math.inf if math.isnan(ends.high) else float(ends.high)
    needed = max(math.ceil(math.log(outside) / math.log(share)), math.ceil(math.log(outside) / math.log1p(-share)))
    enough = math.isfinite(low) and math.isfinite(high)
    if not enough:  # of a median with a confidence of 1/2, 3/4, …, where so many are just too few
        needed = max(needed, len(values) + 1)
    note = (
        ""
        if enough
        else (
            f"not enough samples: {len(values)} of the {needed} that the {share * 100:g}th percentile needs for a "
            f"two-sided {level * 100:g} % interval"
        )
    )
    return PercentileInterval(
        float(np.quantile(values, share)), low, high, share, len(values), level, enough, needed, note
    )


def sample_size(
    mean: float, stdev: float, relative_error: float, confidence: float = 0.95, *, student: bool = False
) -> int:
    """How many samples give an interval of +- `relative_error` (0.05 is 5 %) of the mean.

    (z s / (r x))^2, rounded up: Jain (1991), section 13.9.1, for a standard deviation that is known well. With
    `student`, the t law stands for z, which is what an interval over that many samples will really use: ask for it
    when the answer is below 30. At least 2.
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
