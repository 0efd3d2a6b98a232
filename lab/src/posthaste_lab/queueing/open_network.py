"""Open networks: requests come from outside at a given rate, pass stations, and leave.

By Jackson's theorem every station behaves as if it stood alone with Poisson arrivals: Jackson, Operations
Research 5 (1957); several classes by Baskett, Chandy, Muntz and Palacios, JACM 22 (1975). Lazowska et al.,
chapters 6 and 7.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import logsumexp

from posthaste_lab.checks import FloatArray, figures, non_negative, number
from posthaste_lab.errors import BadArgument, UnstableQueue
from posthaste_lab.queueing.erlang import erlang_c
from posthaste_lab.queueing.station import Station, checked


@dataclass(frozen=True, eq=False)
class OpenNetwork:
    """A solved open network.

    With one class, figures are numbers; with several they are arrays with an entry for each class. `throughput` equals
    `arrival_rate` (per second), `response_time` is in seconds over all stations, `residence_time[name]` in seconds at
    one of them, `queue_length[name]` the mean number there. `utilization[name]` is that of one server over all classes
    (of a delay the mean number in it). `saturation` is the factor by which all arrival rates can grow before the
    `bottleneck` is busy all the time.
    """

    stations: tuple[Station, ...]
    arrival_rate: float | FloatArray
    throughput: float | FloatArray
    response_time: float | FloatArray
    utilization: dict[str, float] = field(repr=False)
    queue_length: dict[str, float | FloatArray] = field(repr=False)
    residence_time: dict[str, float | FloatArray] = field(repr=False)
    bottleneck: str
    saturation: float


def open_network(stations: Iterable[Station], arrival_rate: float | Sequence[float] | FloatArray) -> OpenNetwork:
    """Solve an open network for a rate of arrivals per second, or for one rate of each class.

    At a plain queue a request spends D / (1 - U) seconds: Jackson; Lazowska et al., chapters 6 and 7; Jain, section
    34.1. With several classes each station's demand is a sequence, one figure for each class. Stations are served first
    come first served with exponential times alike for all classes, or share their time. Raises UnstableQueue when a
    station would be busy all the time, BadArgument when rates and demands do not fit.
    """
    network = checked(stations)
    rates = np.atleast_1d(figures("arrival_rate", arrival_rate))
    if rates.ndim != 1:
        raise BadArgument("arrival_rate", arrival_rate, "must be one rate, or one for each class")
    several = np.ndim(arrival_rate) == 1
    for rate in rates:
        non_negative("arrival_rate", rate)
    if rates.sum() == 0:
        raise BadArgument("arrival_rate", arrival_rate, "must be above 0")
    demands = [_demands(station, len(rates), several=several) for station in network]
    loads = [float(rates @ demand) for demand in demands]
    shares = {s.name: load / s.last_speed for s, load in zip(network, loads, strict=True)}
    limit = max(shares, key=lambda name: shares[name])
    if shares[limit] >= 1:
        raise UnstableQueue("arrival_rate", arrival_rate, shares[limit])
    residence = {s.name: d * _crowding(s, load) for s, d, load in zip(network, demands, loads, strict=True)}

    def shaped(figures: FloatArray) -> float | FloatArray:
        return figures if several else float(figures[0])

    return OpenNetwork(
        stations=network,
        arrival_rate=shaped(rates),
        throughput=shaped(rates),
        response_time=shaped(np.sum(list(residence.values()), axis=0)),
        utilization={s.name: _utilization(s, load) for s, load in zip(network, loads, strict=True)},
        queue_length={name: shaped(rates * time) for name, time in residence.items()},
        residence_time={name: shaped(time) for name, time in residence.items()},
        bottleneck=limit,
        saturation=1 / shares[limit] if shares[limit] > 0 else float("inf"),
    )


def _demands(station: Station, classes: int, *, several: bool) -> FloatArray:
    if isinstance(station.demand, tuple):
        if len(station.demand) != classes or not several:
            raise BadArgument("demand", station.demand, f"must fit the {classes} arrival rates ({station.name!r})")
        return np.asarray(station.demand)
    if several:
        raise BadArgument(
            "demand", station.demand, f"must have a figure for each of {classes} classes ({station.name!r})"
        )
    return np.array([number("demand", station.demand)])


def _utilization(station: Station, load: float) -> float:
    if station.kind == "delay":
        return load
    if station.rates is not None:
        return 1 - float(np.exp(_log_empty(station.rates, load)))
    return load / station.servers


def _crowding(station: Station, load: float) -> float:
    """Returns the mean number at a station over its load: the residence time as a multiple of the demand."""
    if station.kind == "delay":
        return 1.0
    if station.rates is not None:
        return _crowding_by_load(station.rates, load)
    return 1 + erlang_c(load, station.servers) / (station.servers - load)


def _log_weights(rates: tuple[float, ...], load: float) -> tuple[FloatArray, float]:
    """Returns the logarithms of P(j)/P(0) up to the last speed given, and the ratio of the geometric tail after it."""
    steps = np.log(load) - np.log(np.asarray(rates))
    return np.concatenate([[0.0], np.cumsum(steps)]), load / rates[-1]


def _log_empty(rates: tuple[float, ...], load: float) -> float:
    if load == 0:
        return 0.0
    log_weights, ratio = _log_weights(rates, load)
    return -float(logsumexp(np.append(log_weights, log_weights[-1] + np.log(ratio / (1 - ratio)))))


def _crowding_by_load(rates: tuple[float, ...], load: float) -> float:
    if load == 0:
        return 1 / rates[0]
    log_weights, ratio = _log_weights(rates, load)
    weights = np.exp(log_weights + _log_empty(rates, load))
    last = len(rates)
    # Beyond the last speed: sum over i >= 1 of (last + i) w ratio^i.
    tail = weights[-1] * ratio / (1 - ratio) * (last + 1 / (1 - ratio))
    return float((weights @ np.arange(last + 1) + tail) / load)
