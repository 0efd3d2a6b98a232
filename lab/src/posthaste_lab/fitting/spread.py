"""Intervals over repetitions: each repetition has a model of its own, and their spread is the uncertainty."""

from collections.abc import Sequence

from posthaste_lab.fitting.model import IntervalValue
from posthaste_lab.stats import mean_interval


def over_repetitions(center: float, values: Sequence[float], confidence: float) -> IntervalValue | None:
    """Returns Student's interval around the figure of all repetitions together; None with only one repetition."""
    if len(values) < 2:
        return None
    half = mean_interval(values, confidence).half_width
    return IntervalValue(low=center - half, high=center + half)
