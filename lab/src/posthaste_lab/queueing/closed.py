"""Closed networks: a fixed number of customers who send one request after the other, as clients of a benchmark do.

`solve` picks the method; every method returns a `ClosedNetwork`, for each population from 1 to N at once, because
measurements are compared with the whole curve.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args, overload

import numpy as np

from posthaste_lab.checks import FloatArray, bounded, count, each, non_negative, positive, sequence
from posthaste_lab.errors import BadArgument, NumericalError
from posthaste_lab.queueing.convolution import Weights, marginal
from posthaste_lab.queueing.convolution import solve as convolve
from posthaste_lab.queueing.mva import Curves, exact, schweitzer
from posthaste_lab.queueing.station import POPULATION_MAX, Kind, Station, checked

Numbers = float | Sequence[float] | FloatArray
Method = Literal["exact", "schweitzer", "convolution"]

FIGURES_MAX = 10_000_000  # stations times populations: the size of each curve, some 100 MB
CONVOLVED_MAX = 20_000  # customers: a minute for each station whose speed depends on its load, growing with the square


@dataclass(frozen=True, eq=False)
class ClosedNetwork:
    """A solved closed network. Every array runs over `population`: 1, 2, … N.

    `throughput` is per second, `response_time` in seconds over all stations, delays included, without think time.
    By station name:
    `utilization`: the busy share of one server; of a load-dependent station the probability that it has any customer,
    of a delay the mean number of customers in it (which may exceed 1).
    `queue_length`: the mean number of customers there, waiting and in service.
    `residence_time`: the seconds a request spends there over all its visits.
    `bottleneck` is the station that limits throughput as the population grows.
    """

    stations: tuple[Station, ...]
    think_time: float
    method: Method
    population: FloatArray
    throughput: FloatArray
    response_time: FloatArray
    utilization: Mapping[str, FloatArray] = field(repr=False)
    queue_length: Mapping[str, FloatArray] = field(repr=False)
    residence_time: Mapping[str, FloatArray] = field(repr=False)
    bottleneck: str

    def what_if(
        self,
        name: str,
        *,
        demand: float | None = None,
        servers: int | None = None,
        kind: Kind | None = None,
        rates: Iterable[float] | None = None,
        think_time: float | None = None,
        population: int | None = None,
    ) -> "ClosedNetwork":
        """Solves the network again with one station changed.

        `servers` makes a plain queue a station of several servers (and 1 makes it plain again). Arguments that are not
        given keep their values. Raises BadArgument for a name that no station has.
        """
        old = next((station for station in self.stations if station.name == name), None)
        if old is None:
            raise BadArgument("name", name, f"must be one of {', '.join(s.name for s in self.stations)}")
        new = old
        if servers is not None:
            new = replace(new, servers=servers, kind="multi" if count("servers", servers) > 1 else "queue", rates=None)
        if rates is not None:
            new = replace(new, servers=1, kind="load_dependent", rates=tuple(sequence("rates", rates)))
        if kind is not None:
            new = replace(
                new,
                kind=kind,
                servers=new.servers if kind == "multi" else 1,
                rates=new.rates if kind == "load_dependent" else None,
            )
        if demand is not None:
            new = replace(new, demand=demand)
        return solve(
            [new if station is old else station for station in self.stations],
            len(self.population) if population is None else population,
            self.think_time if think_time is None else think_time,
            self.method,
        )

    def distribution(self, name: str, population: int | None = None) -> FloatArray:
        """P(0, 1, … customers at a station) with `population` customers in all (default: the largest solved).

        From the convolution of the other stations, where every term is positive (see `convolution`).
        """
        if name not in self.queue_length:
            raise BadArgument("name", name, f"must be one of {', '.join(self.queue_length)}")
        n = len(self.population) if population is None else count("population", population)
        _must_end("population", n, self.stations, "convolution")
        return marginal(self.stations, name, n, self.think_time)


def solve(
    stations: Iterable[Station], population: int, think_time: float = 0.0, method: Method = "exact"
) -> ClosedNetwork:
    """Solve a closed network of one class for 1 to `population` customers, who think for `think_time` seconds.

    "exact": mean value analysis (Reiser and Lavenberg, JACM 27, 1980; Jain, section 34.2) while every station is a
    plain queue or a delay; with a "multi" or "load_dependent" one, convolution in logarithms, because the textbook's
    recursion for those loses all digits from some hundred customers on. "schweitzer": the approximation of Schweitzer
    and Bard (Jain, section 34.3), with Seidmann's split of stations with m servers into a queue of demand D/m and a
    delay of D(m-1)/m; fast for any population, some percent off near the knee. "convolution": as the function
    `convolution`.

    Exact for stations with exponential times served first come first served, or any times when shared equally.
    Raises BadArgument for an impossible network (no demand at all, no customers, a name used twice), and for more
    customers than can be solved in some minutes.
    """
    if not isinstance(method, str) or method not in get_args(Method):
        raise BadArgument("method", method, f"must be one of {', '.join(get_args(Method))}")
    network, n, think = _arguments(stations, population, think_time)
    _must_end("population", n, network, method)
    if method == "schweitzer":
        curves = schweitzer(network, n, think)
    elif method == "exact" and all(station.is_fixed_rate for station in network):
        curves = exact(network, n, think)
    else:
        curves = convolve(Weights.of(network, n, think))
    return _network(network, think, method, curves)


def convolution(stations: Iterable[Station], population: int, think_time: float = 0.0) -> ClosedNetwork:
    """Solve a closed network by Buzen's convolution, in logarithms.

    Works for every kind of station at any population; K stations cost O(K N^2) where they depend on the load and
    O(K N) where not. Buzen, CACM 16 (1973); Bolch et al., 2nd ed., section 8.1. Arguments and errors as `solve`.
    """
    return solve(stations, population, think_time, "convolution")


@overload
def interactive_response_time(population: float, throughput: float, think_time: float = 0.0) -> float: ...


@overload
def interactive_response_time(population: FloatArray, throughput: Numbers, think_time: Numbers = 0.0) -> FloatArray: ...


@overload
def interactive_response_time(
    population: Numbers, throughput: Numbers, think_time: Numbers = 0.0
) -> float | FloatArray: ...


def interactive_response_time(
    population: Numbers, throughput: Numbers, think_time: Numbers = 0.0
) -> float | FloatArray:
    """Response time law of closed systems: R = N/X - Z, in seconds.

    `throughput` is per second, `think_time` in seconds. Arrays, as of a solved network, give an array; all must have
    one shape, and a number beside them holds for all of their figures.
    Denning and Buzen, ACM Computing Surveys 10 (1978); Jain, section 33.5. It holds for any system observed long
    enough, so a measured R that differs means that N, X or Z have other values than assumed.
    Raises BadArgument when the think time is longer than N/X: such figures cannot belong together.
    """
    customers, rate = each(non_negative, "population", population), each(positive, "throughput", throughput)
    think = each(non_negative, "think_time", think_time)
    given = {"population": customers, "throughput": rate, "think_time": think}
    shape = next((array.shape for array in given.values() if array.ndim), ())
    for argument, array in given.items():
        if array.ndim and array.shape != shape:
            raise BadArgument(argument, array.shape, f"must have the shape of the others, {shape}")
    rounds = customers / rate
    response = rounds - think
    if response.min() < 0:
        at = int(np.argmin(response))
        raise BadArgument(
            "think_time",
            float(np.broadcast_to(think, shape).flat[at]),
            f"is longer than a whole round of {np.ravel(rounds)[at]:.6g} s (population / throughput)",
        )
    return response if shape else float(response)


def _arguments(
    stations: Iterable[Station], population: int, think_time: float
) -> tuple[tuple[Station, ...], int, float]:
    network, think = checked(stations), non_negative("think_time", think_time)
    if think + sum(station.single_demand for station in network) == 0:
        raise BadArgument("stations", [s.name for s in network], "must have some demand, or a think time")
    return network, count("population", population), think


def _must_end(argument: str, population: int, network: tuple[Station, ...], method: Method) -> None:
    """Raises BadArgument for populations that would take hours, or too much memory."""
    instead = "past the knee, which `bounds` tells, more customers only wait longer"
    bounded(argument, population, min(POPULATION_MAX, FIGURES_MAX // len(network)), instead)
    if method != "schweitzer" and not all(station.is_fixed_rate for station in network):
        if not any(station.kind == "load_dependent" for station in network):
            instead = "with stations of several servers, method=schweitzer takes more"
        bounded(argument, population, CONVOLVED_MAX, instead)


def _network(network: tuple[Station, ...], think: float, method: Method, curves: Curves) -> ClosedNetwork:
    names = [station.name for station in network]
    _must_hold(network, think, curves, approximate=method == "schweitzer")
    # Thousands of products leave some digits more than rounding one would, and nobody is busier than always.
    most = [math.inf if station.kind == "delay" else 1.0 for station in network]
    return ClosedNetwork(
        stations=network,
        think_time=think,
        method=method,
        population=np.arange(1.0, len(curves.throughput) + 1),
        throughput=curves.throughput,
        response_time=curves.residence_time.sum(axis=1),
        utilization=dict(zip(names, np.minimum(curves.utilization, most).T, strict=True)),
        queue_length=dict(zip(names, curves.queue_length.T, strict=True)),
        residence_time=dict(zip(names, curves.residence_time.T, strict=True)),
        bottleneck=bottleneck(network),
    )


def bottleneck(network: tuple[Station, ...]) -> str:
    """Returns the station with the largest demand per unit of speed: the first one to saturate. Delays never saturate.

    Each station counts with the speed it has with very many customers, whatever the population.
    """
    limited = [station for station in network if station.kind != "delay"]
    if not limited:
        return max(network, key=lambda s: s.single_demand).name
    return max(limited, key=lambda s: s.single_demand / s.last_speed).name


def _must_hold(network: tuple[Station, ...], think: float, curves: Curves, *, approximate: bool) -> None:
    """Raises NumericalError unless the curves satisfy what every solution does: otherwise the solver has failed."""
    n = np.arange(1.0, len(curves.throughput) + 1)
    customers = curves.queue_length.sum(axis=1) + think * curves.throughput
    share = np.array([s.single_demand / s.speeds(len(n)).max() if s.kind != "delay" else 0.0 for s in network])
    tolerance = 1e-6
    if not np.all(np.isfinite(customers)) or np.any(curves.queue_length < -tolerance):
        raise NumericalError(f"no finite, positive solution for population {len(n)} of {network}")
    if np.any(np.abs(customers - n) > tolerance * n):
        raise NumericalError(f"customers got lost: {customers[-1]} of {n[-1]} in {network}")
    if not approximate and np.any(curves.throughput * share.max() > 1 + tolerance):
        raise NumericalError(f"more throughput than the bottleneck allows: {curves.throughput.max()} in {network}")
