"""Contrasts of cells whose trials were run in blocks, each a repetition of every cell.

A contrast is a weighted sum of the cells' means, such as the difference of two of them. Chance is the difference
between repetitions:

- The contrast is formed in each complete repetition, and Student's interval is that of these contrasts. So effects of a
  repetition on all its trials add no noise to a difference, and are included in the interval of a mean; the cells need
  not have equal variances. It is the comparison of paired observations (Jain 1991, section 13.4.1), of a randomized
  complete block design (Montgomery, Design and Analysis of Experiments, chapter 4).
- With too few complete repetitions the variance within cells is pooled over all of them, with r - 1 degrees of freedom
  from each (Jain 1991, chapter 20; Montgomery, chapter 3). Effects common to a repetition make this interval of a
  difference wider than necessary, but never narrower. That of a mean would be narrower.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from scipy import stats

from posthaste_lab.stats.intervals import mean_interval

Values = Mapping[int, Mapping[int, float]]  # by cell, then by repetition


class BlockContrast(NamedTuple):
    """A contrast with its interval, NaN where there is none; `whole` are the repetitions it is of, None for all."""

    value: float
    low: float
    high: float
    whole: frozenset[int] | None


def block_contrast(values: Values, weights: Mapping[int, float], whole_least: int, confidence: float) -> BlockContrast:
    """Returns the contrast, over complete repetitions if there are at least `whole_least`, else over all trials."""
    whole = sorted(set.intersection(*(set(known) for known in values.values())))
    if len(whole) < whole_least:
        return _pooled({cell: list(known.values()) for cell, known in values.items()}, weights, confidence)
    sums = [sum(weights[cell] * known[repetition] for cell, known in values.items()) for repetition in whole]
    over = mean_interval(sums, confidence)
    return BlockContrast(over.mean, over.low, over.high, frozenset(whole))


def _pooled(values: Mapping[int, list[float]], weights: Mapping[int, float], confidence: float) -> BlockContrast:
    """Returns the contrast with its interval from the variance within cells, pooled over all of them."""
    means = {cell: sum(known) / len(known) for cell, known in values.items()}
    value = sum(weights[cell] * mean for cell, mean in means.items())
    freedom = sum(len(known) - 1 for known in values.values())
    if freedom == 0:
        return BlockContrast(value, math.nan, math.nan, None)
    squares = sum((each - means[cell]) ** 2 for cell, known in values.items() for each in known)
    variance = squares / freedom * sum(weights[cell] ** 2 / len(known) for cell, known in values.items())
    half = float(stats.t.ppf((1 + confidence) / 2, freedom)) * math.sqrt(variance)
    return BlockContrast(value, value - half, value + half, None)
