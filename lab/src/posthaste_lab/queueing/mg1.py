"""M/G/1: service times of any spread, given by their squared coefficient of variation.

The means need two moments of the service time (Pollaczek and Khinchine), the variances three, percentiles the whole
distribution. Two moments are given; the rest is that of a gamma distribution, which is exponential at an scv of 1,
Erlang's at 1/k, and a constant at 0. So the means are right for every distribution, everything else for the gamma
distribution. Jain, chapter 31; Bolch et al., 2nd ed., section 6.3; variances by the distributional form of Little's law
(Bertsimas and Nakazato, Operations Research 43, 1995).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import expm1, log1p
from scipy.stats import nbinom, poisson

from posthaste_lab.checks import FloatArray, non_negative, positive
from posthaste_lab.errors import UnstableQueue
from posthaste_lab.queueing.open_queue import OpenQueue

# Euler's summation of the inversion integral: 38 terms and 12 averaged partial sums give 7 digits of a
# probability (Abate and Whitt, ORSA Journal on Computing 7, 1995); a constant service time costs some of them.
EULER_TERMS, EULER_AVERAGED, EULER_SHIFT = 38, 12, 18.4
# Below this, a transform that differs little from 1 is summed up by its powers, 16 digits of it: long times near
# saturation, and rare long services, are all in that difference.
SERIES_BELOW, SERIES_TERMS = 0.1, 16


@dataclass(frozen=True)
class _Gamma:
    """The `Distributions` of a queue with gamma service, computed from Laplace transforms."""

    arrival_rate: float
    mean: float
    scv: float
    grown: list[float] = field(default_factory=list)
    least_tail: float = 1e-6

    def short_of_1(self, s: complex) -> complex:
        """One less the Laplace transform of what remains of a service time that an arrival finds under way.

        That transform is (1 - B(s)) / (s S), with B(s) that of a whole service time.
        """
        z = s * self.mean
        if abs(z) * max(1.0, self.scv) < SERIES_BELOW:
            total, term = 0j, 1 + 0j
            for k in range(1, SERIES_TERMS + 1):
                term *= -z * (1 + k * self.scv) / (k + 1)
                total -= term
            return total
        exponent = -z if self.scv == 0 else -complex(log1p(z * self.scv)) / self.scv
        return 1 + complex(expm1(exponent)) / z

    def wait_beyond(self, s: complex) -> complex:
        """Laplace transform of `wait_tail`: Pollaczek and Khinchine's."""
        rho, short = self.arrival_rate * self.mean, self.short_of_1(s)
        return rho * short / (s * (1 - rho + rho * short))

    def response_beyond(self, s: complex) -> complex:
        """Laplace transform of `response_tail`: the wait, and the service after it."""
        wait = self.wait_beyond(s)
        return wait + (1 - s * wait) * self.mean * (1 - self.short_of_1(s))

    def wait_tail(self, t: float) -> float:
        if t == 0 or self.arrival_rate == 0:
            return self.arrival_rate * self.mean * float(t == 0)
        return _invert(self.wait_beyond, t)

    def response_tail(self, t: float) -> float:
        if t == 0:
            return 1.0
        if self.scv == 0:  # wait plus a constant: its distribution has a kink, which the inversion would round off
            return 1.0 if t < self.mean else self.wait_tail(t - self.mean)
        return _invert(self.response_beyond, t)

    def jobs(self, n: int) -> float:
        # The chain seen at departures, by the flows over each cut: every term is positive, so nothing cancels.
        while len(self.grown) <= n:
            self._grow()
        return self.grown[n]

    def _grow(self) -> None:
        k = len(self.grown)
        if k == 0:
            self.grown.append(1 - self.arrival_rate * self.mean)
            return
        beyond = self.arrivals_beyond(np.arange(k, dtype=np.float64))
        from_empty = self.grown[0] * float(beyond[k - 1])
        from_busy = float(np.dot(self.grown[1:k], beyond[k - 1 : 0 : -1]))
        self.grown.append((from_empty + from_busy) / (1 - float(beyond[0])))

    def arrivals_beyond(self, j: FloatArray) -> FloatArray:
        """P(more than j arrivals during a service): a gamma mixture of Poisson distributions is negative binomial."""
        expected = self.arrival_rate * self.mean
        if self.scv == 0:
            return np.asarray(poisson.sf(j, expected))
        return np.asarray(nbinom.sf(j, 1 / self.scv, 1 / (1 + expected * self.scv)))


def _invert(transform: Callable[[complex], complex], t: float) -> float:
    """Value at t of the function with this Laplace transform."""
    a = EULER_SHIFT / (2 * t)
    total = transform(complex(a)).real / 2
    sums: list[float] = []
    for k in range(1, EULER_TERMS + EULER_AVERAGED + 1):
        total += (-1.0) ** k * transform(complex(a, k * math.pi / t)).real
        if k >= EULER_TERMS:
            sums.append(total)
    weights = [math.comb(EULER_AVERAGED, i) / 2**EULER_AVERAGED for i in range(EULER_AVERAGED + 1)]
    return float(math.exp(EULER_SHIFT / 2) / t * np.dot(weights, sums))


def mg1(arrival_rate: float, mean_service_time: float, scv: float) -> OpenQueue:
    """M/G/1: one server whose service times have this mean, in seconds, and squared coefficient of variation.

    `scv` is the variance of a service time over the square of its mean: 0 a constant, 1 exponential. Means hold for
    every distribution with it; variances, percentiles and prob_jobs for a gamma distribution. `arrival_rate` is per
    second. Mean wait = rho S (1 + scv) / (2 (1 - rho)): Pollaczek and Khinchine; Jain, chapter 31.
    Raises UnstableQueue when `arrival_rate * mean_service_time` reaches 1, BadArgument for a negative scv.
    """
    arrivals = non_negative("arrival_rate", arrival_rate)
    mean = positive("mean_service_time", mean_service_time)
    spread = non_negative("scv", scv)
    rho = arrivals * mean
    if rho >= 1:
        raise UnstableQueue("arrival_rate", arrival_rate, rho)
    second, third = mean**2 * (1 + spread), mean**3 * (1 + spread) * (1 + 2 * spread)
    mean_wait = arrivals * second / (2 * (1 - rho))
    var_wait = arrivals * third / (3 * (1 - rho)) + mean_wait**2
    mean_response, var_response = mean_wait + mean, var_wait + spread * mean**2
    return OpenQueue(
        model="M/G/1",
        arrival_rate=arrivals,
        service_rate=1 / mean,
        servers=1,
        utilization=rho,
        p0=1 - rho,
        p_wait=rho,
        mean_jobs=arrivals * mean_response,
        var_jobs=arrivals**2 * var_response + arrivals * mean_response,
        mean_queue=arrivals * mean_wait,
        var_queue=arrivals**2 * var_wait + arrivals * mean_wait,
        mean_response=mean_response,
        var_response=var_response,
        mean_wait=mean_wait,
        var_wait=var_wait,
        throughput=arrivals,
        scv=spread,
        distributions=_Gamma(arrivals, mean, spread),
    )
