"""Advises on an additive or a multiplicative model by the usual rules of thumb, with their figures.

Factors that each double a time multiply; factors that each add a millisecond add. Where responses span little, both
models fit alike, and the simpler one is advised. Otherwise that scale is better on which factors act independently
(less variation in interactions) and errors do not grow with the response. Jain (1991), chapter 18.
"""

import math

import numpy as np
from scipy import stats

from posthaste_lab.checks import FloatArray
from posthaste_lab.factorial.design import Signs
from posthaste_lab.stats.rounding import squares_without_rounding, without_rounding

SPAN_SMALL = 3.0  # ratio of largest to least response below which a logarithm is nearly a straight line
SHARE_CLEAR = 0.5  # an unexplained share below this multiple of the other model's is a clear gain
ROUNDING = 1e-12  # a smaller share is a rounding error, and says nothing for either model


def advise(responses: FloatArray, columns: dict[str, Signs], *, blocked: bool) -> str:
    """Returns a sentence with the model to use, and why; effects of blocks are removed first."""
    least, largest = float(responses.min()), float(responses.max())
    if least <= 0:
        return f"additive: a response of {least:g} has no logarithm"
    if responses.shape[1] == 1 and not any(":" in name for name in columns):
        return "additive: the simpler one, since nothing of this design lies beyond main effects to tell by"
    span = largest / least
    y = _without_blocks(responses) if blocked else responses
    if _variation(y) == 0:
        among = " within a repetition" if blocked else ""
        return f"additive: nothing varies{among}, so nothing tells one from the other"
    logarithms = _without_blocks(np.log(responses)) if blocked else np.log(responses)
    plain, logged = _beyond_main_effects(y, columns), _beyond_main_effects(logarithms, columns)
    figures = (
        f"the largest response is {span:.3g} times the least; beyond main effects lie {plain:.2%} of the variation "
        f"of the responses and {logged:.2%} of that of their logarithms"
    )
    if span < SPAN_SMALL:
        return f"additive: over so little a range a logarithm changes nothing ({figures})"
    growing = _spread_grows(y) and not _spread_grows(logarithms)
    if logged < SHARE_CLEAR * plain or (growing and logged <= plain):
        reason = "; errors grow with the response" if growing else ""
        return f"multiplicative: factors act as ratios ({figures}{reason})"
    if math.isclose(logged, plain, rel_tol=SHARE_CLEAR):
        return f"additive: logarithms explain about as much, and sums are simpler to read ({figures})"
    return f"additive: factors act as differences ({figures})"


def _without_blocks(y: FloatArray) -> FloatArray:
    return np.asarray(y - y.mean(axis=0) + y.mean())


def _variation(y: FloatArray) -> float:
    """Returns the sum of squares about the mean; 0 where rounding alone leaves as much."""
    return squares_without_rounding(float(((y - y.mean()) ** 2).sum()), y)


def _beyond_main_effects(y: FloatArray, columns: dict[str, Signs]) -> float:
    """Returns the share of the variation that interactions and error explain."""
    total = _variation(y)
    if total == 0:
        return 0.0
    means = y.mean(axis=1)
    main = sum(float(column @ means) ** 2 for name, column in columns.items() if ":" not in name) / len(means) ** 2
    left = 1 - y.size * main / total
    return left if left > ROUNDING else 0.0


def _spread_grows(y: FloatArray) -> bool:
    """Returns whether cells with larger means scatter more, by rank correlation."""
    if y.shape[1] < 2 or len(y) < 4:
        return False
    spreads = y.std(axis=1)
    if without_rounding(float(np.ptp(spreads)), y) == 0:
        return False
    test = stats.spearmanr(y.mean(axis=1), spreads)
    return bool(test.statistic > 0 and test.pvalue < 0.1)
