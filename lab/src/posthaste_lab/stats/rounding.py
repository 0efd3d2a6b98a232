"""What rounding leaves of a difference that is none, told from a small one that was measured.

Equal figures have a mean that differs from them by the last digit of a float, so their deviations are not 0. Divided by
each other, as in F, t and correlations, such remainders look like an effect beyond all doubt.
"""

import math

import numpy as np

from posthaste_lab.checks import FloatArray

LEAST = 1e-12  # a share of the largest figure: some thousand times what a float rounds off


def without_rounding(difference: float, figures: FloatArray) -> float:
    """Returns a difference of means of these figures, or 0 where rounding alone leaves as much."""
    return 0.0 if abs(difference) <= LEAST * _largest(figures) else difference


def mean_without_rounding(figures: FloatArray) -> float:
    """Returns the mean of these figures, never beyond the least or the largest: that of equal figures is theirs."""
    return float(np.clip(figures.mean(), figures.min(), figures.max()))


def squares_without_rounding(squares: float, figures: FloatArray) -> float:
    """Returns a sum of squared deviations of these figures, or 0 where rounding alone leaves as much."""
    return 0.0 if math.sqrt(squares) <= LEAST * _largest(figures) * math.sqrt(figures.size) else squares


def _largest(figures: FloatArray) -> float:
    return float(abs(figures).max())
