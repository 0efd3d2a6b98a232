"""Estimates from samples, with their uncertainty. The unit of replication is a run: its requests are not independent.

Each function names its method. Where a sample is too small for an answer, the answer says so.
"""

from posthaste_lab.stats.comparison import Comparison, compare_means, compare_paired
from posthaste_lab.stats.intervals import (
    Interval,
    MeanInterval,
    PercentileInterval,
    ProportionInterval,
    mean_interval,
    percentile_interval,
    proportion_interval,
    sample_size,
)
from posthaste_lab.stats.merging import MergedRuns, merge_runs
from posthaste_lab.stats.scalability import UslFit, usl_fit
from posthaste_lab.stats.series import BatchMeans, WarmUp, batch_means, mser5, trim
from posthaste_lab.stats.steadiness import ChangePoints, Trend, change_points, trend

__all__ = [
    "BatchMeans",
    "ChangePoints",
    "Comparison",
    "Interval",
    "MeanInterval",
    "MergedRuns",
    "PercentileInterval",
    "ProportionInterval",
    "Trend",
    "UslFit",
    "WarmUp",
    "batch_means",
    "change_points",
    "compare_means",
    "compare_paired",
    "mean_interval",
    "merge_runs",
    "mser5",
    "percentile_interval",
    "proportion_interval",
    "sample_size",
    "trend",
    "trim",
    "usl_fit",
]
