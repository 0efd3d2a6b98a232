"""Merges summaries of several runs to one.

Percentiles cannot be merged: the mean of two p99 is the p99 of nothing. Merge histograms instead.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from posthaste_lab.checks import count, samples, sequence
from posthaste_lab.errors import BadArgument
from posthaste_lab.stats.rounding import without_rounding


@dataclass(frozen=True)
class MergedRuns:
    """All samples of several runs together, and the origin of their spread.

    `stdev` is that of all samples together. `within_stdev` is the root of the mean variance inside runs, which some
    reports wrongly print as an error bar. `between_stdev` is that of the runs' means, which an interval is made of.
    """

    mean: float
    stdev: float
    count: int
    runs: int
    within_stdev: float
    between_stdev: float


def merge_runs(means: Iterable[float], stdevs: Iterable[float], counts: Iterable[int]) -> MergedRuns:
    """Merges runs of which only mean, standard deviation (n-1) and number of samples are known.

    By the law of total variance the result is exactly that of all samples together. Raises BadArgument when the three
    arguments have different lengths, or a count is below 1.
    """
    m, s = samples("means", means), samples("stdevs", stdevs)
    n = np.array([count("counts", each) for each in sequence("counts", counts)], dtype=np.float64)
    if not len(m) == len(s) == len(n):
        raise BadArgument("counts", n.tolist(), f"must fit {len(m)} means and {len(s)} standard deviations")
    if np.any(s < 0):
        raise BadArgument("stdevs", float(s.min()), "must not be negative")
    total = n.sum()
    mean = float(np.clip(n @ m / total, m.min(), m.max()))  # that of equal figures is theirs
    squares = float((n - 1) @ s**2 + n @ (m - mean) ** 2)
    within_freedom = (n - 1).sum()
    stdev = math.sqrt(squares / (total - 1)) if total > 1 else 0.0
    within = math.sqrt(float((n - 1) @ s**2) / within_freedom) if within_freedom > 0 else 0.0
    between = float(m.std(ddof=1)) if len(m) > 1 else 0.0
    return MergedRuns(
        mean=mean,
        stdev=without_rounding(stdev, m),
        count=int(total),
        runs=len(m),
        within_stdev=without_rounding(within, m),
        between_stdev=without_rounding(between, m),
    )
