"""Checks of arguments, made where they enter the package, so that formulas can rely on them.

Every function returns the checked value, or raises BadArgument with the argument's name.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

from posthaste_lab.errors import BadArgument

FloatArray = npt.NDArray[np.float64]
T = TypeVar("T")

# The largest figure of a system, in seconds, per second, or a ratio; and the least one by which anything is divided. No
# system comes near them, and the fourth powers that variances are made of remain finite numbers.
LARGEST, LEAST = 1e50, 1e-50
COUNT_MAX = 2**53  # beyond it a floating-point number does not tell one count from the next
SAMPLE_MAX = 1e70  # fourth powers of larger samples, as in Welch's interval, would be infinite


def number(argument: str, value: float) -> float:
    """A finite number. Text and truth values are refused, although float() would convert them."""
    if isinstance(value, str | bytes | bool | np.bool_):
        raise BadArgument(argument, value, "must be a number")
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        raise BadArgument(argument, value, "must be a number") from None
    if not math.isfinite(result):
        raise BadArgument(argument, value, "must be finite")
    return result


def positive(argument: str, value: float) -> float:
    """A number above zero, neither larger nor smaller than a figure of any system (1e-50 to 1e50)."""
    result = number(argument, value)
    if result <= 0:
        raise BadArgument(argument, value, "must be above 0")
    if not LEAST <= result <= LARGEST:
        raise BadArgument(argument, value, f"must lie between {LEAST:g} and {LARGEST:g}, as in any system")
    return result


def non_negative(argument: str, value: float) -> float:
    """A number, zero or above, not larger than a figure of any system (1e50)."""
    result = number(argument, value)
    if result < 0:
        raise BadArgument(argument, value, "must not be negative")
    if result > LARGEST:
        raise BadArgument(argument, value, f"must be at most {LARGEST:g}, as in any system")
    return result


def fraction(argument: str, value: float) -> float:
    """A number strictly between 0 and 1."""
    result = number(argument, value)
    if not 0 < result < 1:
        raise BadArgument(argument, value, "must lie between 0 and 1")
    return result


def count(argument: str, value: float, least: int = 1) -> int:
    """A whole number, at least `least`, at most 2^53. 8.0 passes, 8.5 does not."""
    result = number(argument, value)
    if result != int(result):
        raise BadArgument(argument, value, "must be a whole number")
    if result < least:
        raise BadArgument(argument, value, f"must be at least {least}")
    if result > COUNT_MAX:
        raise BadArgument(argument, value, f"must be at most {COUNT_MAX:,}")
    return int(result)


def bounded(argument: str, value: float, most: int, instead: str) -> int:
    """A whole number from 1 to `most`, beyond which time or memory would run out; `instead` says what to do then."""
    result = count(argument, value)
    if result > most:
        raise BadArgument(argument, value, f"must be at most {most:,}, since time and memory grow with it: {instead}")
    return result


def quantile(argument: str, value: float) -> float:
    """A percentile as a fraction: 95 and 0.95 mean the same.

    Figures from 1 up are percent, figures below 1 are fractions. So percentiles below the first have to be given as
    fractions (0.005), which are rarely needed. The least fraction is as far from 0 as the largest one is from 1.
    """
    result = number(argument, value)
    if not 0 < result < 100:
        raise BadArgument(argument, value, "must lie between 0 and 100 (percent), or be a fraction below 1")
    share, largest = round(result / 100, 15) if result >= 1 else result, math.nextafter(1.0, 0.0)
    if share < 1 - largest:
        raise BadArgument(argument, value, f"must be at least {1 - largest:.2g}")
    return min(share, largest)


def sequence(argument: str, values: Iterable[T]) -> list[T]:
    """A list of the values of an ordered iterable, which is iterated over only once."""
    if isinstance(values, Mapping | set | bytes):
        raise BadArgument(argument, values, "must be a sequence")
    try:
        return list(values)
    except TypeError:
        raise BadArgument(argument, values, "must be a sequence") from None


def figures(argument: str, values: object) -> FloatArray:
    """An array of numbers, of any dimensions. Masked values become NaN."""
    is_complex = isinstance(values, np.ndarray) and np.iscomplexobj(values)
    if isinstance(values, str | bytes | bool | np.bool_ | Mapping | set) or is_complex:
        raise BadArgument(argument, values, "must hold numbers, in an order")
    try:
        if isinstance(values, np.ma.MaskedArray):
            return np.asarray(np.ma.filled(values.astype(np.float64), np.nan))
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise BadArgument(argument, values, "must hold numbers, as many in one row as in the next") from None


def each(check: Callable[[str, float], float], argument: str, values: object) -> FloatArray:
    """An array of the dimensions of `values` (none, for a number), whose figures all lie between the check's limits."""
    if np.ndim(array := figures(argument, values)) == 0:
        return np.asarray(check(argument, cast(float, values)))
    if array.size == 0:
        raise BadArgument(argument, [], "must hold a figure")
    for outermost in (array.min(), array.max()):  # NaN, if there is one
        check(argument, float(outermost))
    return array


def samples(argument: str, values: Iterable[float], least: int = 1) -> FloatArray:
    """Finite numbers in one dimension, at least `least` of them, none beyond 1e70."""
    array = figures(argument, values if isinstance(values, np.ndarray | str | bytes) else sequence(argument, values))
    if array.ndim != 1:
        raise BadArgument(argument, array.shape, "must have one dimension")
    if len(array) < least:
        raise BadArgument(argument, array.tolist(), f"must hold at least {least} figures, not {len(array)}")
    bad = array[~np.isfinite(array)]
    if len(bad):
        raise BadArgument(argument, float(bad[0]), "must hold finite figures only")
    return not_too_large(argument, array)


def not_too_large(argument: str, array: FloatArray) -> FloatArray:
    """The array, whose figures may be computed with: none is beyond 1e70."""
    large = array[np.abs(array) > SAMPLE_MAX]
    if len(large):
        raise BadArgument(argument, float(large[0]), f"must hold figures up to {SAMPLE_MAX:g} only")
    return array
