"""M/M/m/K: room for K jobs, waiting and in service; an arrival that finds it full is turned away.

The number of states is finite, so any load is stable. The closed form is 0/0 at a load of one and overflows for large
K; products of rates, added up in logarithms, avoid both. Jain box 31.3; Bolch et al., 2nd ed., chapter 6.

Accepted arrivals see the state's distribution over time, cut at K-1: Poisson arrivals see time averages.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, gammaincc, gammaln, hyp1f1, logsumexp, xlogy

from posthaste_lab.checks import FloatArray, bounded, count, non_negative, positive
from posthaste_lab.errors import BadArgument
from posthaste_lab.queueing.open_queue import OpenQueue

CAPACITY_MAX = 1_000_000  # the chain has one state for each number of jobs


@dataclass(frozen=True)
class _Limited:
    """The `Distributions` of M/M/m/K: an accepted arrival waits for as many departures as a free server takes."""

    probabilities: FloatArray
    servers: int
    service_rate: float
    least_tail: float = 0.0

    def seen(self) -> FloatArray:
        """P(an accepted arrival finds j jobs), j = 0 to K-1."""
        inside = self.probabilities[:-1]
        return np.asarray(inside / inside.sum())

    def departures(self) -> FloatArray:
        """Returns the number of departures for which an arrival that finds j jobs waits, j = 0 to K-1."""
        return np.maximum(np.arange(len(self.probabilities) - 1) - self.servers + 1, 0).astype(np.float64)

    def jobs(self, n: int) -> float:
        return float(self.probabilities[n]) if n < len(self.probabilities) else 0.0

    def wait_tail(self, t: float) -> float:
        behind = self.departures()
        waits = behind > 0
        tails = gammaincc(behind[waits], self.servers * self.service_rate * t)
        return float(self.seen()[waits] @ tails)

    def response_tail(self, t: float) -> float:
        behind = self.departures()
        return float(self.seen() @ _erlang_then_exponential(behind, self.servers, self.service_rate * t))


def _erlang_then_exponential(k: FloatArray, servers: int, x: float) -> FloatArray:
    """P(k departures at rate m, then a service at rate 1, take longer than x), in units of the mean service."""
    if servers == 1:
        return np.asarray(gammaincc(k + 1, x))
    tail = np.full(len(k), math.exp(-x))
    behind = k[k > 0]
    rate, spare = servers * x, (servers - 1) * x
    # e^-x (m/(m-1))^k P(k, (m-1)x): the factor may overflow where P underflows, so this form is used only where P is
    # not small, and a series of the product elsewhere.
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        direct = np.exp(-x + behind * math.log(servers / (servers - 1)) + np.log(gammainc(behind, spare)))
        series = np.exp(xlogy(behind, rate) - rate - gammaln(behind + 1)) * hyp1f1(1.0, behind + 1, spare)
    in_service = np.where(spare < behind, series, direct)
    tail[k > 0] = gammaincc(behind, rate) + in_service
    return tail


def mmmk(arrival_rate: float, service_rate: float, servers: int, capacity: int) -> OpenQueue:
    """M/M/m/K: `servers` servers, at most `capacity` jobs in all; an arrival beyond them is turned away.

    Rates per second; `service_rate` is one server's. Any load is allowed. `p_block` is the share of arrivals turned
    away, `throughput` the rate of jobs served; times, their percentiles and `p_wait` are those of accepted jobs.
    P(n) ~ (arrival_rate / service_rate)^n / (1 2 … m m m …): Jain box 31.3; Bolch et al., 2nd ed., chapter 6.
    Raises BadArgument when `capacity` is below `servers`, or a rate or count is impossible.
    """
    arrivals = non_negative("arrival_rate", arrival_rate)
    service = positive("service_rate", service_rate)
    servers = count("servers", servers)
    capacity = bounded("capacity", capacity, CAPACITY_MAX, "so much room is as good as endless, as in mmm")
    if capacity < servers:
        raise BadArgument(
            "capacity", capacity, f"must be at least the {servers} servers: it counts jobs in service too"
        )
    n = np.arange(capacity + 1, dtype=np.float64)
    log_weights = xlogy(n, arrivals / service) - np.cumsum(np.log(np.clip(n, 1, servers)))
    distributions = _Limited(np.exp(log_weights - logsumexp(log_weights)), servers, service)
    queued, p_block = np.maximum(n - servers, 0), float(distributions.probabilities[-1])
    throughput = service * float(distributions.probabilities @ np.minimum(n, servers))  # the rate of departures
    mean_jobs, var_jobs = _moments(distributions.probabilities, n)
    mean_queue, var_queue = _moments(distributions.probabilities, queued)
    seen, behind = distributions.seen(), distributions.departures()
    mean_wait = float(seen @ behind) / (servers * service)
    var_wait = float(seen @ (behind * (behind + 1))) / (servers * service) ** 2 - mean_wait**2
    return OpenQueue(
        model=f"M/M/{servers}/{capacity}",
        arrival_rate=arrivals,
        service_rate=service,
        servers=servers,
        utilization=min(1.0, throughput / (servers * service)),  # sums leave some digits too much
        p0=float(distributions.probabilities[0]),
        p_wait=float(seen[behind > 0].sum()),
        mean_jobs=mean_jobs,
        var_jobs=var_jobs,
        mean_queue=mean_queue,
        var_queue=var_queue,
        mean_response=mean_wait + 1 / service,
        var_response=var_wait + 1 / service**2,
        mean_wait=mean_wait,
        var_wait=var_wait,
        throughput=throughput,
        p_block=p_block,
        capacity=capacity,
        distributions=distributions,
    )


def _moments(probabilities: FloatArray, values: FloatArray) -> tuple[float, float]:
    mean = float(probabilities @ values)
    return mean, float(probabilities @ (values - mean) ** 2)
