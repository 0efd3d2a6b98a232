"""Queues with exponential times and no limit: M/M/1, M/M/m, and several M/M/1 side by side.

Jain, The Art of Computer Systems Performance Analysis (1991), boxes 31.1 and 31.2; the distribution of response times
is in Bolch et al., 2nd ed., chapter 6.
"""

import math
from dataclasses import dataclass

from scipy.stats import nbinom, poisson

from posthaste_lab.checks import count, non_negative, positive
from posthaste_lab.errors import UnstableQueue
from posthaste_lab.queueing.erlang import erlang_c
from posthaste_lab.queueing.open_queue import OpenQueue


@dataclass(frozen=True)
class _Exponential:
    """The `Distributions` of M/M/m: a wait is 0, or exponential with the rate at which the queue drains."""

    load: float
    servers: int
    service_rate: float
    p_wait: float
    least_tail: float = 0.0

    def jobs(self, n: int) -> float:
        # A Poisson distribution up to m jobs, a geometric one beyond. The factor e^-load keeps both from overflowing.
        utilization = self.load / self.servers
        all_busy = poisson.pmf(self.servers, self.load)
        total = poisson.cdf(self.servers - 1, self.load) + all_busy / (1 - utilization)
        if n <= self.servers:
            return float(poisson.pmf(n, self.load) / total)
        return float(all_busy / total * utilization ** (n - self.servers))

    def wait_tail(self, t: float) -> float:
        return self.p_wait * math.exp(-self.service_rate * (self.servers - self.load) * t)

    def response_tail(self, t: float) -> float:
        drain = self.servers - self.load
        x = self.service_rate * t
        gap = (drain - 1) * x
        if abs(gap) < 1e-5:  # two nearly equal rates: the quotient below would be 0/0, so its series is used
            return math.exp(-x) * (1 + self.p_wait * x * (1 - gap / 2))
        return math.exp(-x) + self.p_wait * (math.exp(-x) - math.exp(-drain * x)) / (drain - 1)


@dataclass(frozen=True)
class _SideBySide:
    """The `Distributions` of several M/M/1 side by side: times are those of one queue, jobs add up."""

    one: _Exponential
    queues: int
    least_tail: float = 0.0

    def jobs(self, n: int) -> float:
        return float(nbinom.pmf(n, self.queues, 1 - self.one.load))

    def wait_tail(self, t: float) -> float:
        return self.one.wait_tail(t)

    def response_tail(self, t: float) -> float:
        return self.one.response_tail(t)


def mm1(arrival_rate: float, service_rate: float) -> OpenQueue:
    """M/M/1: one server, exponential times between arrivals and of service, no limit.

    Rates per second. Jain box 31.1. Raises UnstableQueue when `arrival_rate` reaches `service_rate`, BadArgument
    when a rate is not a positive number (an arrival rate of 0 is an empty system).
    """
    return _named("M/M/1", arrival_rate, service_rate, 1)


def mmm(arrival_rate: float, service_rate: float, servers: int) -> OpenQueue:
    """M/M/m: one queue before `servers` equal servers; `service_rate` is one server's.

    Rates per second. Jain box 31.2, with Erlang's C for the probability of waiting. Raises UnstableQueue when
    `arrival_rate` reaches `servers * service_rate`, BadArgument for impossible rates and counts.
    """
    m = count("servers", servers)
    return _named(f"M/M/{m}", arrival_rate, service_rate, m)


def _named(model: str, arrival_rate: float, service_rate: float, servers: int) -> OpenQueue:
    arrivals = non_negative("arrival_rate", arrival_rate)
    service = positive("service_rate", service_rate)
    load = arrivals / service
    rho = load / servers
    if rho >= 1:
        raise UnstableQueue("arrival_rate", arrival_rate, rho)
    p_wait = erlang_c(load, servers)
    distributions = _Exponential(load, servers, service, p_wait)
    drain = servers * service * (1 - rho)
    mean_queue = p_wait * rho / (1 - rho)
    var_queue = p_wait * rho * (1 + rho - rho * p_wait) / (1 - rho) ** 2
    mean_wait, var_wait = p_wait / drain, p_wait * (2 - p_wait) / drain**2
    return OpenQueue(
        model=model,
        arrival_rate=arrivals,
        service_rate=service,
        servers=servers,
        utilization=rho,
        p0=distributions.jobs(0),
        p_wait=p_wait,
        mean_jobs=load + mean_queue,
        var_jobs=load + var_queue + load * p_wait,
        mean_queue=mean_queue,
        var_queue=var_queue,
        mean_response=1 / service + mean_wait,
        var_response=1 / service**2 + var_wait,
        mean_wait=mean_wait,
        var_wait=var_wait,
        throughput=arrivals,
        distributions=distributions,
    )


def parallel_mm1(arrival_rate: float, service_rate: float, queues: int) -> OpenQueue:
    """`queues` M/M/1 side by side, each with a waiting line of its own and an even share of the arrivals.

    `arrival_rate` is the total per second over all queues, `service_rate` is one queue's.

    - Of one queue (all are alike): `utilization`, `p_wait`, and all times with their percentiles.
    - Of all queues together: `mean_jobs`, `mean_queue` and their variances, `prob_jobs(n)`, and `p0`, the probability
      that every queue is empty; one queue is empty with probability 1 - `utilization`. So Little's law holds with the
      total rate.

    Jain (1991), box 31.1, for each of them. Compared with M/M/m with the same servers it shows what sharing one line is
    worth. Raises UnstableQueue and BadArgument as `mm1` does.
    """
    queues = count("queues", queues)
    total = non_negative("arrival_rate", arrival_rate)
    if total >= queues * positive("service_rate", service_rate):
        raise UnstableQueue("arrival_rate", arrival_rate, total / (queues * service_rate))
    one = mm1(total / queues, service_rate)
    distributions = _SideBySide(_Exponential(one.utilization, 1, one.service_rate, one.p_wait), queues)
    return OpenQueue(
        model=f"{queues} x M/M/1",
        arrival_rate=total,
        service_rate=one.service_rate,
        servers=queues,
        utilization=one.utilization,
        p0=one.p0**queues,
        p_wait=one.p_wait,
        mean_jobs=queues * one.mean_jobs,
        var_jobs=queues * one.var_jobs,
        mean_queue=queues * one.mean_queue,
        var_queue=queues * one.var_queue,
        mean_response=one.mean_response,
        var_response=one.var_response,
        mean_wait=one.mean_wait,
        var_wait=one.var_wait,
        throughput=total,
        distributions=distributions,
    )
