"""Bounds of a closed network, which every solution keeps and which follow from the demands alone.

Asymptotic bounds use the bottleneck and nothing else; balanced-job bounds also use that evenly spread work queues
least (Zahorjan et al., CACM 25, 1982). Lazowska et al., chapter 5, has both with think times.

They are stated there for plain queues. Other stations are bounded by two plain ones, since a server that is never
slower never delays anybody (Tsoucas and Walrand, JAP 26, 1989): above, the same station as a delay; below, a station
of m servers by Seidmann's split into a queue of D/m and a delay of D(m-1)/m, a load-dependent one by its least speed.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from posthaste_lab.checks import FloatArray, bounded, non_negative
from posthaste_lab.errors import BadArgument
from posthaste_lab.queueing.station import POPULATION_MAX, Station, checked


@dataclass(frozen=True, eq=False)
class Curve:
    """An upper and a lower bound for 1 to N customers, of throughput (per second) and response time (seconds)."""

    throughput_upper: FloatArray
    throughput_lower: FloatArray
    response_lower: FloatArray
    response_upper: FloatArray


@dataclass(frozen=True, eq=False)
class Bounds(Curve):
    """The tighter of the asymptotic and the balanced-job bounds, each kind alone, and the `knee`.

    `knee` is the population where the two asymptotes of throughput cross, N* = (D + Z) / Dmax: below it requests
    hardly ever queue, above it one is always waiting. It is infinite where nothing can saturate.
    """

    population: FloatArray
    knee: float
    asymptotic: Curve
    balanced: Curve


@dataclass(frozen=True)
class _Plain:
    """A network of plain queues and delays that is certainly faster, or certainly slower, than the one given.

    `queues` are the demands of the queues, `free` is the sum of the delays and the think time (all in seconds).
    """

    queues: FloatArray
    free: float

    @property
    def total(self) -> float:
        return float(self.queues.sum())

    @property
    def largest(self) -> float:
        return float(self.queues.max(initial=0.0))


def bounds(stations: Iterable[Station], population: int, think_time: float = 0.0) -> Bounds:
    """Asymptotic and balanced-job bounds for 1 to `population` customers.

    Demands and times in seconds, throughput per second. For plain queues, X <= min(N/(D+Z), 1/Dmax) and the
    balanced-job bounds of Lazowska et al., chapter 5; Jain, sections 33.6 and 34.4. Upper bounds of throughput give
    the lower ones of response time, through R = N/X - Z. Raises BadArgument as `solve` does.
    """
    network, think = checked(stations), non_negative("think_time", think_time)
    most = bounded("population", population, POPULATION_MAX, "the bounds hardly change any more past the knee")
    n = np.arange(1.0, most + 1)
    if think + sum(station.single_demand for station in network) == 0:
        raise BadArgument("stations", [s.name for s in network], "must have some demand, or a think time")
    speeds = {s.name: s.speeds(len(n)) for s in network}
    caps = [s.single_demand / speeds[s.name].max() for s in network if s.kind != "delay"]
    slowest = max(caps, default=0.0)
    # The knee is where the asymptotes of many customers cross, also when `population` is smaller.
    limiting = max((s.single_demand / s.top_speed for s in network), default=0.0)
    alone = think + sum(s.single_demand / float(speeds[s.name][0]) for s in network)
    least_time = think + sum(_least_time(s, speeds[s.name], n) for s in network)
    slow = _slower(network, speeds, think)
    asymptotic = _curve(_minimum(n / least_time, slowest), n / (slow.free + n * slow.total), n, think)
    balanced = _curve(
        _minimum(_balanced_upper(_faster(network, speeds, n, think), n), slowest),
        _balanced_lower(slow, n),
        n,
        think,
    )
    return Bounds(
        throughput_upper=np.minimum(asymptotic.throughput_upper, balanced.throughput_upper),
        throughput_lower=np.maximum(asymptotic.throughput_lower, balanced.throughput_lower),
        response_lower=np.maximum(asymptotic.response_lower, balanced.response_lower),
        response_upper=np.minimum(asymptotic.response_upper, balanced.response_upper),
        population=n,
        knee=alone / limiting if limiting else float("inf"),
        asymptotic=asymptotic,
        balanced=balanced,
    )


def _least_time(station: Station, speeds: FloatArray, n: FloatArray) -> float:
    """Returns the shortest service time, in seconds, that a customer ever has at the station."""
    return station.single_demand / float((speeds / n).max())


def _minimum(x: FloatArray, slowest: float) -> FloatArray:
    return np.minimum(x, 1 / slowest) if slowest else x


def _faster(network: tuple[Station, ...], speeds: dict[str, FloatArray], n: FloatArray, think: float) -> _Plain:
    plain = [s.single_demand for s in network if s.is_fixed_rate and s.kind != "delay"]
    free = sum(_least_time(s, speeds[s.name], n) for s in network if not s.is_fixed_rate or s.kind == "delay")
    return _Plain(np.array(plain), think + free)


def _slower(network: tuple[Station, ...], speeds: dict[str, FloatArray], think: float) -> _Plain:
    queues, free = [], think
    for station in network:
        demand = station.single_demand
        if station.kind == "delay":
            free += demand
        elif station.kind == "load_dependent":
            queues.append(demand / float(speeds[station.name].min()))
        else:
            queues.append(demand / station.servers)
            free += demand - demand / station.servers
    return _Plain(np.array(queues), free)


def _balanced_upper(plain: _Plain, n: FloatArray) -> FloatArray:
    if plain.total == 0:
        return n / plain.free
    average = plain.total / len(plain.queues[plain.queues > 0])
    return np.asarray(n / (plain.free + plain.total + (n - 1) * average / (1 + plain.free / plain.total)))


def _balanced_lower(plain: _Plain, n: FloatArray) -> FloatArray:
    if plain.total == 0:
        return n / plain.free
    return np.asarray(n / (plain.free + plain.total + (n - 1) * plain.largest / (1 + plain.free / (n * plain.total))))


def _curve(upper: FloatArray, lower: FloatArray, n: FloatArray, think: float) -> Curve:
    return Curve(upper, lower, n / upper - think, n / lower - think)
