"""The universal scalability law: throughput under contention and coherence.

X(N) = lambda N / (1 + sigma (N-1) + kappa N (N-1)). Gunther, Guerrilla Capacity Planning (2007), chapter 4.

A curve with three coefficients fits almost anything, so the intervals matter most: one that reaches 0 says that the
data do not show that kind of loss.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from scipy import stats
from scipy.optimize import curve_fit

from posthaste_lab.checks import FloatArray, fraction, positive, samples
from posthaste_lab.errors import BadArgument
from posthaste_lab.stats.intervals import Interval

NOTHING = 1e-12  # a smaller coefficient is a rounding error of 0
LEVERAGE_LEFT = 1e-9  # least value of one minus leverage, for a point that alone decides a coefficient
POINTS_LEAST = 4  # three coefficients, and one degree of freedom for their intervals


@dataclass(frozen=True)
class UslFit:
    """Fitted coefficients, with intervals.

    `lam` is the throughput of one (in the unit of the data), `sigma` the serial share, `kappa` the cost of coherence
    for each pair. `peak` is the N of the highest throughput (infinite when the curve never falls, 1 when it never
    rises), `peak_throughput` that throughput. `intervals` are by name, cut at 0.
    """

    lam: float
    sigma: float
    kappa: float
    peak: float
    peak_throughput: float
    intervals: dict[str, Interval]
    residual_stdev: float
    r_squared: float
    confidence: float

    @overload
    def predict(self, n: float) -> float: ...

    @overload
    def predict(self, n: FloatArray | Sequence[float]) -> FloatArray: ...

    def predict(self, n: float | FloatArray | Sequence[float]) -> float | FloatArray:
        """Returns the throughput at `n`, one or many; beyond the data it is an extrapolation."""
        if isinstance(n, Iterable):
            return _usl(np.array([positive("n", each) for each in n]), self.lam, self.sigma, self.kappa)
        return float(_usl(np.array([positive("n", n)]), self.lam, self.sigma, self.kappa)[0])


def usl_fit(n: Iterable[float], throughput: Iterable[float], confidence: float = 0.95) -> UslFit:
    """Fits the law to measured points by least squares, coefficients not below 0.

    It needs at least 4 points with at least 3 different `n`, and raises BadArgument otherwise, or if the search
    finds no curve. The coefficients differ by orders of magnitude, so the search is scaled. Intervals come from the
    slopes at the optimum, the residual of each point and Student's law, and stay right if the noise grows with the
    throughput.
    """
    load, rate = samples("n", n, least=POINTS_LEAST), samples("throughput", throughput, least=POINTS_LEAST)
    if len(load) != len(rate):
        raise BadArgument("throughput", len(rate), f"must have a figure for each of the {len(load)} n")
    for argument, each in (("n", load), ("throughput", rate)):
        positive(argument, float(each.min()))
        positive(argument, float(each.max()))
    if len(np.unique(load)) < 3:
        raise BadArgument("n", load.tolist(), "must hold at least 3 different figures")
    level = fraction("confidence", confidence)
    start = float((rate / load).max())
    # Scaled to a thousand for N = 1, so that the search ends at the same point whatever the unit of throughput.
    try:
        found, _ = curve_fit(
            lambda x, a, b, c: _usl(x, a * 1e3, b * 1e-2, c * 1e-4),
            load,
            rate / start * 1e3,
            p0=(1.0, 1.0, 1.0),
            bounds=(0, np.inf),
            x_scale="jac",
            ftol=1e-14,
            xtol=1e-14,
            gtol=1e-14,
            max_nfev=10_000,
        )
    except RuntimeError:
        raise BadArgument("throughput", rate.tolist(), "must follow such a curve, and none was found near it") from None
    units = np.array([start, 1e-2, 1e-4])
    lam, sigma, kappa = (found * units).tolist()
    residuals = rate - _usl(load, lam, sigma, kappa)
    freedom = len(load) - 3
    half = stats.t.ppf((1 + level) / 2, freedom) * _standard_errors(load, residuals, lam, sigma, kappa)
    names = dict(zip(("lam", "sigma", "kappa"), zip((lam, sigma, kappa), half, strict=True), strict=True))
    peak = _peak(sigma, kappa)
    top = lam / sigma if math.isinf(peak) and sigma > NOTHING else math.inf
    return UslFit(
        lam=lam,
        sigma=sigma,
        kappa=kappa,
        peak=peak,
        peak_throughput=top if math.isinf(peak) else float(_usl(np.array([peak]), lam, sigma, kappa)[0]),
        intervals={name: Interval(max(0.0, float(value - h)), float(value + h)) for name, (value, h) in names.items()},
        residual_stdev=math.sqrt(float(residuals @ residuals) / freedom),
        r_squared=1 - float(residuals @ residuals) / float(((rate - rate.mean()) ** 2).sum() or 1.0),
        confidence=level,
    )


def _standard_errors(n: FloatArray, residuals: FloatArray, lam: float, sigma: float, kappa: float) -> FloatArray:
    """Returns the standard errors of the three coefficients, right also if residuals grow with the throughput.

    HC3: MacKinnon and White, Journal of Econometrics 29 (1985). Each residual is replaced by the distance of the point
    from the curve through all other points.
    """
    down = 1 + sigma * (n - 1) + kappa * n * (n - 1)
    slopes = np.column_stack([n / down, -lam * n * (n - 1) / down**2, -lam * n**2 * (n - 1) / down**2])
    sizes = np.linalg.norm(slopes, axis=0)
    inverse = np.linalg.pinv(slopes / sizes)
    leverage = np.einsum("ij,ji->i", slopes / sizes, inverse)
    beside = residuals / np.maximum(1 - leverage, LEVERAGE_LEFT)
    return np.asarray(np.linalg.norm(inverse * beside, axis=1) / sizes)


def _peak(sigma: float, kappa: float) -> float:
    """Returns the N, at least 1, of the highest throughput: where the derivative of the law is 0."""
    if sigma >= 1:  # each further one costs more waiting than the work it does
        return 1.0
    return max(1.0, math.sqrt((1 - sigma) / kappa)) if kappa > NOTHING else math.inf


def _usl(n: FloatArray, lam: float, sigma: float, kappa: float) -> FloatArray:
    return np.asarray(lam * n / (1 + sigma * (n - 1) + kappa * n * (n - 1)))
