"""Intervals over repetitions: each repetition gave a model of its own, and how they differ is what is not known."""

from collections.abc import Sequence

from posthaste_lab.fitting.model import Bounds
from posthaste_lab.stats import mean_interval


def over_repetitions(center: float, values: Sequence[float], confidence: float) -> Bounds | None:
    """Student's interval around the figure of all repetitions together; None when there was only one."""
    if len(values) < 2:
        return None
    half = mean_interval(values, confidence).half_width
    return Bounds(low=center - half, high=center + half)
