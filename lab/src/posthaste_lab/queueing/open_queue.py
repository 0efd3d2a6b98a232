"""The figures of an open queue, the same set for M/M/1, M/M/m, M/M/m/K, M/G/1 and several queues side by side.

*Jobs* are all requests in the system, *queue* those that wait; *response* is waiting and service, *wait* only waiting.
The distributions behind percentiles differ from model to model, so each has its own `Distributions`; turning one into a
percentile is the same for all and done here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from scipy.optimize import brentq

from posthaste_lab.checks import count, quantile
from posthaste_lab.errors import BadArgument


class Distributions(Protocol):
    """The distributions of one queue: of jobs, and of the times of jobs that are served.

    Tails are accurate down to `least_tail`; below it there are only rounding errors.
    """

    @property
    def least_tail(self) -> float:
        """The smallest tail probability that is accurate."""

    def jobs(self, n: int) -> float:
        """P(n jobs in the system)."""

    def wait_tail(self, t: float) -> float:
        """P(wait > t)."""

    def response_tail(self, t: float) -> float:
        """P(response > t)."""


@dataclass(frozen=True)
class OpenQueue:
    """Figures of an open queue in its steady state; first come, first served. Times in seconds, rates per second.

    A variance of a time is in seconds squared. `utilization` is that of one server, `p0` the probability of an empty
    system, `p_wait` the probability that an accepted arrival has to wait.
    Of several queues side by side (`parallel_mm1`), jobs, `p0` and `prob_jobs` are of all of them together.
    `throughput` is below `arrival_rate` only where arrivals are turned away, with probability `p_block`.
    `service_rate` is one server's.
    """

    model: str
    arrival_rate: float
    service_rate: float
    servers: int
    utilization: float
    p0: float
    p_wait: float
    mean_jobs: float
    var_jobs: float
    mean_queue: float
    var_queue: float
    mean_response: float
    var_response: float
    mean_wait: float
    var_wait: float
    throughput: float
    p_block: float = 0.0
    capacity: int | None = None
    scv: float = 1.0
    distributions: Distributions = field(kw_only=True, repr=False, compare=False)

    def prob_jobs(self, n: int) -> float:
        """Probability of exactly `n` jobs in the system, seen at any time."""
        return self.distributions.jobs(count("n", n, least=0))

    def response_percentile(self, q: float) -> float:
        """The time in seconds within which a share `q` of the served jobs is answered.

        `q` is in percent from 1 up, and a fraction below 1: 99 and 0.99 mean the same, 1 is the first percentile (one
        job in a hundred is faster), and 0.005 is half a percent. Raises BadArgument unless it lies between 0 and 100.
        """
        return _invert(self.distributions.response_tail, self._share_above(q), self.mean_response)

    def wait_percentile(self, q: float) -> float:
        """The time in seconds within which a share `q` of the served jobs has waited: 0 if as many do not wait at all.

        `q` is in percent from 1 up, and a fraction below 1, as in `response_percentile`.
        """
        return _invert(self.distributions.wait_tail, self._share_above(q), self.mean_response)

    def _share_above(self, q: float) -> float:
        share = 1 - quantile("q", q)
        if share < self.distributions.least_tail:
            raise BadArgument(
                "q", q, f"is further out than this model is known: at most {1 - self.distributions.least_tail!r}"
            )
        return share


def _invert(tail: Callable[[float], float], share: float, scale: float) -> float:
    """Returns the time that a share of the arrivals exceeds; `scale` is where the search begins."""
    if tail(0.0) <= share:
        return 0.0
    high = scale
    while tail(high) > share:
        high *= 2
    return float(brentq(lambda t: math.log(max(tail(t), 1e-300) / share), 0.0, high, xtol=1e-14 * high, rtol=1e-13))
